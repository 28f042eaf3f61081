// Generates the tensors of cases. Each value is a function of seed, case,
// tensor and index (draws.h).
#pragma once

#include "harness/cases/case.h"

namespace subquad {

// Rounds a tensor to a scalar type. Throws InvalidInput about `subject` if a
// finite value overflows the type.
void RoundTensor(Scalar scalar, const std::string& subject, Tensor& tensor);

// Returns all inputs of a case, rounded to its scalar type. They are taken from
// its folder, if there is one, and generated otherwise. Throws InvalidInput if
// a value of the folder overflows the type.
Inputs GenerateInputs(const Case& test_case, const Problem& problem);

}  // namespace subquad
