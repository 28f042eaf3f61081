// Wrong answers that are none but for the rounding of the inputs.
#pragma once

#include <string>
#include <vector>

#include "harness/judging/misreader.h"

namespace subquad {

// Most numbers that somebody gives stand for others with more digits: X, of
// which the tensor has the nearest number of its type, half a unit in its last
// place away at most. A misreading is no mistake where it gives the right
// answer to X. With W the wrong and R the right answer, as functions of the
// inputs x = X + d,
//
//   W(X) = R(X)   =>   W(x) - R(x) = (W' - R') d   to first order,
//
// so that what separates them is no more than what the rounding of the inputs
// moves it by. A linear bias shifted by one, which softmax does not see, is
// separated from the right one by the rounding of its slopes alone; a tile of
// keys whose weights are next to nothing is not.
//
// For each misreading (misreadings.h) of these names, several times: the right
// answer, off by (W' - R') d with signs that fall at random. `inputs` are
// altered on the way and given back as they were.
std::vector<WrongAnswer> MovedByRounding(const Problem& problem, Inputs& inputs,
                                         const Answer& answer,
                                         const std::vector<std::string>& names);

}  // namespace subquad
