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

// Names of answers in RightAnswers.
inline constexpr char kFactorsInType[] = "factors in its type, sums in float32";
inline constexpr char kResultsInType[] =
    "factors and results in its type, sums in float32";

// Returns the answer of the plain program for all rows, in the arithmetic of
// the scalar type: float32 for 16-bit types.
WrongAnswer PlainAnswer(const Problem& problem, const Inputs& inputs,
                        const Answer& answer);

// Returns the answers of right programs. The first is PlainAnswer. For 16-bit
// types, two follow whose sums are in float32: one with factors in the type, as
// matrix units compute, and one that also stores every result in the type, as a
// program of several kernels does. They cover as many rows as
// LowPrecisionAnswers.
std::vector<WrongAnswer> RightAnswers(const Problem& problem,
                                      const Inputs& inputs,
                                      const Answer& answer, double most_work);

}  // namespace subquad
