// Runs a sweep: checks and measures every planned case and writes each record
// to disk before the next case begins.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/sweeps/sweep_plan.h"
#include "harness/sweeps/worker.h"

namespace subquad {

struct SweepOptions {
  std::vector<SweepAxes> sweeps;
  Filters filters;  // select from the planned cases
  std::filesystem::path out;
  std::string command;  // the command line, for the result file
  uint64_t seed = 1;
  bool resume = false;   // keep existing records
  bool force = false;    // delete existing records
  bool resident = true;  // also measure the peak resident set, in a new process
  int shard = 1, shards = 1;
  SamplingRule sampling;
  // Number of processes that share the samples of a case. Each one makes a pass
  // over all cases, so that minutes lie between the samples of a case.
  int processes = 1;
  // Also measure more sizes around the crossovers of recipes' curves.
  bool crossings = false;
  Limits limits;
};

// Returns the exit status: 0 if at least one record passed and none failed.
int RunSweep(const SweepOptions& options);

}  // namespace subquad
