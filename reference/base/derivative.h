// The gradients of a definition, from the definition itself: its program for a
// row of the output is run with numbers that record how they were computed
// (traced.h), and the derivatives of all rows are added up.
//
// All gradients of a problem come at once, when the first row of one is asked
// for. The rows of the output are split into parts, each with a tape and sums
// of its own, which the threads that ask for rows share among themselves; parts
// are added in order, so that threads change no bit.
//
// Bound: traced.h. Where the definition gives no bound for an element of the
// output (a choice between clusters that rounding decides), nothing is promised
// of the gradients that it reaches either.
#pragma once

#include <memory>

#include "reference/base/operator.h"

namespace subquad {

// Returns the gradients of `problem`, whose inputs include the cotangents.
// Defined for the types of ReferenceIn.
template <typename Real>
std::unique_ptr<Reference<Real>> MakeDerivative(const Problem& problem,
                                                const Inputs& inputs);

// Returns the problem whose gradients `problem` asks for.
Problem ForwardOf(const Problem& problem);

}  // namespace subquad
