// Which wrong answer an output looks like: the mistake whose answer is nearest
// to what a program returned. For people who look for the mistake; no verdict
// depends on it.
#pragma once

#include <string>

#include "harness/judging/right_answer.h"
#include "reference/base/problem.h"

namespace subquad {

struct Resemblance {
  std::string name;  // the mistake, in words; empty: no mistake known here
  // The distance to that mistake's answer / the distance to the right one, both
  // root mean squares.
  double ratio = 1;
};

// An output is taken for a mistake's where it is this many times nearer to it
// than to the right answer.
inline constexpr double kAlike = 0.1;

// `outputs` in the order of Problem::outputs; an empty one was not returned.
// Beside the wrong answers of every check (wrong_answers.h) it knows mistakes
// that no check needs to tell apart: a scale left out, a mask off by one, the
// wrap-around of a transform without padding, heads and rows exchanged, eps in
// another place, and the noise of arithmetic in two bytes. `inputs` are altered
// on the way and given back as they were. Throws InvalidInput where the problem
// has no answer.
Resemblance LooksLike(const Problem& problem, Inputs& inputs,
                      const Outputs& outputs);

}  // namespace subquad
