// Measures one case, or a few that are timed alternately, in a process of its
// own, so that a crash, a huge allocation or a hang costs only that case and
// not the sweep. The sweep writes a job to the worker's standard input, and the
// worker answers with lines of JSON.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/machine/floors.h"
#include "harness/results/record.h"
#include "harness/sweeps/sampler.h"
#include "harness/sweeps/sweep_plan.h"

namespace subquad {

struct Limits {
  double case_seconds = 120;  // for one implementation of one case
  double run_seconds = 0;    // estimate for one run; 0: a sixth of case_seconds
  int64_t memory_bytes = 0;  // for a worker; 0: four fifths of free memory
};

struct JobCase {
  Case test_case;
  std::vector<const Implementation*> implementations;
  // For each implementation, the digest of an output that another process has
  // judged. If this process computes the same bits, it only measures; other
  // bits are judged. Empty: everything is judged.
  std::vector<std::string> digests = {};
};

// An implementation of a job: cases[part].implementations[index].
struct JobPlace {
  size_t part = 0, index = 0;

  bool operator==(const JobPlace&) const = default;
  Json ToJson() const;
};

struct Job {
  std::vector<JobCase> cases;
  int threads = 1;
  SamplingRule sampling;
  Limits limits;
  Floors floors;
  bool resident = false;  // measure only the peak resident set, of one program
  // If not empty, samples are taken one by one on request, and the tensors are
  // written to this folder, so that other programs can be timed alternately.
  std::string folder;

  Json ToJson() const;
  static Job FromJson(const Json& json);
};

std::string JobName(const Implementation& implementation);

// Runs the worker: reads a job, one line of standard input, runs it and writes
// lines. PLACE is a JobPlace, {"part": 0, "index": 1}.
//   {"begin": PLACE}                    runs this implementation from now on
//   {"begin": null}                     times all of them alternately
//   {"record": {..}, "place": PLACE}    the result of one implementation
//   {"more": {..}, "place": PLACE}      the same with digests: MoreSamples
//   {"resident_bytes": N}
// With a folder, for one case, the worker writes {"ready": [NAME, ..], ..}
// after the checks. It then answers every line NAME with {"seconds": OF ONE
// RUN}, and the line `end WHY`, WHY as in `stopped_by`, with the records.
int RunWorker();

// Samples of an implementation that another process has checked.
struct MoreSamples {
  std::string reason;  // why there are none; empty if there are
  std::optional<Times> seconds;

  Json ToJson() const;
};

// The result of a worker, as the sweep sees it.
struct WorkerOutcome {
  template <typename Result>
  struct Answer {
    JobPlace place;
    Result result;
  };
  std::vector<Answer<Record>> records;
  std::vector<Answer<MoreSamples>> more;
  // The implementation that was running at the end, if it is known: not while
  // several are timed alternately.
  std::optional<JobPlace> current;
  bool in_turns = false;  // several were being timed at the end
  int64_t resident_bytes = 0;
  std::string failure;  // why it ended before its time, in words
  bool again = false;   // the rest has to run in a new process
  bool interrupted = false;
};
WorkerOutcome CallWorker(const Job& job, double seconds);

}  // namespace subquad
