// sinkhorn_attention: softmax attention within blocks, and to a mixture of all
// blocks that a doubly stochastic matrix forms for each block (Transformers II,
// learned sparsity; Sparse Sinkhorn Attention, Tay et al. 2020)
//
//   q, k [n, d], v [n, e], out [n, e]; n = b block
//   logits [b, b]  P = exp(logits); then `iterations` times each row of P is
//                  divided by its sum, and after that each column
//   k'_B = sum_C P_BC k_C, block by block, v' likewise
//   a query of block B sees the keys of block B and those of k'_B
//   scale          default 1/sqrt(d)
//
// Test inputs: after a few iterations P is far from uniform and from a
// permutation, so that transposed logits, columns before rows and an iteration
// too many or too few all change k'.
//
// P is computed as exp(logits_BC + f_B + g_C), where no sum can overflow or
// vanish: f_B = -log sum_C exp(logits_BC + g_C), then g_C likewise.
//
// Bound: one such logarithm is off by u times max|a| + |log sum| + 3 log b + b
// + 6, a the exponents: their rounding, that of the sum of b exponentials, each
// off by 3 gap + 4 for its gap to the largest (on average over the weights at
// most log b), and of the result. It passes on errors of g without enlarging
// them; so f and g are off by at most the sum of these over all steps before,
// and an exponent of P by both, and its own roundings. k'_B is a sum of b
// products with such weights. The rest is as in softmax_rows.h and
// reduced_keys.h.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& SinkhornAttention();

}  // namespace subquad
