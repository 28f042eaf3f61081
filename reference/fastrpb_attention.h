// fastrpb_attention: attention plus a relative position product (FastRPB eq.
// 10)
//
//   out = attention(q, k, v) + W v,   W_ij = w(j - i)
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   attention = softmax   softmax_attention.h: bias [n_q+n_k-1] optional, scale
//   attention = linear    linear_attention.h: feature_map, nu, omega, scale,
//                         eps, normalized
//   weights [n_q+n_k-1]   w by increasing offset
//   out  [n_q, e]
//   causal, query_offset, key_lengths (visible_keys.h, the last two not on an
//                         image) mask the attention and W alike
// With height and width, q, k, v are the pixels of an image, and
//   weights_rows [2H-1], weights_cols [2W-1]:
//   W_ij = weights_rows(r'-r) + weights_cols(c'-c)   (section 3.2.2)
//
// Test inputs: the two terms share v and n, so each must be right by
// itself; W is not normalised, and its part of the answer is sqrt(n) times
// larger than the attention's, so only a bound that grows with n no faster than
// its rounding can show an error of the attention.
//
// Bound: that of the attention, that of a sum of n_k products whose weights are
// themselves one rounded sum (images), and one addition.
// Cost of a row: n_k (d or f + 2 e).
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& FastRpbAttention();

}  // namespace subquad
