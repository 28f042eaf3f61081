// One case, or a few that are timed in turns, measured in a process of its own,
// so that a crash, an allocation too large or a hang costs that case and not
// the sweep. The sweep writes a job to the worker's standard input; the worker
// answers with lines of JSON.
#pragma once

#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness/machine/floors.h"
#include "harness/sweeps/sampler.h"
#include "harness/sweeps/sweep_plan.h"

namespace subquad {

struct Limits {
  double case_seconds = 120;  // for one implementation of one case
  double run_seconds = 0;     // for one run, as expected; 0: a sixth of that
  int64_t memory_bytes = 0;   // for a worker; 0: four fifths of what is free
};

struct JobCase {
  std::string id;
  std::vector<std::string> implementations;  // "fft", "fft@cuda"
  // Of each implementation the digest of an output that was judged in another
  // process: only times are wanted, and the same bits are as right here. Other
  // bits are judged. Empty: everything is checked.
  std::vector<std::string> digests = {};
};

struct Job {
  std::vector<JobCase> cases;
  int threads = 1;
  SamplingRule sampling;
  Limits limits;
  Floors floors;
  bool resident = false;  // only the peak resident set of one implementation
  // Not empty: samples are taken one by one as they are asked for, and the
  // tensors are written here, so that other programs can be timed in turns.
  std::filesystem::path folder;

  nlohmann::ordered_json ToJson() const;
  static Job FromJson(const nlohmann::ordered_json& json);
};

std::string JobName(const Implementation& implementation);

// Stands for a name while several are timed in turns: nobody knows whose turn
// it is.
inline constexpr const char* kTurns = "turns";

// The worker's side: reads a job, one line of standard input, runs it, writes
// lines {"begin": NAME, "case": ID}, {"record": {..}} and {"resident_bytes":
// N}. With digests a record is {"case", "implementation", "backend"} with
// `seconds`, or with the `reason` why there are none. With a folder, for one
// case, it writes {"ready": [NAME, ..], ..} after the checks, answers every
// line NAME with {"seconds": OF ONE RUN}, and the line `end WHY`, WHY as in
// `stopped_by`, with the records.
int RunWorker();

// The sweep's side.
struct WorkerOutcome {
  std::vector<nlohmann::ordered_json> records;
  // The implementation that was under way at the end, or kTurns, and its case.
  std::string current, current_case;
  int64_t resident_bytes = 0;
  std::string failure;  // why it ended before its time, in words
  bool again = false;   // nobody else is to blame: run the rest again
  bool interrupted = false;
};
WorkerOutcome CallWorker(const Job& job, double seconds);

}  // namespace subquad
