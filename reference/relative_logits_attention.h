// relative_logits_attention: softmax attention with a band of logits that the
// query computes for the last E positions: a bias of rank p that depends on the
// query.
//   With a = i + query_offset - j, the distance back to key j:
//   s_ij = scale q_i.k_j + (0 <= a < E ? r_i.table[:, a] : 0)
//   out  = softmax(s) v
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   r [n_q, p]     what a query says about distances
//   table [p, E]   column a belongs to the distance a
//   out [n_q, e]
//   causal         query i sees keys j <= i + query_offset only; default true
//   query_offset, key_lengths: see visible_keys.h
//   scale          default 1/sqrt(d); the band is not scaled
//
// Test inputs: normal draws give a band as large as the scores, so
// that a distance that is off by one, a table read from its far end and a band
// that is cut short change all rows but those that see one key. E larger than
// the number of keys and E = 1 show ends that are handled wrongly; without
// `causal` keys after the query have no band.
//
// Backward, with dS = dL/ds of softmax_rows.h, each summed over the heads that
// share the tensor, a = i + query_offset - j in [0, E):
//   grad_q[i] = scale sum_j dS_ij k_j      grad_k[j] = scale sum_i dS_ij q_i
//   grad_v[j] = sum_i P_ij grad[i]
//   grad_r[i] = sum_j dS_ij table[:, a]    grad_table[:, a] = sum_i dS_ij r_i
//
// Bound: softmax_rows.h with the score's error: that of the scaled dot product,
// p + 1 roundings of the magnitudes sum|r||table| for the band, and one of the
// sum of both.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& RelativeLogitsAttention();

}  // namespace subquad
