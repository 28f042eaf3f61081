// Numbers for generated cases: each is a function of seed, case, tensor and
// index (draws.h).
#pragma once

#include "harness/cases/case.h"

namespace subquad {

// All inputs of a case, rounded to its scalar type: those of its folder, if it
// has one, and generated numbers for the rest. Throws InvalidInput where a
// number of the folder does not fit into the type.
Inputs GenerateInputs(const Case& one, const Problem& problem);

}  // namespace subquad
