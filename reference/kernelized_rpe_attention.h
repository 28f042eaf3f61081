// kernelized_rpe_attention: kernelized attention whose weights depend on the
// relative position too (NPRF eq. 10-13, algorithm 1)
//
//   out_i = phi(q_i)^T sum_j c(j-i) phi(k_j) v_j^T
//           / phi(q_i)^T sum_j c(j-i) phi(k_j),     c = exp(bias)
//
//   q      [n_q, d]
//   k      [n_k, d]
//   v      [n_k, e]
//   omega  [f, d] or [p, d]   where the map projects (feature_map.h)
//   bias   [n_q+n_k-1]        by increasing offset; -inf: masked
//   out    [n_q, e]
// With height and width, q, k, v are the pixels of an image, and
//   bias   [2H-1, 2W-1]       by the offsets of rows and of columns
//
//   feature_map, nu (dpfp)    the map
//   normalize                 q and k rows are divided by their 2-norms first
//   causal                    query i sees positions j <= i only
//   query_offset, key_lengths see visible_keys.h; not on an image. The entry of
//                             bias for key j and query i does not depend on
//                             them
//   eps                       is added to the denominator; default 0
//   normalized = false        the numerator alone
//   scale                     phi is applied to sqrt(scale) x; default 1
//
// Test inputs: normal draws show any wrong offset. A bias 200 higher
// everywhere changes nothing, and overflows if it is not shifted. A bias of
// -inf that hides keys of exp(95) shows a scale computed over hidden keys. A
// bias that decays and keys that drop by 1e-6 cost an FFT its digits: the
// normaliser is then small against the norms that it mixes.
//
// Bound: kernelized/bound.h. Cost of a row: n_k (f + e).
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& KernelizedRpeAttention();

}  // namespace subquad
