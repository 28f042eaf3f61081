// The backward pass of an operator, declared from its forward pass: given
// grad = dL/dout, the gradients of the inputs.
#pragma once

#include <string>
#include <string_view>

#include "reference/base/problem.h"

namespace subquad {

// Names the gradient of an input: "grad_q" for q.
std::string GradientOf(std::string_view input);

// Returns the signature with one more input, `grad`, shaped like the first
// output, and with the gradients of the inputs as outputs: grad_X has the shape
// of X, and gradients of data precede those of parameters. Inputs that are
// drawn at random once and never trained (omega, z, rotations) have no
// gradient.
//
//   Signature SignatureFor(const Params&, bool backward) const override {
//     Signature signature;
//     ..
//     return backward ? WithGradients(std::move(signature)) : signature;
//   }
Signature WithGradients(Signature signature);

// Returns the index of the input whose gradient this output is, or -1 if it is
// no gradient or if that optional input was not given.
int InputOfGradient(const Problem& problem, std::string_view output);

// Removes the gradients of optional inputs that were not given from the
// outputs. Part of ResolveProblem.
void DropGradientsOfAbsentInputs(Problem& problem);

}  // namespace subquad
