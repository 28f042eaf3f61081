// sparse_attention: out_i = softmax of (scale q_i.k_j + bias(j-i)) over the
// keys j that the pattern shows to query i, times v   (Transformers II, "Making
// the attention matrix sparse")
//
//   q, k [n, d], v [n, e], out [n, e]
//   bias [2n-1]  optional, by increasing offset j - i; -inf hides the key
//   pattern  key j is seen by query i when
//     local       floor(i/block) == floor(j/block)
//     sliding     j-i is a multiple of dilation and |j-i| <= window dilation
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
//   causal   and j <= i
//   scale    default 1/sqrt(d)
//
// Global tokens have no position: neither `causal` nor the bias applies to
// them. Every pattern shows a query itself, so that no row is empty unless the
// bias hides it.
//
// Test inputs: with normal draws each key that is wrongly seen or
// missed moves a row by about 1/(keys seen). Sizes that are not multiples of
// blocks, strides and dilations show ends that are handled wrongly. A bias read
// as i - j changes every row; so do global tokens that are left out.
//
// Bound: see softmax_rows.h, where n is the number of visible keys.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& SparseAttention();

}  // namespace subquad
