// Wrong answers that show whether a check can fail: mistakes that real programs
// make, applied to the judged rows. The margin of a verdict is the distance of
// the nearest one to acceptance.
//
// Some are altered outputs (a table in the .cc), the others are the reference's
// answers to a misread problem (mistakes.h). Each kind is one row of a
// table.
#pragma once

#include <vector>

#include "harness/judging/verdict.h"

namespace subquad {

// Returns altered outputs, including those that coincide with the right answer.
// They refer to the answer, which must outlive them.
std::vector<WrongAnswer> AlteredAnswers(const Problem& problem,
                                        const Answer& answer);

// Tells whether a wrong answer is in fact right: it differs from the right
// answer by at most two roundings of the largest value to the problem's scalar
// type.
bool Coincides(const Problem& problem, const Answer& answer,
               const WrongAnswer& wrong);

// Returns the wrong answers that apply. One that coincides with the right
// answer (a bias of zero left out) is skipped, unless it is small by design.
// The result refers to the answer, which must outlive it. Misreadings are
// included only if they take at most about `most_work` multiply-adds of the
// reference.
std::vector<WrongAnswer> MakeWrongAnswers(const Problem& problem,
                                          const Inputs& inputs,
                                          const Answer& answer,
                                          double most_work = kNoLimit);

// Returns the margin of an implementation with this tolerance. `bound_alone`:
// only gate 1 decides. A wrong answer within the tolerance does not count if
// its distance to the right one is explained by the rounding of the inputs
// (input_rounding.h).
Margin MarginOf(const Problem& problem, const Inputs& inputs,
                const Answer& answer,
                const std::vector<WrongAnswer>& wrong_answers,
                const Tolerance& tolerance, bool bound_alone);

}  // namespace subquad
