// Answers of programs whose arithmetic has too few digits, and of programs with
// the right arithmetic. Both evaluate the definition; arithmetic that the
// machine does not have is emulated (reference/base/emulated.h).
#pragma once

#include <vector>

#include "harness/judging/comparison.h"

namespace subquad {

// Returns answers with factors that were rounded to a narrower type, and with
// sums kept in one, as far as this is a mistake in the problem's scalar type.
// Each covers as many rows as about `most_work` multiply-adds allow, but at
// least a few; none are returned if these few take too long.
std::vector<WrongAnswer> LowPrecisionAnswers(const Problem& problem,
                                             const Inputs& inputs,
                                             const Answer& answer,
                                             double most_work);

// Returns the plain program's answer for all rows, in the arithmetic of the
// scalar type: float32 for 16-bit types.
WrongAnswer PlainAnswer(const Problem& problem, const Inputs& inputs,
                        const Answer& answer);

}  // namespace subquad
