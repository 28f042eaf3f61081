// gmlp_mixing with weights by offset: its mixing as a problem of toeplitz_1d,
// for programs that leave it to one of that operator's.
#pragma once

#include "reference/contract/implementation.h"

namespace subquad {

// Psi times numbers [n, m] of every head.
Problem MixingOf(const Problem& problem);

// The bound of an answer whose mixing has the bound of this program of
// toeplitz_1d; nothing where that has none, and the plain program's holds.
RowBound GmlpBound(const Problem& problem, const Inputs& inputs,
                   const Implementation& mixing);

}  // namespace subquad
