// kernelized_clipped_rpe_attention (LRPE section IV):
//   A_ij  = phi(q_i) . phi(k_j) + phi(q_i) . rpe[clip(j-i, -r, r) + r]
//   out_i = sum_j A_ij v_j / sum_j A_ij,   phi = elu + 1
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   rpe [2r+1, d]   one embedding per clipped offset j - i, increasing
//   out [n_q, e]
//   causal, query_offset, key_lengths: see visible_keys.h; with query_offset p
//                   offsets are j - i - p
//
// (The note's section III lists phi of Q and "V": it is Q and K. Where
// embeddings are not positive the normaliser may vanish: a query whose
// normaliser is exactly zero is an error.)
//
// Test inputs: embeddings are drawn positive, of the size of phi(k),
// so that both terms matter and leaving either out of the normaliser shows. For
// offsets, tails and rectangles see clipped_rpe_product.h.
//
// Range. out_i does not change when phi(q_i) is multiplied by a number. If all
// of q_i is negative, exp(q_ia - max) replaces exp(q_ia); otherwise features
// are multiplied by the power of two that brings the largest below 2: a query
// far below zero has an answer, and large ones do not overflow.
//
// Bound. phi is off by 4 u (the exponential's own error is at most two units in
// the last place), by |q_ia - max| u more where the maximum was subtracted, and
// values below the normal range may be lost. With the sum over d features and,
// in any order, the sums over n_k keys
//   dA_ij = sum_a (d + n_k + 16 + |q_ia - max|) |phi(q_ia)| (|phi(k_ja)| +
//   |rpe|),
// and for a quotient N/D with errors dN, dD of its parts
//   |N'/D' - N/D| <= (dN + |N/D| dD) / (|D| - dD).
// If dD >= |D|, the quotient has no error bound.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& KernelizedClippedRpeAttention();

}  // namespace subquad
