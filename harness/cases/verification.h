// The cases that every implementation is verified on when nobody asks for
// others: awkward sizes, every flag and choice, heads, rectangles, gradients.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/cases/case.h"

namespace subquad {

// Sizes that break things: 1, 2, 3, primes, powers of two and their neighbours.
const std::vector<int64_t>& AwkwardSizes();

// All variants of an operator at these sizes: each combination of flags and
// choices, with and without optional inputs; at one of the sizes also heads
// with shared and with own parameters, n_q != n_k both ways, and the backward
// pass where there is one; for images also shapes that a number of pixels alone
// does not lead to. Where an operator has many variants, they take turns with
// the ways to share axes and with offsets, padding, eps and no normaliser.
std::vector<Case> VerificationCases(const Operator& op,
                                    const std::vector<int64_t>& sizes,
                                    Scalar scalar, uint64_t seed);

// Those of one variant: the parameters that are given, the others left to
// their defaults.
std::vector<Case> CasesWith(
    const Operator& op,
    const std::vector<std::pair<std::string, std::string>>& values,
    const std::vector<int64_t>& sizes, Scalar scalar, uint64_t seed);

}  // namespace subquad
