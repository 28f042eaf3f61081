// Finds out why an output failed.
#pragma once

#include <vector>

#include "harness/judging/comparison.h"
#include "harness/judging/diagnosis.h"

namespace subquad {

// Describes a wrong output, which is given as an answer (WithNumbers in
// resemblance.h). `bound_alone`: only gate 1 decides. For the other parameters
// see LooksLike.
Diagnosis Diagnose(const Problem& problem, const Inputs& inputs,
                   const Answer& right,
                   const std::vector<WrongAnswer>& wrong_answers,
                   const Answer& answer, const Tolerance& tolerance,
                   bool bound_alone);

}  // namespace subquad
