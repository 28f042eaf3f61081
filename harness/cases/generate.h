// Numbers for generated cases: each is a function of seed, case, tensor and
// index (draws.h).
#pragma once

#include "harness/cases/case.h"

namespace subquad {

// Rounds a tensor to a scalar type. Throws InvalidInput that names `what` where
// a finite number overflows the type.
void RoundTensor(Scalar scalar, const std::string& what, Tensor& tensor);

// All inputs of a case, rounded to its scalar type: from its folder, if it has
// one, and generated for the rest. Throws InvalidInput where a number of the
// folder overflows the type.
Inputs GenerateInputs(const Case& one, const Problem& problem);

}  // namespace subquad
