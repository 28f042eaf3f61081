#include "harness/papers/frame/timed_run.h"

#include <chrono>
#include <cmath>

#include "harness/sweeps/sampler.h"

namespace subquad {

void TimeInTurns(std::vector<TimedRun>& runs, int threads, double budget,
                 Verified verified) {
  using Clock = std::chrono::steady_clock;
  const PrepareOptions options{.threads = threads};
  std::vector<std::unique_ptr<Prepared>> prepared;
  std::vector<Contestant> contestants;
  std::vector<TimedRun*> measured;
  for (TimedRun& run : runs) {
    run.seconds = {NAN, {NAN, NAN}, false};
    if (verified == Verified::kYes) {
      run.verdict = Verify(*run.implementation, *run.trial, options);
      if (run.verdict.outcome != Outcome::kPassed) continue;
    }
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
