#include "harness/python/given.h"

#include <algorithm>
#include <cmath>
#include <limits>
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
    values[i] =
        array.is_boolean
            ? static_cast<const unsigned char*>(array.data)[i]
            : ElementAt(array.scalar, array.data, static_cast<int64_t>(i));
  return values;
}

const ExpectedTensor* FindExpected(const CaseFolder& folder,
                                   const std::string& output) {
  const auto position =
      std::ranges::find(folder.expected, output, &ExpectedTensor::name);
  return position == folder.expected.end() ? nullptr : &*position;
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

WorstPlace PlaceOf(const CaseFolder& folder, const std::string& output,
                   RowId id, int64_t column) {
  const Problem& problem = folder.problem;
  const int index = problem.OutputIndex(output);
  id.output = index;
  const OutputLayout layout = LayoutOf(problem, index);
  const int64_t heads = std::max<int64_t>(
      1, layout.heads / std::max<int64_t>(1, problem.Batch()));
  WorstPlace place{output, id.head / heads, id.head % heads, id.row, column, 0,
                   0};
  place.expected = DefinitionAt(problem, folder.inputs, id, column);
  if (const ExpectedTensor* expected = FindExpected(folder, output))
    place.found = expected->values[static_cast<size_t>(
        (id.head * layout.rows + id.row) * layout.width + column)];
  return place;
}

// Returns the problem in this scalar type. Its inputs are not rounded.
Problem InScalar(const CaseFolder& folder, Scalar scalar) {
  Problem problem = folder.problem;
  problem.scalar = scalar;
  return problem;
}

// Returns the outputs in the order of Problem::outputs; empty if not given.
Outputs OutputsOf(const CaseFolder& folder) {
  Outputs outputs;
  for (const TensorRule& rule : folder.problem.outputs) {
    const ExpectedTensor* expected = FindExpected(folder, rule.name);
    outputs.push_back(expected ? expected->values : std::vector<double>());
  }
  return outputs;
}

// Diagnoses outputs with NaN or infinite values; returns nothing if the problem
// has no answer.
std::optional<Diagnosis> DiagnoseNotFinite(const CaseFolder& folder,
                                           Scalar scalar) {
  try {
    const Problem problem = InScalar(folder, scalar);
    const Inputs& inputs = folder.inputs;
    const Answer right = ComputeAnswer(problem, inputs, 1);
    return Diagnose(problem, inputs, right,
                    MakeWrongAnswers(problem, inputs, right),
                    WithNumbers(problem, right, OutputsOf(folder)),
                    ToleranceOf(right, 1, {}), false);
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

// Tells whether a number may be in this output.
bool IsAllowed(const TensorRule& rule, double number) {
  return std::isfinite(number) ||
         (rule.may_be_minus_infinity &&
          number == -std::numeric_limits<double>::infinity());
}

// Returns a failed verdict if an output has NaN or infinite values.
// `diagnoses`: whether the verdict says what the output resembles.
std::optional<GivenVerdict> NotFinite(const CaseFolder& folder, Scalar scalar,
                                      bool diagnoses = true) {
  int64_t count = 0, elements = 0, first = -1;
  const ExpectedTensor* where = nullptr;
  for (const ExpectedTensor& tensor : folder.expected) {
    const TensorRule& rule = folder.problem.outputs[static_cast<size_t>(
        folder.problem.OutputIndex(tensor.name))];
    for (size_t i = 0; i < tensor.values.size(); ++i) {
      ++elements;
      if (IsAllowed(rule, tensor.values[i])) continue;
      ++count;
      if (where) continue;
      where = &tensor;
      first = static_cast<int64_t>(i);
    }
  }
  if (!where) return std::nullopt;
  const OutputLayout layout =
      LayoutOf(folder.problem, folder.problem.OutputIndex(where->name));
  const int64_t row = first / layout.width;
  GivenVerdict verdict;
  verdict.worst =
      PlaceOf(folder, where->name, {0, row / layout.rows, row % layout.rows},
              first % layout.width);
  verdict.verdict = Verdict::Failed(std::to_string(count) + " of " +
                                    std::to_string(elements) +
                                    " elements are NaN or infinite");
  verdict.verdict.comparison.elements = elements;
  verdict.verdict.comparison.not_finite = count;
  if (diagnoses) verdict.verdict.diagnosis = DiagnoseNotFinite(folder, scalar);
  verdict.scalar = scalar;
  verdict.deciding.error = HUGE_VAL;
  return verdict;
}

void SetWorst(const CaseFolder& folder, GivenVerdict& verdict) {
  const ElementPlace& worst = verdict.verdict.comparison.worst;
  if (verdict.verdict.comparison.judged() > 0 && !worst.output.empty())
    verdict.worst = PlaceOf(folder, worst.output, worst.id, worst.column);
}

// Rounds the inputs. Throws InvalidInput if a value overflows the type.
Inputs RoundedInputs(const CaseFolder& folder, Scalar scalar) {
  Inputs inputs = folder.inputs;
  for (Tensor& tensor : inputs.tensors)
    RoundTensor(scalar, tensor.name, tensor);
  return inputs;
}

}  // namespace

void CheckType(const TensorRule& rule, const GivenArray& array) {
  if (array.is_boolean && !rule.zero_or_one)
    throw InvalidInput(array.name, "an array of floats", "booleans");
}

CaseFolder MakeGivenCase(const std::string& op, const Params& params,
                         const std::vector<GivenArray>& inputs,
                         const std::vector<GivenArray>& expected,
                         double expected_error,
                         const std::vector<std::string>& wanted) {
  if (!(expected_error >= 0) || !(expected_error < 1))
    throw InvalidInput("expected_error", "a number from 0 to below 1",
                       std::to_string(expected_error));
  CaseFolder folder;
  folder.op = &FindOperator(op);
  folder.expected_error = expected_error;
  std::vector<std::string> names;
  std::vector<GivenShape> shapes;
  for (const GivenArray& array : inputs) {
    names.push_back(array.name);
    shapes.push_back({array.name, array.shape});
  }
  CheckInputNames(*folder.op, params, names);
  const bool backward = std::ranges::find(names, "grad") != names.end();
  const Signature signature = folder.op->SignatureFor(params, backward);
  std::vector<std::string> outputs =
      OptionalOutputs(signature, [&](const std::string& name) {
        return std::ranges::count(expected, name, &GivenArray::name) > 0;
      });
  outputs.insert(outputs.end(), wanted.begin(), wanted.end());
  folder.problem =
      ResolveProblem(*folder.op, params, Scalar::kFloat64, shapes, {}, outputs);
  for (size_t i = 0; i < folder.problem.inputs.size(); ++i) {
    const TensorRule& rule = folder.problem.inputs[i];
    const GivenArray& array =
        *std::ranges::find(inputs, rule.name, &GivenArray::name);
    CheckType(rule, array);
    Tensor tensor{rule.name, array.shape, folder.problem.InputSlices(i),
                  NumbersOf(array), array.scalar};
    CheckNumbersOf(rule, tensor);
    folder.inputs.tensors.push_back(std::move(tensor));
    folder.has_float32 = folder.has_float32 || array.scalar == Scalar::kFloat32;
  }
  folder.op->CheckNumbers(folder.problem, folder.inputs);
  for (const GivenArray& array : expected) {
    const int index = IndexOf(folder.problem.outputs, array.name);
    if (index < 0) {
      std::vector<std::string> known;
      for (const TensorRule& rule : signature.outputs)
        known.push_back(rule.name);
      throw UnknownName("output", known, array.name);
    }
    const Shape shape = folder.problem.OutputShape(static_cast<size_t>(index));
    if (array.shape != shape)
      throw InvalidInput("output " + array.name, "the shape " + ToString(shape),
                         ToString(array.shape));
    folder.expected.push_back({array.name, shape, NumbersOf(array),
                               array.scalar == Scalar::kFloat32});
    folder.has_float32 = folder.has_float32 || array.scalar == Scalar::kFloat32;
  }
  return folder;
}

GivenVerdict CheckGiven(const CaseFolder& folder) {
  const Scalar scalar =
      folder.has_float32 ? Scalar::kFloat32 : Scalar::kFloat64;
  if (auto not_finite = NotFinite(folder, scalar)) return *not_finite;
  GivenVerdict verdict;
  CheckChoice choice;
  choice.wanted = [](const Implementation&, Scalar) { return false; };
  CheckCaseFolder(
      folder,
      [&](const CheckLine& line) {
        verdict.verdict = line.verdict;
        verdict.deciding = line.deciding;
      },
      choice);
  SetWorst(folder, verdict);
  return verdict;
}

GivenVerdict JudgeGiven(const CaseFolder& folder, Scalar scalar,
                        const std::string& like, NumbersFrom from,
                        const Effort& effort) {
  const Implementation own;
  const Implementation& judged_as =
      like.empty() ? own
                   : FindImplementation(folder.op->description().id, like);
  if (auto not_finite = NotFinite(folder, scalar, effort.diagnosis))
    return *not_finite;
  for (const TensorRule& rule : folder.problem.outputs)
    if (!FindExpected(folder, rule.name))
      throw InvalidInput("output " + rule.name,
                         "an array, since all outputs are judged together",
                         "none");
  GivenVerdict verdict;
  verdict.scalar = scalar;
  Trial trial(InScalar(folder, scalar), folder.inputs, 1, from,
              effort.most_work);
  Answer answer = trial.answer();
  if (folder.expected_error > 0) {
    for (OutputAnswer& output : answer.outputs)
      output.given_error = folder.expected_error * output.largest;
    trial.set_answer(std::move(answer));
  }
  trial.SetOutputs(OutputsOf(folder));
  if (!effort.margin) {
    const RowBound bound =
        judged_as.norm_bound
            ? judged_as.norm_bound(trial.problem(), trial.inputs())
            : RowBound();
    const bool norm_wise = static_cast<bool>(bound);
    const Comparison comparison =
        Compare(trial.problem(), trial.answer(), trial.arrays(),
                ToleranceOf(trial.answer(), judged_as.bound_factor, bound));
    Margin unknown;
    unknown.wrong_answers = 1;  // at least one mistake is assumed to apply
    verdict.verdict =
        Judge(comparison, unknown, norm_wise, 0, NumbersFrom::kUser);
    if (verdict.verdict.outcome != Outcome::kFailed || !effort.diagnosis) {
      verdict.deciding = DecidingGateOf(comparison, norm_wise);
      SetWorst(folder, verdict);
      return verdict;
    }
  }
  verdict.verdict = trial.JudgeOutputs(judged_as);
  if (effort.diagnosis) trial.Explain(judged_as, verdict.verdict);
  verdict.deciding =
      DecidingGateOf(verdict.verdict.comparison, trial.IsNormWise(judged_as));
  SetWorst(folder, verdict);
  return verdict;
}

Verdict JudgeRowsGiven(const CaseFolder& folder, Scalar scalar,
                       const std::string& like, uint64_t seed) {
  // Work of about a tenth of a second.
  constexpr double kWork = 1e8;
  const Implementation own;
  const Implementation& judged_as =
      like.empty() ? own
                   : FindImplementation(folder.op->description().id, like);
  const Problem problem = InScalar(folder, scalar);
  Trial trial(problem, folder.inputs, seed, NumbersFrom::kUser);
  trial.SetOutputs(OutputsOf(folder));
  const Answer answer =
      ComputeAnswer(problem, trial.inputs(), SelectRows(problem, seed, kWork),
                    {.plain = kWork, .emulated = kWork});
  const RowBound bound = judged_as.norm_bound
                             ? judged_as.norm_bound(problem, trial.inputs())
                             : RowBound();
  const Comparison comparison =
      Compare(problem, answer, trial.arrays(),
              ToleranceOf(answer, judged_as.bound_factor, bound));
  return Judge(comparison, {}, static_cast<bool>(bound), 0, NumbersFrom::kUser);
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

std::vector<double> DefinitionRows(const CaseFolder& folder, size_t output,
                                   std::vector<int64_t> rows, Shape& shape) {
  const Problem& problem = folder.problem;
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
  if (const size_t axis = problem.output_leading[output].size();
      axis < shape.size())
    shape[axis] = count;
  const auto reference =
      problem.op->ReferenceLongDouble(problem, folder.inputs);
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

void WriteGivenCase(const std::string& folder, CaseFolder case_folder,
                    const std::string& source) {
  for (const ExpectedTensor& tensor : case_folder.expected) {
    TensorRule rule = case_folder.problem.outputs[static_cast<size_t>(
        case_folder.problem.OutputIndex(tensor.name))];
    rule.name = "output " + tensor.name;
    CheckNumbersOf(rule, {tensor.name, tensor.shape, {}, tensor.values});
  }
  for (size_t o = 0; o < case_folder.problem.outputs.size(); ++o) {
    const std::string& name = case_folder.problem.outputs[o].name;
    if (FindExpected(case_folder, name)) continue;
    Shape shape;
    std::vector<double> values = DefinitionRows(case_folder, o, {}, shape);
    case_folder.expected.push_back({name, shape, std::move(values), false});
  }
  WriteCaseFolder(folder, case_folder.problem, case_folder.inputs,
                  case_folder.expected, source, case_folder.expected_error);
}

}  // namespace subquad
