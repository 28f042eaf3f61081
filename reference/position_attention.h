// position_attention (Transformers II eq. 5-13; FastRPB eq. 7): self-attention
// that knows positions by one of seven schemes. q = x w_q, k = x w_k, v = x
// w_v, and out = softmax(scale s) v with the scores of the scheme:
//
//   absolute         x + pos for x in q, k and v              (eq. 5)
//   absolute_scores  x + pos for x in q and k only            (eq. 6)
//   untied           q_i.k_j + (pos_i u_q).(pos_j u_k)        (eq. 9)
//   shaw             q_i.k_j + q_i.rel(j-i)                   (eq. 10)
//   bias             q_i.k_j + bias(j-i), inside the scaling  (eq. 11)
//   multiplicative   q_i.k_j * bias(j-i)                      (eq. 12)
//   deberta          q_i.k_j + q_i.(rel(j-i) u_k)
//                            + (rel(i-j) u_q).k_j             (eq. 13)
//
//   x [n, D], w_q, w_k [D, d], w_v [D, e], out [n, e]
//   pos [n, D]                        absolute, absolute_scores, untied
//   u_q, u_k [D, d]                   untied, deberta
//   rel [2n-1, d]; deberta: [2n-1, D] by increasing offset j - i
//   bias [2n-1]                       bias, multiplicative
//   scale                             default 1/sqrt(d)
//   p2c          deberta: paper (default), or released: rel(j-i) in both terms,
//                which is what the released code computes
//   causal       query i sees keys j <= i only
//   key_lengths  one for each batch item: it sees the keys before it only, the
//                rest is padding
//
// Transformers II counts offsets as i - j in eq. 10, 11 and 13 and uses their
// absolute value in eq. 12; offsets here are signed and j - i throughout.
//
// Test inputs: projections are drawn so that scores are of order one
// and every key matters. An offset of the wrong sign changes all rows but those
// of n = 1; in deberta it exchanges the two terms, which differ in u_q and u_k.
// A position that remains in the values distinguishes absolute from
// absolute_scores.
//
// The projections of positions and offsets do not depend on the pair that uses
// them; each is computed once, before any pair, which changes no bit.
//
// Bound: softmax_rows.h with the scores' and the values' errors. A projection
// is off by (D+2) u sum |x||w| (Higham 2002, eq. 3.5; one more for x + pos), a
// product of two approximate rows by
//   sum_a |a| db + |b| da + u da db + (d+6) u |a||b|,
// where the six are for the sum of three terms, the factor of eq. 12 and the
// scale.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& PositionAttention();

}  // namespace subquad
