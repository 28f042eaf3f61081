// memory_compressed_attention: softmax attention to keys and values that a
// convolution, whose stride is its number of weights, has reduced (Transformers
// II eq. 14; Liu et al. 2018)
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   theta_k, theta_v [s]  shared by the heads or one for each; s = `stride`
//   k'[a] = sum_b theta_k[b] k[a s + b],  a = 0 .. floor(n_k/s) - 1,
//   v'[a] likewise; a ragged tail is dropped
//   out = softmax(scale q k'^T) v'  [n_q, e]
//   scale                 default 1/sqrt(d)
//
// Test inputs: sizes that are not multiples of s show a ragged tail
// that is used; normal weights show a reversed order of the weights.
//
// Bound: see reduced_keys.h, with s terms.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& MemoryCompressedAttention();

}  // namespace subquad
