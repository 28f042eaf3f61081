// Times competing runs alternately, with Google Benchmark's engine.
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
  double first_seconds = 0;  // approximate time of one run
  // Set for a device with its own clock: runs once and returns the seconds.
  std::function<double()> timed_run = {};
  // Called after the last sample, before any other contestant runs.
  std::function<void()> finished = {};
};

// The conditions for stopping to sample a contestant.
struct SamplingRule {
  double relative_width = 0.05;  // of the median's interval
  int min_samples = 9;
  int max_samples = 60;
  double budget_seconds = 2;  // for each contestant
  // This many samples are taken even if they exceed the budget.
  int least_samples = 3;

  // Returns the rule for one of several processes that share the samples.
  SamplingRule Shared(int processes) const;
};

struct Sampled {
  std::vector<double> samples;  // seconds per run
  Median median;
  std::string stopped_by;  // interval, samples or budget
};

// Returns the number of consecutive runs in a sample, about a millisecond.
int64_t RunsPerSample(const Contestant& contestant);

// Takes one sample and returns its seconds per run.
double OneSample(const Contestant& contestant, int64_t runs);

// Takes rounds of one sample per contestant, in rotated order, until every
// contestant has stopped.
std::vector<Sampled> SampleInTurns(std::span<const Contestant> contestants,
                                   const SamplingRule& rule);

}  // namespace subquad
