// What programs answer whose arithmetic has fewer digits than it should have,
// and what right programs answer: the definition in another arithmetic,
// emulated (reference/base/emulated.h) where the machine has none like it.
#pragma once

#include <vector>

#include "harness/judging/comparison.h"

namespace subquad {

// Products of factors that were rounded to a narrower type first, and sums kept
// in one: those that are wrong in the problem's scalar type. On some rows, for
// up to about `most_work` multiply-adds each, or a few rows; none where these
// take too long.
std::vector<WrongAnswer> LowPrecisionAnswers(const Problem& problem,
                                             const Inputs& inputs,
                                             const Answer& answer,
                                             double most_work);

// What the plain program gives for all rows of the answer, in the arithmetic of
// the scalar type: float32's for types of two bytes.
WrongAnswer PlainAnswer(const Problem& problem, const Inputs& inputs,
                        const Answer& answer);

}  // namespace subquad
