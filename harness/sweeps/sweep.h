// A sweep: every planned case checked and measured, each record on disk before
// the next case begins.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/sweeps/sweep_plan.h"
#include "harness/sweeps/worker.h"

namespace subquad {

struct SweepOptions {
  std::vector<SweepAxes> sweeps;
  Filters filters;  // choose among what the sweeps name
  std::filesystem::path out;
  std::string command;  // as it was called, for the file
  uint64_t seed = 1;
  bool resume = false;   // keep what is there
  bool force = false;    // drop what is there
  bool resident = true;  // also the peak resident set of a fresh process
  int shard = 1, shards = 1;
  SamplingRule sampling;
  // How many processes share the samples of a case, one after another, each in
  // a pass over all cases: minutes lie between them.
  int processes = 1;
  // Also measure between the sizes where curves of recipes cross.
  bool crossings = false;
  Limits limits;
};

// Returns the exit status: 0 when at least one record passed and none failed.
int RunSweep(const SweepOptions& options);

}  // namespace subquad
