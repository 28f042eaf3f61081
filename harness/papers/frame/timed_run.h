// Times of implementations next to each other, for studies.
#pragma once

#include <vector>

#include "harness/base/statistics.h"
#include "harness/judging/trial.h"

namespace subquad {

// An algorithm on a problem, to be timed next to others.
struct TimedRun {
  const Implementation* implementation;
  Trial* trial;
  Verdict verdict;
  Median seconds;  // NaN unless the verdict is passed
};

// Whether only what has passed is timed.
enum class Verified { kYes, kNo };

// Checks all programs and measures those that pass alternately, `budget`
// seconds for each.
void TimeInTurns(std::vector<TimedRun>& runs, int threads, double budget,
                 Verified verified = Verified::kYes);

}  // namespace subquad
