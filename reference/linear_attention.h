// linear_attention: softmax's exp(q . k) replaced by a product of features
// (FastRPB eq. 3; Transformers II eq. 18-20; LRPE section II)
//
//   out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j)
//
//   q      [n_q, d]
//   k      [n_k, d]
//   v      [n_k, e]
//   omega  [f, d] or [p, d]   where the map projects (feature_map.h)
//   out    [n_q, e]
//   feature_map, nu (dpfp)    the map
//   causal, query_offset, key_lengths: see visible_keys.h
//   eps                       is added to the denominator; default 0
//   normalized = false        the numerator alone
//   scale                     phi is applied to sqrt(scale) x; default 1
//
// Test inputs: normal draws show any wrong index. A mean far from zero
// (exp features of e^95 and e^-97) shows a missing scale; keys that grow along
// the sequence show a scale computed over the future; signs that alternate make
// relu features vanish, and with them the normaliser, which is an error.
//
// Bound: kernelized/bound.h. Cost of a row: n_k (f + e).
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& LinearAttention();

}  // namespace subquad
