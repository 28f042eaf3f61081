// gmlp_mixing: out = (sigmoid(x phi_u1) o (Psi x phi_u2)) phi_v: a gate of each
// token, times values that a matrix mixes over the tokens (Transformers II eq.
// 25, fig. 14b; Liu et al. 2021)
//
//   x [n, D], phi_u1 [D, m], phi_u2 [D, m], phi_v [m, e]
//   psi [n, n]      the matrix Psi, or
//   weights [2n-1]  Psi_ij = weights(j - i), by increasing offset, or
//   neither         Psi is the identity: a gated linear unit (eq. 24), and
//                   phi_v behind it
//   out [n, e]
//
// Test inputs: gates between 0.2 and 0.8, and sums over n tokens. A
// gate computed from the other path, a transposed Psi or weights read as i - j
// change all rows.
//
// Bound: values of either path are sums of D products and off by E = D u sum
// |x||phi| (Higham 2002, eq. 3.5); mixed values are off by n u sum |Psi||y|
// plus their inputs' errors, sum |Psi| E. A gate g = sigmoid(z) moves by at
// most g (1 - g) (exp(E u) - 1) if z does by E u, whatever the size of E, and
// has itself a relative error of 4 u: exp, the sum and the quotient. The rest
// are m products and their sum.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& GmlpMixing();

}  // namespace subquad
