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

// The arithmetic of a right program.
enum class RightArithmetic {
  kPlain,          // the scalar type's; float32 for 16-bit types
  kFactorsInType,  // 16-bit factors and float32 sums, as matrix units compute
  kResultsInType,  // and results in 16 bits, as of a program of several kernels
};

struct RightAnswer {
  RightArithmetic arithmetic;
  WrongAnswer answer;  // named after the arithmetic
};

// Returns the answer of the plain program for all rows, in the arithmetic of
// the scalar type: float32 for 16-bit types.
WrongAnswer PlainAnswer(const Problem& problem, const Inputs& inputs,
                        const Answer& answer);

// Returns the answers of right programs: PlainAnswer, and for 16-bit types one
// of each other arithmetic, which cover as many rows as LowPrecisionAnswers.
std::vector<RightAnswer> RightAnswers(const Problem& problem,
                                      const Inputs& inputs,
                                      const Answer& answer, double most_work);

}  // namespace subquad
