// Names the mistake whose answer is nearest to a wrong output. It helps people
// to find the mistake; no verdict depends on it.
#pragma once

#include <vector>

#include "harness/judging/answer.h"
#include "harness/judging/comparison.h"
#include "harness/judging/diagnosis.h"

namespace subquad {

// An output resembles a mistake if its distance to the mistake's answer is at
// most this fraction of its distance to the right answer.
inline constexpr double kAlike = 0.1;

// Returns `right` with the values that a program wrote instead of the right
// ones; NaN for elements that it did not write. `outputs` are in the order of
// Problem::outputs; an empty one was not returned.
Answer WithNumbers(const Problem& problem, const Answer& right,
                   const Outputs& outputs);

// Compares a wrong output (see WithNumbers) with `wrong_answers`, which are
// made from the right answer, and with the confusions of mistakes.h and the
// noise of 16-bit arithmetic.
Resemblance LooksLike(const Problem& problem, const Inputs& inputs,
                      const Answer& right,
                      const std::vector<WrongAnswer>& wrong_answers,
                      const Answer& answer, const Tolerance& tolerance);

}  // namespace subquad
