// sparse_attention: out_i = softmax of (scale q_i.k_j + bias(j-i)) over the
// keys j that the pattern shows to query i, times v   (Transformers II, "Making
// the attention matrix sparse")
//
//   q [n_q, d], k [n_k, d], v [n_k, e], out [n_q, e]
//   bias [n_q+n_k-1]  optional, by increasing offset: entry t is the bias of
//                     j - i = t - (n_q-1); -inf hides the key
//   pattern  key j is seen by query i at position p = i + query_offset when
//     local       floor(p/block) == floor(j/block)
//     sliding     j-p is a multiple of dilation and |j-p| <= window dilation
//     blocks      block_mask[floor(i/b_q)][floor(j/b_k)] is 1, of 0 and 1; its
//                 rows count queries as stored, whatever query_offset is.
//                 `block` is the number b_q = b_k or a list of the two.
//                   block_mask [ceil(n_q/b_q), ceil(n_k/b_k)]
//            and, with n_q = n_k = n, p = i and no query_offset, when
//     strided     |j-i| <= window, or (i-j) mod stride == 0
//     longformer  the sliding rule, or i or j is among `globals`
//     bigbird     in blocks of `block` positions, I of the query and J of the
//                 key: |J-I| <= window_blocks, or I or J < global_blocks, or J
//                 is in random[I]
//     periodic_full  |j-i| <= window, or i mod stride == stride-1
//     etc         |j-i| <= window; and there are g global tokens beside the n
//                 positions. All queries see their keys, and they see all keys:
//                   q_global, k_global [g, d], v_global [g, e],
//                   out_global [g, e]
//   causal   and j <= p
//   query_offset  position of the first query, which may be negative; default
//                 0. The entry of bias for key j and query i does not depend on
//                 it.
//   scale    default 1/sqrt(d)
//
// Global tokens have no position: neither `causal` nor the bias applies to
// them. A query sees nothing, and its output is zero, if its row of the block
// mask is 0, if its window or block has no key, or if the bias hides them all.
//
// Test inputs: with normal draws each key that is wrongly seen or
// missed moves a row by about 1/(keys seen). Sizes that are not multiples of
// blocks, strides and dilations show ends that are handled wrongly. A bias read
// as i - j changes every row; so do global tokens that are left out. Half of
// the blocks of a mask are hidden, and all of one of 8 rows, so that a mask
// that is transposed, inverted or of another head changes nearly every row.
//
// Bound: see softmax_rows.h, where n is the number of visible keys.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& SparseAttention();

}  // namespace subquad
