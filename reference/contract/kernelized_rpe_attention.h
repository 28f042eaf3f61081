// Bounds of kernelized attention with a relative bias by Toeplitz products
// (NPRF algorithm 1), and the rule by which such algorithms compute queries
// directly where those bounds promise nothing.
#pragma once

#include "reference/contract/implementation.h"

namespace subquad {

// Each channel g = phi_a(k) v_c comes back from its transforms with an error of
// at most F u |c|_2 |g|_2 in every element, F = 2 log2 L (see toeplitz_1d.cc).
// The query adds channels: the numerator is off by
//   dN = F u |c|_2 sum_a |phi_a(q)| |phi_a(k) v_c|_2
// plus (f + 10) u sum_j c_ij sum_a |phi_a(q) phi_a(k)| |v_j| for products and
// the sum over f, the normaliser likewise with v = 1. Errors of the features,
// as in reference/kernelized/bound.h, come first: they turn D and out into D'
// and out',
//   |D'| >= |D| - sum_j e_ij,  |out' - out| <= sum_j e_ij |v_j - out| / |D'|,
// and then the quotient is off by (dN + |out'| dD) / |D~|, D~ as computed.
//
// Loss of digits: where the bias decays and keys shrink along the sequence, D
// of a late query is much smaller than |c|_2 |phi_a(k)|_2. Its relative error
// grows by that quotient, to 1 / (kLostFactor - 1) at worst: queries whose E =
// dD's transform part reaches |D| / kLostFactor as computed are computed
// directly, with the plain program's element-wise bound. A query with an exact
// |D| > 8 E never is, one with |D| < 2 E always is, and between them the larger
// of the two bounds holds. Both limits are wider where features are uncertain.
// With eps, D + eps replaces D wherever it divides, but D alone decides which
// queries are computed directly. Unnormalised, dN and the sum of e_ij |v_j| are
// the error.
//
// Where a query is not computed directly, |D~| > kLostFactor E is known, so
// that not only |D~| >= |D'| - dD, but |D~| (1 + 1 / kLostFactor) >= |D'| minus
// the errors of products. Transforms in float64 divide E by 2^29.
inline constexpr double kLostFactor = 4;

// Returns units for every row. `transform_factor` is F, in units of the
// roundoff of the problem's arithmetic; `keys` is the number of transformed
// keys, which may exclude keys behind the last causal query.
RowBound KernelizedFftBound(const Problem& problem, const Inputs& inputs,
                            double transform_factor, int64_t keys);

}  // namespace subquad
