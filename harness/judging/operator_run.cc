#include "harness/judging/operator_run.h"

#include <algorithm>
#include <cmath>
#include <random>

#include "harness/cases/draws.h"

namespace subquad {

Numbers NormalNumbers(int64_t count, uint64_t seed, double factor) {
  std::mt19937_64 generator(seed);
  std::normal_distribution<double> normal;
  Numbers x(static_cast<size_t>(count));
  for (double& value : x) value = factor * normal(generator);
  return x;
}

double LargestDifference(const Numbers& a, const Numbers& b) {
  if (a.size() != b.size()) return HUGE_VAL;
  double largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double gap = std::abs(a[i] - b[i]);
    if (std::isnan(gap)) return gap;
    largest = std::max(largest, gap);
  }
  return largest;
}

Problem ResolveGiven(const Operator& op, const Params& params, Scalar scalar,
                     const std::vector<GivenTensor>& tensors,
                     const std::vector<std::string>& wanted) {
  std::vector<GivenShape> shapes;
  for (const GivenTensor& tensor : tensors)
    shapes.push_back({tensor.name, tensor.shape});
  return ResolveProblem(op, params, scalar, shapes, {}, wanted);
}

Trial MakeTrial(const Operator& op, const Params& params, Scalar scalar,
                const std::vector<GivenTensor>& tensors, uint64_t seed,
                const std::vector<std::string>& wanted) {
  Problem problem = ResolveGiven(op, params, scalar, tensors, wanted);
  Inputs inputs;
  for (size_t t = 0; t < problem.inputs.size(); ++t)
    for (const GivenTensor& array : tensors) {
      if (array.name != problem.inputs[t].name) continue;
      const auto count = static_cast<int64_t>(array.values.size());
      if (ElementCount(array.shape) != count)
        throw InvalidInput(
            "tensor " + array.name,
            std::to_string(ElementCount(array.shape)) + " values",
            std::to_string(count));
      Tensor tensor{array.name, array.shape, problem.InputSlices(t),
                    array.values};
      for (double& value : tensor.values) value = RoundTo(scalar, value);
      inputs.tensors.push_back(std::move(tensor));
    }
  return Trial(std::move(problem), std::move(inputs), seed);
}

std::vector<const Implementation*> CpuImplementations(const Problem& problem) {
  std::vector<const Implementation*> able;
  for (const Implementation* implementation : ImplementationsOf(*problem.op))
    if (implementation->backend == Backend::kCpu &&
        WhyNot(*implementation, problem).empty())
      able.push_back(implementation);
  return able;
}

Numbers RunOnce(const Implementation& implementation, Trial& trial, int threads,
                const std::string& output) {
  const auto prepared = implementation.Prepare(trial.problem(), trial.arrays(),
                                               {.threads = threads});
  trial.Poison();
  prepared->Run();
  const size_t index =
      output.empty() ? 0
                     : static_cast<size_t>(trial.problem().OutputIndex(output));
  const Arrays::Entry& out = trial.arrays().outputs[index];
  Numbers values(static_cast<size_t>(out.count));
  for (int64_t i = 0; i < out.count; ++i)
    values[static_cast<size_t>(i)] = ElementAt(out.scalar, out.data, i);
  return values;
}

OperatorRun& OperatorRun::Give(const std::string& name, Shape shape,
                               Numbers values) {
  const auto known = std::ranges::find(tensors_, name, &GivenTensor::name);
  GivenTensor& tensor =
      known == tensors_.end() ? tensors_.emplace_back() : *known;
  tensor = {name, std::move(shape), std::move(values)};
  return *this;
}

Numbers& OperatorRun::operator[](const std::string& name) {
  const auto known = std::ranges::find(tensors_, name, &GivenTensor::name);
  if (known == tensors_.end())
    throw InvalidInput(name, "a tensor of this problem", "none");
  return known->values;
}

std::vector<std::string> OperatorRun::Programs(Scalar scalar) const {
  std::vector<std::string> ids;
  for (const Implementation* implementation :
       CpuImplementations(Resolve(scalar)))
    ids.push_back(implementation->id);
  return ids;
}

Numbers OperatorRun::Run(const std::string& program, Scalar scalar, int threads,
                         const std::string& output) const {
  Trial trial = MakeTrialOf(scalar);
  return RunOnce(Find(program), trial, threads, output);
}

Verdict OperatorRun::Judge(const std::string& program, Scalar scalar) const {
  Trial trial = MakeTrialOf(scalar);
  return Verify(Find(program), trial, {});
}

Numbers OperatorRun::Bounds(Scalar scalar) const {
  const Trial trial = MakeTrialOf(scalar);
  const OutputLayout layout = LayoutOf(trial.problem(), 0);
  const auto reference = ReferenceIn<double>(trial.problem(), trial.inputs());
  Numbers value(static_cast<size_t>(layout.width)), of_row = value, all;
  for (int64_t place = 0; place < layout.heads * layout.rows; ++place) {
    reference->Row({0, place / layout.rows, place % layout.rows}, value.data(),
                   of_row.data());
    all.insert(all.end(), of_row.begin(), of_row.end());
  }
  return all;
}

Numbers OperatorRun::Definition() const {
  const Trial trial = MakeTrialOf(Scalar::kFloat64);
  const Problem& problem = trial.problem();
  const auto reference = op_.ReferenceLongDouble(problem, trial.inputs());
  const OutputLayout layout = LayoutOf(problem, 0);
  std::vector<long double> row(static_cast<size_t>(layout.width));
  Numbers numbers;
  for (int64_t h = 0; h < layout.heads; ++h)
    for (int64_t r = 0; r < layout.rows; ++r) {
      reference->Row({0, h, r}, row.data(), nullptr);
      for (long double value : row)
        numbers.push_back(static_cast<double>(value));
    }
  return numbers;
}

}  // namespace subquad
