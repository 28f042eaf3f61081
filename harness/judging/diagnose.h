// Finds out what is wrong with an output that failed.
#pragma once

#include <vector>

#include "harness/judging/comparison.h"
#include "harness/judging/diagnosis.h"

namespace subquad {

// Of what was found in place of the right answer (WithNumbers of
// resemblance.h). `bound_alone`:
// gate 1 decides alone. The rest as for LooksLike.
Diagnosis Diagnose(const Problem& problem, Inputs& inputs, const Answer& right,
                   const std::vector<WrongAnswer>& wrong_answers,
                   const Answer& found, const Tolerance& tolerance,
                   bool bound_alone);

}  // namespace subquad
