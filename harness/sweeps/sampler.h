// Times of competing runs, taken in turns on Google Benchmark's engine.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "harness/base/statistics.h"

namespace subquad {

struct Contestant {
  std::string name;
  std::function<void()> run;
  double first_seconds = 0;  // about how long one run takes
  // Where a device has a clock of its own: seconds of one run by that.
  std::function<double()> timed_run = {};
  // Called after its last sample, before anybody else runs.
  std::function<void()> finished = {};
};

// When to stop taking samples of a contestant.
struct SamplingRule {
  double relative_width = 0.05;  // of the median's interval
  int min_samples = 9;
  int max_samples = 60;
  double budget_seconds = 2;  // for each contestant
  // Samples that are taken even where they exceed the budget.
  int least_samples = 3;

  // The part of one of several processes that share the samples.
  SamplingRule Shared(int processes) const;
};

struct Sampled {
  std::vector<double> samples;  // seconds per run
  Median median;
  std::string stopped_by;  // interval, samples or budget
};

// How many runs in a row make a sample: about a millisecond of them.
int64_t RunsPerSample(const Contestant& contestant);

// Seconds per run of one sample.
double OneSample(const Contestant& contestant, int64_t runs);

// Rounds of one sample each, the order rotated, until every contestant has
// stopped.
std::vector<Sampled> SampleInTurns(std::span<const Contestant> contestants,
                                   const SamplingRule& rule);

}  // namespace subquad
