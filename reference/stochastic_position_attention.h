// stochastic_position_attention: attention on queries and keys whose positions
// are encoded as noise (SPE; FastRPB eq. 8)
//
//   out = attention(q^, k^, v)   with q^ [n_q, R], k^ [n_k, R] of
//                                stochastic_positions.h
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   kind = sine   freqs, phases, gains [d, C]; z [d, 2 C, R]
//   kind = conv   filters_q, filters_k [d, P]; z [d, n+P-1, R]; n_q = n_k = n
//   attention = softmax   scale: default 1/sqrt(d), d the width of q
//   attention = linear    feature_map, nu, omega [f, R], scale: default 1
//   out [n_q, e]
//   causal                query i sees j <= i only
// The noise is shared by the heads; everything else may be given for each.
//
// Test inputs: components with frequencies of order one turn angles
// through many revolutions, so that a wrong position or a lost phase changes
// every row; independent noise per channel shows a channel that reads another's
// noise, and independent noise per draw a transposed z. The expectation over z
// tests no implementation (any noise of that covariance has it); the study
// spe_convergence measures it.
//
// Bound: the errors of q^ and k^ pass through the scores (softmax_rows.h) or
// the features (feature_map.h); the rest is that of the attention. Cost of a
// row: n_k (R or f + e), and d C R or d P R for q^ and k^.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& StochasticPositionAttention();

}  // namespace subquad
