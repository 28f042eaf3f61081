#include "harness/sweeps/sampler.h"

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cmath>

namespace subquad {
namespace {

// Collects the engine's results and prints nothing.
class Collector : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>& runs) override {
    for (const Run& run : runs)
      if (run.run_type == Run::RT_Iteration && run.iterations > 0)
        seconds_ =
            run.real_accumulated_time / static_cast<double>(run.iterations);
  }
  double seconds() const { return seconds_; }

 private:
  double seconds_ = 0;
};

}  // namespace

SamplingRule SamplingRule::Shared(int processes) const {
  const auto share = [&](int samples) {
    return (samples + processes - 1) / processes;
  };
  return {relative_width, share(min_samples), share(max_samples),
          budget_seconds / processes, share(least_samples)};
}

double OneSample(const Contestant& contestant, int64_t runs) {
  Collector collector;
  benchmark::ClearRegisteredBenchmarks();
  auto* registered = benchmark::RegisterBenchmark(
      contestant.name.c_str(), [&](benchmark::State& state) {
        for (auto _ : state)
          if (contestant.timed_run)
            state.SetIterationTime(contestant.timed_run());
          else
            contestant.run();
      });
  registered->Iterations(runs);
  if (contestant.timed_run)
    registered->UseManualTime();
  else
    registered->UseRealTime();
  benchmark::RunSpecifiedBenchmarks(&collector);
  benchmark::ClearRegisteredBenchmarks();
  return collector.seconds();
}

int64_t RunsPerSample(const Contestant& contestant) {
  constexpr double kSampleSeconds = 1e-3;
  const double first = contestant.first_seconds;
  // On a device, the first run also loads the kernels.
  const bool is_typical = !contestant.timed_run;
  if (is_typical && first >= kSampleSeconds) return 1;
  // The first run of short programs is not typical: warm up and measure again.
  const int64_t runs = first < 1e-4 ? 16 : first < kSampleSeconds ? 2 : 1;
  const double seconds = std::max(1e-9, OneSample(contestant, runs));
  return std::clamp<int64_t>(std::llround(kSampleSeconds / seconds), 1,
                             1 << 20);
}

std::vector<Sampled> SampleInTurns(std::span<const Contestant> contestants,
                                   const SamplingRule& rule) {
  const size_t count = contestants.size();
  std::vector<Sampled> results(count);
  std::vector<int64_t> runs;
  std::vector<double> spent(count, 0);
  for (const Contestant& contestant : contestants)
    runs.push_back(RunsPerSample(contestant));
  for (size_t round = 0;; ++round) {
    bool active = false;
    for (size_t turn = 0; turn < count; ++turn) {
      const size_t i = (turn + round) % count;
      Sampled& result = results[i];
      if (!result.stopped_by.empty()) continue;
      active = true;
      const double seconds = OneSample(contestants[i], runs[i]);
      result.samples.push_back(seconds);
      spent[i] += seconds * static_cast<double>(runs[i]);
      const int taken = static_cast<int>(result.samples.size());
      result.median = MedianWithInterval(result.samples);
      const Interval& interval = result.median.interval;
      if (taken >= rule.min_samples &&
          interval.high - interval.low <=
              rule.relative_width * result.median.median)
        result.stopped_by = "interval";
      else if (taken >= rule.max_samples)
        result.stopped_by = "samples";
      else if (spent[i] >= rule.budget_seconds && taken >= rule.least_samples)
        result.stopped_by = "budget";
      if (!result.stopped_by.empty() && contestants[i].finished)
        contestants[i].finished();
    }
    if (!active) return results;
  }
}

}  // namespace subquad
