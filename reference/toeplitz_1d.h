// toeplitz_1d: out[i] = sum_j w(j - i) v[j]   (FastRPB section 3.2.1, eq.
// 11-18)
//
//   weights [n_q+n_k-1]  w by increasing offset: entry t is w(t - (n_q-1))
//   values  [n_k, e]     v
//   out     [n_q, e]
//   causal, query_offset, key_lengths: see visible_keys.h. The weight of key j
//                        for query i does not depend on them.
//
// Backward, given grad [n_q, e] = dL/dout (the adjoint of the same sum):
//   grad_values[j]     = sum_i w(j - i) grad[i]
//   grad_weights(dist) = sum over j - i = dist of <grad[i], v[j]>
// each summed over the heads that share the tensor.
//
// Test inputs: an offset taken as i - j, a padding that wraps around
// and rows mixed with columns all change normal draws everywhere; n_q != n_k
// shows an origin at n_k-1 instead of n_q-1.
//
// Bound: a sum of n products in any order is off by at most
// gamma_n sum |a||b| <= 1.01 n u sum |a||b| (Higham 2002, eq. 3.5).
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& Toeplitz1d();

}  // namespace subquad
