// gmlp_mixing with weights by offset: its mixing as a problem of toeplitz_1d,
// for implementations that delegate it to that operator.
#pragma once

#include "reference/contract/implementation.h"

namespace subquad {

// Returns the problem of multiplying Psi by values [n, m], for every head.
Problem MixingOf(const Problem& problem);

// Returns the bound for an answer whose mixing has the bound of this
// toeplitz_1d implementation; nothing if that has none, in which case the plain
// program's bound holds.
RowBound GmlpBound(const Problem& problem, const Inputs& inputs,
                   const Implementation& mixing);

}  // namespace subquad
