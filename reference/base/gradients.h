// The backward pass of an operator, declared from its forward pass: given
// grad = dL/dout, the gradients of the inputs.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "reference/base/problem.h"

namespace subquad {

// Names the gradient of an input: "grad_q" for q.
std::string GradientOf(std::string_view input);

// Names the input that holds the gradient of the loss by one of the outputs of
// the forward pass: "grad" for the first one, and for another one X "grad_X".
std::string CotangentOf(const std::vector<TensorRule>& outputs, size_t output);
bool IsCotangent(std::string_view input);

// Returns the signature with the cotangents as inputs, shaped like the outputs
// (that of the first output is required, the others count as zero if they are
// absent), and with the gradients of the inputs as outputs: grad_X has the
// shape of X, and gradients of data precede those of parameters. Inputs that
// are fixed have no gradient.
Signature WithGradients(Signature signature);

// Returns the index of the input whose gradient this output is, or -1 if it is
// no gradient or if that optional input was not given.
int InputOfGradient(const Problem& problem, std::string_view output);

// Removes the gradients of optional inputs that were not given from the
// outputs. Part of ResolveProblem.
void DropGradientsOfAbsentInputs(Problem& problem);

}  // namespace subquad
