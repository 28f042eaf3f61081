// transformer_xl_attention (Transformer-XL appendix B; Transformers II eq. 8):
// L queries after a memory of M positions. Query i is at M+i and sees the keys
// j <= M+i:
//   s_ij = (q_i + u).k_j + (q_i + t).(w_kr r[M+i-j]),  out = softmax(scale s) v
//
//   q [L, d], k [M+L, d], v [M+L, e]
//   r [M+L, p]   row x embeds the distance x = M+i-j
//   causal       default true; false (XLNet, Conformer): every query sees every
//                key, and r [M+2L-1, p] has distances from -(L-1) on
//   w_kr [d, p]
//   u, t [d]     (the paper's u and v)
//   out [L, e]
//   scale        default 1/sqrt(d)
//
// Two entries of the last row of the paper's B do not follow from this: see the
// claim txl-matrix (harness/papers/transformer_xl).
//
// Test inputs: rows of r in the wrong order, a shift that is off by
// one and the entries that a left shift brings in from outside change normal
// draws everywhere but in the last row, which has no shift. M = 0 and M > L
// distinguish an origin at M from one at L.
//
// w_kr r is the same for all pairs at one distance; it is computed once for
// each here, before any pair is formed, which changes no bit of it.
//
// Bound: softmax_rows.h with the score's error. An entry of w_kr r is off by p
// u sum |w_kr||r|, and the two dot products by (d+3) u of their magnitudes,
// with |q| + |u| for |q + u|, so that q.k and u.k may be formed apart. Their
// sum and the scale make three more.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& TransformerXlAttention();

}  // namespace subquad
