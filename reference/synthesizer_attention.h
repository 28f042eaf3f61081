// synthesizer_attention: out = softmax(B) (x phi_v), with scores B that are not
// a product of queries and keys (Transformers II, "Attention as a
// hypernetwork", fig. 12b and 13a; Tay et al. 2020)
//
//   x [n, D], phi_v [D, e]
//   kind  dense       B_ij = (relu(x phi_1) phi_2)_ij: a row from its token,
//                     phi_1 [D, m], phi_2 [m, n+extra], of which the first n
//                     columns are used
//         random      B = logits [n, n], given or learned
//         factorized  B = factor_q factor_k^T, both [n, r]
//   causal            token i sees tokens j <= i only
//   out [n, e]
//
// Test inputs: matrices whose columns have variance 1 over their
// length give scores of order one, so that every token matters. Columns of
// phi_2 read from the end, a missing relu, exchanged factors and transposed
// logits change all rows.
//
// Bound: a hidden value is a sum of D products and off by D u sum |x||phi_1|
// (Higham 2002, eq. 3.5), which relu does not enlarge; a score by m u sum
// |h||phi_2| plus the hidden values' errors, sum E |phi_2|; a value by D u sum
// |x||phi_v|. The rest is as in softmax_rows.h.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& SynthesizerAttention();

}  // namespace subquad
