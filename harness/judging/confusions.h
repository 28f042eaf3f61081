// The first output of programs whose authors were confused: a scale left out, a
// mask off by one, the wrap-around of a transform without padding, heads and
// rows exchanged, eps in another place. No verdict depends on these: some of
// them are as near to the right answer as rounding is.
#pragma once

#include <vector>

#include "harness/judging/misreadings.h"

namespace subquad {

// Those that apply, on up to `most_rows` of the answer's rows; none of
// gradients. `inputs` are altered on the way and given back as they were.
std::vector<WrongAnswer> UsualConfusions(const Problem& problem, Inputs& inputs,
                                         const Answer& answer,
                                         size_t most_rows = kMisreadRows);

}  // namespace subquad
