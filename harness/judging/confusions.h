// Wrong answers that name common mistakes: a scale left out, a mask off by one,
// the wrap-around of a transform without padding, heads and rows exchanged, eps
// in the wrong place. They are used only to name a mistake. No verdict depends
// on them, because some are as close to the right answer as rounding errors.
#pragma once

#include <vector>

#include "harness/judging/misreadings.h"

namespace subquad {

// Returns the confusions that apply to the first output, on up to `most_rows`
// of the answer's rows; none for gradients. `inputs` are altered temporarily
// and restored.
std::vector<WrongAnswer> UsualConfusions(const Problem& problem, Inputs& inputs,
                                         const Answer& answer,
                                         size_t most_rows = kMisreadRows);

}  // namespace subquad
