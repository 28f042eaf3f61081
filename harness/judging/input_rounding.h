// Misreadings that differ from the right answer only because the inputs were
// rounded.
#pragma once

#include <string>
#include <vector>

#include "harness/judging/comparison.h"

namespace subquad {

// An input value x usually stands for a more precise number X and is at most
// half a unit in the last place away from it. A misreading is not a mistake if
// it gives the right answer to X. With W the wrong and R the right answer, as
// functions of the inputs x = X + d,
//
//   W(X) = R(X)   =>   W(x) - R(x) = (W' - R') d   to first order,
//
// so that the distance between the two answers is no larger than the effect of
// rounding the inputs. For example, softmax is invariant to a linear bias
// shifted by one; the shifted bias differs only by the rounding of its slopes.
// A tile of keys with tiny weights, in contrast, is a real mistake.
//
// Returns several answers for each misreading (mistakes.h) of these names:
// the right answer plus (W' - R') d with random signs.
std::vector<WrongAnswer> MovedByRounding(const Problem& problem,
                                         const Inputs& inputs,
                                         const Answer& answer,
                                         const std::vector<std::string>& names);

}  // namespace subquad
