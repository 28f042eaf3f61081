// Whether what was timed is what was judged: the same object, still right after
// many runs, and computing again in each of them.
#pragma once

#include "harness/judging/trial.h"

namespace subquad {

struct AfterTiming {
  Verdict verdict;             // of all that is looked at
  bool deterministic = false;  // another run gives the same bits
};

// Call it right after a timed run of `prepared`, before any other writes to the
// trial's outputs.
//   1. The inputs must be as they were.
//   2. What that run left in the outputs is judged.
//   3. It runs again on poisoned outputs: is that right too, and bit for bit?
//   4. One input is doubled in place, in which the answer is linear, and it
//      runs once more: the answer must double. A result that was kept, by the
//      address of a tensor or by the count of runs, is caught here.
AfterTiming JudgeTimed(const Implementation& implementation, Trial& trial,
                       Prepared& prepared);

}  // namespace subquad
