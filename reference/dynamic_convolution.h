// dynamic_convolution: a convolution whose weights each token computes for
// itself (Transformers II, "Attention as a hypernetwork"; Wu et al. 2019)
//
//   w_i = softmax(x_i phi_k)   u = x phi_v
//   out_i = sum_t w_i[t] u[i + t - c],   c = K - 1 if causal, else floor(K / 2)
//
//   x [n, D]
//   phi_k [D, K], phi_v [D, e]  shared by the heads or one for each
//   out [n, e]
//   causal                      a token sees itself and the K - 1 before it
//
// u is zero beyond the ends of the sequence. The softmax is over all K places
// even there: near an end the weights of the others do not sum to one.
//
// Test inputs: with columns of variance 1/D the logits are of order
// one, so that every place matters. A window that begins one place away, is
// read backwards or is normalised only over the places within the sequence
// changes rows.
//
// Bound: u_j is a sum of D products and off by D u sum |x||phi_v| (Higham 2002,
// eq. 3.5), a logit by the corresponding bound with phi_k; the rest is as in
// softmax_rows.h, over K keys, some of which are zero.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& DynamicConvolution();

}  // namespace subquad
