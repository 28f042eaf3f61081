// linformer_attention: out = softmax(scale q (proj_k k)^T) (proj_v v)
// (Transformers II eq. 15; Wang et al. 2020)
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   proj_k, proj_v [p, n_k]  shared by the heads or one for each
//   out [n_q, e]
//   scale                    default 1/sqrt(d)
//
// Test inputs: with projections of variance 1/n_k the reduced keys are
// as large as the keys and scores are of order one; using proj_k as proj_v,
// transposing a projection or omitting a part of the keys changes all rows.
//
// Bound: see reduced_keys.h, with n_k terms.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& LinformerAttention();

}  // namespace subquad
