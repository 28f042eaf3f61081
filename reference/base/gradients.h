// The backward pass of an operator, declared from its forward pass: given
// grad = dL/dout, the gradients of the inputs.
#pragma once

#include <string>
#include <string_view>

#include "reference/base/problem.h"

namespace subquad {

// "grad_q" of q.
std::string GradientOf(std::string_view input);

// The signature with one more input, `grad`, shaped like the first output, and
// with the gradients of the inputs for outputs: grad_X has the shape of X,
// those of data come before those of parameters. What is drawn at random once
// and never trained (omega, z, rotations) has none.
//
//   Signature SignatureFor(const Params&, bool backward) const override {
//     Signature signature;
//     ..
//     return backward ? WithGradients(std::move(signature)) : signature;
//   }
Signature WithGradients(Signature signature);

// The input that an output is the gradient of, or -1: of another output, and of
// an optional input that was not given.
int InputOfGradient(const Problem& problem, std::string_view output);

// Takes the gradients of optional inputs that were not given off the outputs.
// Part of ResolveProblem.
void DropGradientsOfAbsentInputs(Problem& problem);

}  // namespace subquad
