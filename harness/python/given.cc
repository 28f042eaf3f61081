#include "harness/python/given.h"

#include <algorithm>
#include <cmath>
#include <thread>

#include "harness/cases/generate.h"
#include "harness/cases/write_case_folder.h"
#include "harness/judging/diagnose.h"
#include "harness/judging/resemblance.h"
#include "harness/judging/trial.h"
#include "optimized/base/thread_pool.h"

namespace subquad {
namespace {

std::vector<double> NumbersOf(const GivenArray& array) {
  std::vector<double> values(static_cast<size_t>(ElementCount(array.shape)));
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = ElementAt(array.scalar, array.data, static_cast<int64_t>(i));
  return values;
}

const ExpectedTensor* FindExpected(const CaseFolder& given,
                                   const std::string& output) {
  const auto found =
      std::ranges::find(given.expected, output, &ExpectedTensor::name);
  return found == given.expected.end() ? nullptr : &*found;
}

// Evaluates one element by the definition.
double DefinitionAt(const Problem& problem, const Inputs& inputs,
                    const RowId& id, int64_t column) {
  std::vector<long double> row(
      static_cast<size_t>(LayoutOf(problem, id.output).width));
  problem.op->ReferenceLongDouble(problem, inputs)
      ->Row(id, row.data(), nullptr);
  return static_cast<double>(row[static_cast<size_t>(column)]);
}

WorstPlace PlaceOf(const CaseFolder& given, const std::string& output, RowId id,
                   int64_t column) {
  const Problem& problem = given.problem;
  const int index = problem.OutputIndex(output);
  id.output = index;
  const OutputLayout layout = LayoutOf(problem, index);
  const int64_t heads = std::max<int64_t>(
      1, layout.heads / std::max<int64_t>(1, problem.Batch()));
  WorstPlace place{output, id.head / heads, id.head % heads, id.row, column, 0,
                   0};
  place.expected = DefinitionAt(problem, given.inputs, id, column);
  if (const ExpectedTensor* found = FindExpected(given, output))
    place.found = found->values[static_cast<size_t>(
        (id.head * layout.rows + id.row) * layout.width + column)];
  return place;
}

// Returns the problem in this scalar type. Its inputs are not rounded.
Problem InScalar(const CaseFolder& given, Scalar scalar) {
  Problem problem = given.problem;
  problem.scalar = scalar;
  return problem;
}

// Returns the outputs in the order of Problem::outputs; empty if not given.
Outputs OutputsOf(const CaseFolder& given) {
  Outputs outputs;
  for (const TensorRule& rule : given.problem.outputs) {
    const ExpectedTensor* found = FindExpected(given, rule.name);
    outputs.push_back(found ? found->values : std::vector<double>());
  }
  return outputs;
}

// Diagnoses outputs with NaN or infinite values; returns nothing if the problem
// has no answer.
std::optional<Diagnosis> DiagnoseNotFinite(const CaseFolder& given,
                                           Scalar scalar) {
  try {
    const Problem problem = InScalar(given, scalar);
    Inputs inputs = given.inputs;
    const Answer right = ComputeAnswer(problem, inputs, 1);
    return Diagnose(problem, inputs, right,
                    MakeWrongAnswers(problem, inputs, right),
                    WithNumbers(problem, right, OutputsOf(given)),
                    ToleranceOf(right, 1, {}), false);
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

// Returns a failed verdict if an output has NaN or infinite values.
std::optional<GivenVerdict> NotFinite(const CaseFolder& given, Scalar scalar) {
  int64_t count = 0, elements = 0, first = -1;
  const ExpectedTensor* where = nullptr;
  for (const ExpectedTensor& tensor : given.expected)
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      ++elements;
      if (std::isfinite(tensor.values[i])) continue;
      ++count;
      if (where) continue;
      where = &tensor;
      first = static_cast<int64_t>(i);
    }
  if (!where) return std::nullopt;
  const OutputLayout layout =
      LayoutOf(given.problem, given.problem.OutputIndex(where->name));
  const int64_t row = first / layout.width;
  GivenVerdict found;
  found.worst =
      PlaceOf(given, where->name, {0, row / layout.rows, row % layout.rows},
              first % layout.width);
  found.verdict = Verdict::Failed(std::to_string(count) + " of " +
                                  std::to_string(elements) +
                                  " elements are NaN or infinite");
  found.verdict.comparison.elements = elements;
  found.verdict.comparison.not_finite = count;
  found.verdict.diagnosis = DiagnoseNotFinite(given, scalar);
  found.scalar = scalar;
  found.deciding.error = HUGE_VAL;
  return found;
}

void SetWorst(const CaseFolder& given, GivenVerdict& found) {
  const ElementPlace& worst = found.verdict.comparison.worst;
  if (found.verdict.comparison.judged() > 0 && !worst.output.empty())
    found.worst = PlaceOf(given, worst.output, worst.id, worst.column);
}

// Rounds the inputs. Throws InvalidInput if a value overflows the type.
Inputs RoundedInputs(const CaseFolder& given, Scalar scalar) {
  Inputs inputs = given.inputs;
  for (Tensor& tensor : inputs.tensors)
    RoundTensor(scalar, tensor.name, tensor);
  return inputs;
}

}  // namespace

CaseFolder MakeGivenCase(const std::string& op, const Params& params,
                         const std::vector<GivenArray>& inputs,
                         const std::vector<GivenArray>& expected,
                         double expected_error) {
  if (!(expected_error >= 0) || !(expected_error < 1))
    throw InvalidInput("expected_error", "a number from 0 to below 1",
                       std::to_string(expected_error));
  CaseFolder given;
  given.op = &FindOperator(op);
  given.expected_error = expected_error;
  std::vector<std::string> names;
  std::vector<GivenShape> shapes;
  for (const GivenArray& array : inputs) {
    names.push_back(array.name);
    shapes.push_back({array.name, array.shape});
  }
  CheckInputNames(*given.op, params, names);
  given.problem = ResolveProblem(*given.op, params, Scalar::kFloat64, shapes);
  for (size_t i = 0; i < given.problem.inputs.size(); ++i) {
    const TensorRule& rule = given.problem.inputs[i];
    const GivenArray& array =
        *std::ranges::find(inputs, rule.name, &GivenArray::name);
    Tensor tensor{rule.name, array.shape, given.problem.InputSlices(i),
                  NumbersOf(array), array.scalar};
    CheckFinite(rule, tensor);
    given.inputs.tensors.push_back(std::move(tensor));
    given.has_float32 = given.has_float32 || array.scalar == Scalar::kFloat32;
  }
  given.op->CheckNumbers(given.problem, given.inputs);
  for (const GivenArray& array : expected) {
    const int index = IndexOf(given.problem.outputs, array.name);
    std::string known;
    for (const TensorRule& rule : given.problem.outputs)
      known += (known.empty() ? "" : ", ") + rule.name;
    if (index < 0)
      throw InvalidInput("output " + array.name, "one of " + known,
                         "an unknown output");
    const Shape shape = given.problem.OutputShape(static_cast<size_t>(index));
    if (array.shape != shape)
      throw InvalidInput("output " + array.name, ToString(shape),
                         ToString(array.shape));
    given.expected.push_back({array.name, shape, NumbersOf(array),
                              array.scalar == Scalar::kFloat32});
    given.has_float32 = given.has_float32 || array.scalar == Scalar::kFloat32;
  }
  return given;
}

GivenVerdict CheckGiven(const CaseFolder& given) {
  if (auto found = NotFinite(given, Scalar::kFloat64)) return *found;
  GivenVerdict found;
  CheckChoice choice;
  choice.wanted = [](const Implementation&, Scalar) { return false; };
  CheckCaseFolder(
      given,
      [&](const CheckLine& line) {
        found.verdict = line.verdict;
        found.deciding = line.deciding;
      },
      choice);
  SetWorst(given, found);
  return found;
}

GivenVerdict JudgeGiven(const CaseFolder& given, Scalar scalar,
                        const std::string& like, NumbersFrom from) {
  const Implementation own;
  const Implementation& judged_as =
      like.empty() ? own : FindImplementation(given.op->description().id, like);
  if (auto found = NotFinite(given, scalar)) return *found;
  for (const TensorRule& rule : given.problem.outputs)
    if (!FindExpected(given, rule.name))
      throw InvalidInput("output " + rule.name, "an array", "none");
  GivenVerdict found;
  found.scalar = scalar;
  Trial trial(InScalar(given, scalar), given.inputs, 1, from);
  Answer answer = trial.answer();
  if (given.expected_error > 0) {
    for (OutputAnswer& one : answer.outputs)
      one.given_error = given.expected_error * one.largest;
    trial.set_answer(std::move(answer));
  }
  trial.SetOutputs(OutputsOf(given));
  found.verdict = trial.JudgeOutputs(judged_as);
  trial.Explain(judged_as, found.verdict);
  found.deciding =
      DecidingGateOf(found.verdict.comparison, trial.IsNormWise(judged_as));
  SetWorst(given, found);
  return found;
}

OwnTest MakeOwnTest(const std::string& op, const Params& params,
                    const std::vector<GivenArray>& inputs,
                    const std::optional<GivenArray>& grad, Scalar scalar,
                    const AllClose& tolerance) {
  for (const double part : {tolerance.relative, tolerance.absolute})
    if (!(part >= 0) || !std::isfinite(part))
      throw InvalidInput("rtol, atol", "finite numbers from 0",
                         std::to_string(part));
  OwnTest test;
  test.tolerance = tolerance;
  const CaseFolder out = MakeGivenCase(op, params, inputs, {}, 0);
  test.problem = InScalar(out, scalar);
  test.inputs = RoundedInputs(out, scalar);
  if (grad) {
    std::vector<GivenArray> all = inputs;
    all.push_back(*grad);
    const CaseFolder back = MakeGivenCase(op, params, all, {}, 0);
    test.backward = InScalar(back, scalar);
    test.backward_inputs = RoundedInputs(back, scalar);
  }
  return test;
}

std::vector<double> DefinitionRows(const CaseFolder& given, size_t output,
                                   std::vector<int64_t> rows, Shape& shape) {
  const Problem& problem = given.problem;
  const OutputLayout layout = LayoutOf(problem, static_cast<int>(output));
  for (const int64_t row : rows)
    if (row < 0 || row >= layout.rows)
      throw InvalidInput(
          "rows", "integers from 0 to " + std::to_string(layout.rows - 1),
          std::to_string(row));
  if (rows.empty())
    for (int64_t row = 0; row < layout.rows; ++row) rows.push_back(row);
  shape = problem.OutputShape(output);
  const auto count = static_cast<int64_t>(rows.size());
  shape[problem.output_leading[output].size()] = count;
  const auto reference = problem.op->ReferenceLongDouble(problem, given.inputs);
  std::vector<double> values(
      static_cast<size_t>(layout.heads * count * layout.width));
  ThreadPool pool(static_cast<int>(std::thread::hardware_concurrency()));
  pool.For(layout.heads * count, [&](int64_t place, int) {
    std::vector<long double> row(static_cast<size_t>(layout.width));
    reference->Row({static_cast<int>(output), place / count,
                    rows[static_cast<size_t>(place % count)]},
                   row.data(), nullptr);
    std::ranges::transform(
        row, values.begin() + place * layout.width,
        [](long double x) { return static_cast<double>(x); });
  });
  return values;
}

void WriteGivenCase(const std::string& folder, CaseFolder given,
                    const std::string& source) {
  for (size_t o = 0; o < given.problem.outputs.size(); ++o) {
    const std::string& name = given.problem.outputs[o].name;
    if (FindExpected(given, name)) continue;
    Shape shape;
    std::vector<double> values = DefinitionRows(given, o, {}, shape);
    given.expected.push_back({name, shape, std::move(values), false});
  }
  WriteCaseFolder(folder, given.problem, given.inputs, given.expected, source,
                  given.expected_error);
}

}  // namespace subquad
