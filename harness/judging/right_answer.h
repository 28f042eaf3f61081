// Returns the reference's answer as whole outputs, for tests that alter it.
#pragma once

#include <vector>

#include "harness/judging/answer.h"

namespace subquad {

// Whole outputs, in the order of Problem::outputs. NaN stands for an element
// that was never written.
using Outputs = std::vector<std::vector<double>>;

// Returns the reference's answer, rounded to the problem's scalar type. Throws
// InvalidInput unless all of its rows have been computed.
Outputs RightAnswer(const Problem& problem, const Answer& answer);

}  // namespace subquad
