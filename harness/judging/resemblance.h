// Which wrong answer an output looks like: the mistake whose answer is nearest
// to what a program returned. For people who look for the mistake; no verdict
// depends on it.
#pragma once

#include <vector>

#include "harness/judging/comparison.h"
#include "harness/judging/diagnosis.h"
#include "harness/judging/right_answer.h"

namespace subquad {

// An output is taken for a mistake's where it is this many times nearer to it
// than to the right answer.
inline constexpr double kAlike = 0.1;

// `right` with the numbers that a program wrote in place of the right ones; NaN
// where it wrote nothing. `outputs` in the order of Problem::outputs; one that
// is empty was not returned, and has no numbers here.
Answer WithNumbers(const Problem& problem, const Answer& right,
                   const Outputs& outputs);

// What was found (see WithNumbers) is held against `wrong_answers`, made from
// the right answer, and against mistakes that no check needs to tell apart: a
// scale left out, a mask off by one, the wrap-around of a transform without
// padding, heads and rows exchanged, eps in another place, and the noise of
// arithmetic in two bytes. `inputs` are altered on the way and given back as
// they were.
Resemblance LooksLike(const Problem& problem, Inputs& inputs,
                      const Answer& right,
                      const std::vector<WrongAnswer>& wrong_answers,
                      const Answer& found, const Tolerance& tolerance);

}  // namespace subquad
