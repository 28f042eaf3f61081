// The default cases of `verify`: awkward sizes, every flag and choice, heads,
// rectangles, gradients.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "harness/cases/case.h"

namespace subquad {

// Returns sizes that reveal bugs: 1, 2, 3, primes, powers of two and their
// neighbours.
const std::vector<int64_t>& AwkwardSizes();

// Returns all variants of an operator at these sizes: each combination of flags
// and choices, with and without optional inputs. At one of the sizes there are
// also heads with shared and with own parameters, n_q != n_k both ways, and the
// backward pass if an implementation has one; for images also shapes that are
// not square.
// If an operator has many variants, each one is combined with only some of the
// ways to share axes and of offsets, padding, eps and a missing normaliser.
std::vector<Case> VerificationCases(const Operator& op,
                                    const std::vector<int64_t>& sizes,
                                    Scalar scalar, uint64_t seed);

// Returns those of the backward pass, whether an implementation has one or not.
std::vector<Case> GradientCases(const Operator& op,
                                const std::vector<int64_t>& sizes,
                                Scalar scalar, uint64_t seed);

// Returns the cases of one variant: the given parameters, and defaults for the
// others.
std::vector<Case> CasesWith(
    const Operator& op,
    const std::vector<std::pair<std::string, std::string>>& values,
    const std::vector<int64_t>& sizes, Scalar scalar, uint64_t seed);

}  // namespace subquad
