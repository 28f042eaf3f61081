// The reference's answer as whole outputs, for what is made from it by hand.
#pragma once

#include <vector>

#include "harness/judging/answer.h"

namespace subquad {

// Whole outputs, in the order of Problem::outputs. NaN stands for an element
// that was never written.
using Outputs = std::vector<std::vector<double>>;

// The reference's answer, rounded to the problem's scalar type. All of its rows
// must have been computed.
Outputs RightAnswer(const Problem& problem, const Answer& answer);

}  // namespace subquad
