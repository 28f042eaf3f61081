// softmax_attention: out_i = softmax_j( scale q_i.k_j + bias(j - i) ) v
// (FastRPB eq. 1; NPRF eq. 1 and 6; Transformers II eq. 1 and 11)
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   bias [n_q+n_k-1]  optional, by increasing offset: entry t is the bias of
//                     j - i = t - (n_q-1); -inf hides the key
//   out  [n_q, e]
// With height and width, q, k, v are the pixels of an image, and
//   bias [2H-1, 2W-1]  optional, by the offsets of rows and of columns (Swin)
//   causal, query_offset, key_lengths: see visible_keys.h; of an image no
//                     query_offset. The entry of bias for key j and query i
//                     does not depend on them.
//   scale             default 1/sqrt(d)
//
// Backward, with dS = dL/ds of softmax_rows.h, each summed over the heads that
// share the tensor:
//   grad_q[i] = scale sum_j dS_ij k_j      grad_k[j] = scale sum_i dS_ij q_i
//   grad_v[j] = sum_i P_ij grad[i]
//   grad_bias(dist) = sum over j - i = dist of dS_ij; 0 where the bias is -inf
//
// Test inputs: normal draws give scores of order one, so that every
// key matters and a missing or doubled one shows. A bias read as i - j, or with
// its origin at n_k-1, changes all rows. "offset" and "huge" give scores far
// beyond the range of exp: a maximum that is not subtracted is inf/inf there.
// "dropping" makes rows whose largest score comes early or late, for the
// rescaling of partial sums. Visible padding, and a query at a wrong position,
// change which keys are in the mean.
//
// Bound: see softmax_rows.h.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& SoftmaxAttention();

}  // namespace subquad
