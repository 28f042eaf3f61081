#include "harness/judging/after_timing.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "harness/cases/draws.h"

namespace subquad {
namespace {

std::vector<size_t> LinearInputs(const Problem& problem) {
  std::vector<size_t> inputs;
  for (size_t i = 0; i < problem.inputs.size(); ++i)
    if (problem.inputs[i].linear) inputs.push_back(i);
  return inputs;
}

std::string ChangedInput(const Trial& trial) {
  const std::vector<Tensor>& tensors = trial.inputs().tensors;
  for (size_t t = 0; t < tensors.size(); ++t) {
    const Arrays::Entry& entry = trial.arrays().inputs[t];
    for (size_t i = 0; i < tensors[t].values.size(); ++i)
      if (!(ElementAt(entry.scalar, entry.data, static_cast<int64_t>(i)) ==
            tensors[t].values[i]))
        return entry.name;
  }
  return "";
}

std::vector<std::vector<unsigned char>> OutputBits(const Trial& trial) {
  std::vector<std::vector<unsigned char>> bits;
  for (const Arrays::Entry& entry : trial.arrays().outputs) {
    const auto* data = static_cast<const unsigned char*>(entry.data);
    bits.emplace_back(data, data + entry.count * Info(entry.scalar).bytes);
  }
  return bits;
}

// Writes the original values of an input times a factor.
void Write(const Trial& trial, size_t input, double factor) {
  const Arrays::Entry& entry = trial.arrays().inputs[input];
  const std::vector<double>& values = trial.inputs().tensors[input].values;
  for (size_t i = 0; i < values.size(); ++i)
    StoreAt(entry.scalar, factor * values[i], entry.data, i);
}

// Returns two, or a factor at which no value leaves the range of the type.
double FactorFor(const Trial& trial, size_t input) {
  const Scalar scalar = trial.problem().scalar;
  return std::ranges::all_of(
             trial.inputs().tensors[input].values,
             [&](double x) { return std::isfinite(RoundTo(scalar, 2 * x)); })
             ? 2
             : 0.5;
}

// Returns the answer where all linear inputs are multiplied by a factor.
Answer Scaled(const Problem& problem, Answer answer, double factor) {
  for (size_t o = 0; o < answer.outputs.size(); ++o) {
    if (problem.outputs[o].apart) continue;
    OutputAnswer& output = answer.outputs[o];
    for (long double& value : output.value) value *= factor;
    for (double& units : output.units) units *= factor;
    for (double& slack : output.slack) slack *= factor;
    output.given_error *= factor;
    output.plain_error *= factor;
    output.largest *= factor;
  }
  return answer;
}

Tolerance Scaled(const Problem& problem, Tolerance tolerance, double factor) {
  for (size_t o = 0; o < tolerance.units.size(); ++o)
    if (!problem.outputs[o].apart)
      for (double& bound : tolerance.units[o]) bound *= factor;
  return tolerance;
}

}  // namespace

AfterTiming JudgeTimed(const Implementation& implementation, Trial& trial,
                       Prepared& prepared) {
  AfterTiming result;
  const auto fail = [&](const std::string& reason) {
    result.verdict.outcome = Outcome::kFailed;
    result.verdict.cause = Reason::kInWords;
    result.verdict.reason = reason;
    return result;
  };
  try {
    // After timing on a device the outputs are still in device memory.
    if (DeviceRun* device = prepared.OnDevice()) device->Download();
    if (const std::string changed = ChangedInput(trial); !changed.empty())
      return fail("it changed its input " + changed);
    result.verdict = trial.JudgeOutputs(implementation);
    if (!result.verdict.passed())
      return fail("after it was timed: " + result.verdict.reason);
    const auto before = OutputBits(trial);
    const Verdict again = trial.RunAndJudge(implementation, prepared);
    if (!again.passed())
      return fail("in a run after it was timed: " + again.reason);
    result.deterministic = OutputBits(trial) == before;

    const Problem& problem = trial.problem();
    const std::vector<size_t> inputs = LinearInputs(problem);
    if (inputs.empty()) return result;
    double factor = 2;
    for (const size_t input : inputs)
      factor = std::min(factor, FactorFor(trial, input));
    for (const size_t input : inputs) Write(trial, input, factor);
    trial.Poison();
    prepared.Run();
    const Comparison comparison = Compare(
        problem, Scaled(problem, trial.answer(), factor), trial.arrays(),
        Scaled(problem, trial.ToleranceFor(implementation), factor));
    for (const size_t input : inputs) Write(trial, input, 1);
    const bool right =
        comparison.not_finite == 0 && comparison.max_over_bound <= 1 &&
        (trial.IsNormWise(implementation) || OverYardstick(comparison) <= 1);
    if (!right)
      return fail(problem.inputs[inputs.front()].name +
                  " was scaled in place, but the answer did not change with "
                  "it: the result seems to be cached");
  } catch (const std::exception& error) {
    return fail(std::string("in a run after it was timed: ") + error.what());
  }
  return result;
}

}  // namespace subquad
