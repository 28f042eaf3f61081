#include "harness/papers/studies/operator_run.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include "harness/base/registry.h"
#include "harness/cases/draws.h"
#include "harness/cases/generate.h"
#include "harness/sweeps/sampler.h"

namespace subquad {

Trial MakeTrial(const Operator& op, const Params& params, Scalar scalar,
                std::vector<GivenTensor> tensors, uint64_t seed) {
  std::vector<GivenShape> shapes;
  for (const GivenTensor& tensor : tensors)
    shapes.push_back({tensor.name, tensor.shape});
  Problem problem = ResolveProblem(op, params, scalar, shapes);
  Inputs inputs;
  for (const TensorRule& rule : problem.inputs)
    for (GivenTensor& given : tensors) {
      if (given.name != rule.name) continue;
      Tensor tensor;
      tensor.name = given.name;
      tensor.shape = given.shape;
      tensor.values = std::move(given.values);
      for (double& value : tensor.values) value = RoundTo(scalar, value);
      inputs.tensors.push_back(std::move(tensor));
    }
  return Trial(std::move(problem), std::move(inputs), seed);
}

std::vector<const Implementation*> CpuImplementations(const Operator& op,
                                                      Scalar scalar) {
  std::vector<const Implementation*> able;
  for (const Implementation* implementation : ImplementationsOf(op))
    if (implementation->backend == Backend::kCpu &&
        std::ranges::count(implementation->scalars, scalar) > 0)
      able.push_back(implementation);
  return able;
}

std::vector<double> RunOnce(const Implementation& implementation, Trial& trial,
                            int threads) {
  const auto prepared = implementation.Prepare(trial.problem(), trial.arrays(),
                                               {.threads = threads});
  trial.Poison();
  prepared->Run();
  const Arrays::Entry& out = trial.arrays().outputs.front();
  std::vector<double> values(static_cast<size_t>(out.count));
  for (int64_t i = 0; i < out.count; ++i)
    values[static_cast<size_t>(i)] = ElementAt(out.scalar, out.data, i);
  return values;
}

const Operator* OperatorOrNull(std::string_view id) {
  for (const Operator* op : Operators())
    if (op->description().id == id) return op;
  return nullptr;
}

void TimeInTurns(std::vector<TimedRun>& runs, int threads, double budget) {
  using Clock = std::chrono::steady_clock;
  const PrepareOptions options{.threads = threads};
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::vector<Contestant> contestants;
  std::vector<TimedRun*> measured;
  for (TimedRun& run : runs) {
    run.seconds = {NAN, {NAN, NAN}, false};
    run.verdict = Verify(*run.implementation, *run.trial, options);
    if (run.verdict.outcome != Outcome::kPassed) continue;
    prepared.push_back(run.implementation->Prepare(
        run.trial->problem(), run.trial->arrays(), options));
    const auto start = Clock::now();
    prepared.back()->Run();
    contestants.push_back(
        {run.implementation->id, [&one = *prepared.back()] { one.Run(); },
         std::chrono::duration<double>(Clock::now() - start).count()});
    measured.push_back(&run);
  }
  if (contestants.empty()) return;
  const std::vector<Sampled> sampled =
      SampleInTurns(contestants, {.min_samples = 6, .budget_seconds = budget});
  for (size_t i = 0; i < measured.size(); ++i)
    measured[i]->seconds = sampled[i].median;
}

}  // namespace subquad
