// Checks that the timed object is the one that was judged, that its output is
// still right after many runs, and that every run really computes.
#pragma once

#include "harness/judging/trial.h"

namespace subquad {

struct AfterTiming {
  Verdict verdict;             // the first failure of the four checks below
  bool deterministic = false;  // another run gives the same bits
};

// Judges a timed run. Call it right after a timed run of `prepared`, before
// anything else writes to the trial's outputs.
//   1. The inputs must be unchanged.
//   2. The outputs of the timed run must be right.
//   3. Another run on outputs filled with NaN must be right too; the result
//      records whether it gives the same bits.
//   4. One input in which the answer is linear is doubled in place. After
//      another run the answer must have doubled. This catches results that are
//      cached by the address of a tensor or by the number of runs.
AfterTiming JudgeTimed(const Implementation& implementation, Trial& trial,
                       Prepared& prepared);

}  // namespace subquad
