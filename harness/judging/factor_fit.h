// Fits a factor by which a program multiplies a tensor wrongly, such as a scale
// of half the size or slopes of a bias that are twice as large.
#pragma once

#include <vector>

#include "harness/judging/answer.h"
#include "harness/judging/comparison.h"

namespace subquad {

// Returns, for the scale of the scores and for each tensor that is indexed by
// offset, the answer of a program that multiplies it by the factors that fit
// `output` best, one factor for each slice (head) of the tensor. The name of
// the answer states the factors. Only the first output of a forward problem is
// fitted, on up to `most_rows` rows of `right`. `output` has the rows of
// `right` (see WithNumbers).
std::vector<WrongAnswer> FittedFactors(const Problem& problem,
                                       const Inputs& inputs,
                                       const Answer& right,
                                       const Answer& output, size_t most_rows);

}  // namespace subquad
