// clipped_rpe_product: S_ij = q_i . rpe[clip(j-i, -r, r) + r], out = S v (LRPE
// section III; no softmax and no normaliser)
//
//   q      [n_q, d]
//   rpe    [2r+1, d]   one embedding per clipped offset j - i, increasing
//   v      [n_k, e]
//   out    [n_q, e]
//   causal, query_offset, key_lengths: see visible_keys.h; with query_offset p
//                      offsets are j - i - p
//
// Backward, given grad [n_q, e] = dL/dout, where t is the rpe row of a pair:
//   grad_q[i]   = sum_j <grad[i], v[j]> rpe[t]
//   grad_rpe[t] = sum over the pairs with row t of <grad[i], v[j]> q[i]
//   grad_v[j]   = sum_i S_ij grad[i]
// each summed over the heads that share the tensor.
//
// The note's clip(i - j) fits its own slices if the embeddings are stored from
// k down to -k; here they run from -k up to k. The errors of its printed
// section III are reproduced and measured in harness/papers/lrpe.
//
// Test inputs: normal draws show an embedding taken at i - j and a
// window that is one key too wide or too narrow. n_k > n_q + r shows a tail on
// the right that is cut off, n_q > n_k + r one on the left, r = 0 a key that is
// counted in both tails, r > n an embedding read before its first row.
//
// Bound: the output is a sum of n_k rows, each times a dot product of d
// numbers, which is off by at most (d u) sum |x||y| (Higham 2002, eq. 3.5). A
// term then passes through one product and n_k additions, in whatever order
// they are grouped: 1.01 (n_k + d + 2) u sum sum |x||y||z|. A product of three
// small numbers may fall below the normal range, where it is off by half of the
// smallest subnormal number instead.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& ClippedRpeProduct();

}  // namespace subquad
