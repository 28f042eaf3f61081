// softmax_attention:
//   out_i = softmax_j( cap(scale q_i.k_j) + bias(j - i) + pair_bias[i, j] ) v
// (FastRPB eq. 1; NPRF eq. 1 and 6; Transformers II eq. 1 and 11)
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   bias [n_q+n_k-1]  optional, by increasing offset: entry t is the bias of
//                     j - i = t - (n_q-1); -inf hides the key
//   slopes            optional in place of a bias, one number for each head,
//                     [h], [b, h] or [1]: bias -slope |j - i - query_offset|
//                     (ALiBi); not of an image
//   buckets [B]       optional in place of a bias: that of distance_buckets.h
//                     for j - i - query_offset (T5); not of an image
//   mask, pair_bias [n_q, n_k]  optional. A query sees no key of which its mask
//                     is 0, of 0 and 1, or its pair_bias -inf. An extent of 1
//                     in place of n_q or n_k is shared by all queries or keys.
//   sinks              optional, one number for each head, [h], [b, h] or [1]:
//                     exp(sink) is added to the sum of the weights
//   out  [n_q, e]     zero for a query that sees no key
//   lse  [n_q]        optional: ln(sum_j exp(s_ij) + exp(sink)), the logarithm
//                     of the sum of the weights; -inf if it has no term
// With height and width, q, k, v are the pixels of an image, and
//   bias [2H-1, 2W-1]  optional, by the offsets of rows and of columns (Swin)
//   causal, query_offset, key_lengths, packed_q, packed_k: see visible_keys.h;
//                     of an image the first and the third. query_offset may be
//                     negative: the first queries are
//                     before all keys. None of them changes the entry of bias
//                     for key j and query i.
//   window_left, window_right: see visible_keys.h; not of an image
//   scale             default 1/sqrt(d)
//   max_distance, bidirectional  of buckets; default 128, and not causal.
//                     Refused are fewer than 2 buckets, or with bidirectional
//                     4, an odd number of bidirectional ones, and a
//                     max_distance at most the number of distances with a
//                     bucket of their own.
//   softcap           cap(x) = softcap tanh(x / softcap); default cap(x) = x,
//                     also for a softcap above the largest number of the
//                     arithmetic, which is float32 for 16-bit types
//
// Backward, with dS = dL/ds of softmax_rows.h, each summed over the heads that
// share the tensor:
//   grad_q[i] = scale sum_j dS_ij k_j      grad_k[j] = scale sum_i dS_ij q_i
//   grad_v[j] = sum_i P_ij grad[i]
//   grad_bias(dist) = sum over j - i = dist of dS_ij; 0 where the bias is -inf
//   grad_slope = - sum_ij |j - i - query_offset| dS_ij
//   grad_bucket = sum of dS_ij over the pairs in it
//   grad_pair_bias[i, j] = dS_ij, summed over all queries or keys that share it
//   grad_sink = - sum_i P_i,sink D_i
// An incoming gradient of lse is subtracted from D_i.
// With a softcap, dS_ij of the two scaled sums is that of the capped score
// times the derivative of the cap, 1 - tanh^2(x / softcap).
//
// Test inputs: normal draws give scores of order one, so that every
// key matters and a missing or doubled one shows. A bias read as i - j, or with
// its origin at n_k-1, changes all rows. "offset" and "huge" give scores far
// beyond the range of exp: a maximum that is not subtracted is inf/inf there.
// "dropping" makes rows whose largest score comes early or late, for the
// rescaling of partial sums. Visible padding, and a query at a wrong position,
// change which keys are in the mean. A softcap near the size of the scores
// moves every weight.
//
// Bound: see softmax_rows.h.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& SoftmaxAttention();

}  // namespace subquad
