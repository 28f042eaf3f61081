// The program's operators on tensors that a study makes itself.
#pragma once

#include <string>
#include <vector>

#include "algorithms/implementation.h"
#include "harness/base/statistics.h"
#include "harness/judging/trial.h"

namespace subquad {

struct GivenTensor {
  std::string name;
  Shape shape;
  std::vector<double> values;
};

// The problem with these tensors, rounded to the scalar type.
Trial MakeTrial(const Operator& op, const Params& params, Scalar scalar,
                std::vector<GivenTensor> tensors, uint64_t seed);

// The implementations of an operator on the CPU that take this scalar type.
std::vector<const Implementation*> CpuImplementations(const Operator& op,
                                                      Scalar scalar);

// The first output after one run.
std::vector<double> RunOnce(const Implementation& implementation, Trial& trial,
                            int threads);

// An operator by its id, or null where it is not in the registry (yet).
const Operator* OperatorOrNull(std::string_view id);

// An algorithm on a problem, to be timed next to others.
struct TimedRun {
  const Implementation* implementation;
  Trial* trial;
  Verdict verdict;
  Median seconds;  // NaN unless the verdict is passed
};

// Checks each of them and measures those that pass, in turns, `budget` seconds
// for each.
void TimeInTurns(std::vector<TimedRun>& runs, int threads, double budget);

}  // namespace subquad
