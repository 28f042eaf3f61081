// Exact softmax attention on tensor cores, for tensors of two bytes, with the
// scores in registers only (FlashAttention-2, Dao 2023).
#pragma once

#include "cuda/base/tensor_core.h"
#include "cuda/softmax/softmax_tiles.h"

namespace subquad::device {

inline constexpr int64_t kFragmentsDepth = 128;  // columns of a query that fit

// What SoftmaxTiles computes, of the same arguments, but d <= kFragmentsDepth.
// Rows of a multiple of eight numbers are copied as a whole, others one by one.
//
// Products of q and k are exact. A weight is computed in float32 and becomes a
// sum of numbers of two bytes, so that it is not rounded as it is in
// FlashAttention: three of bfloat16 (24 bits, as float32), two of float16
// (22 bits). That takes as many products with v. A block takes 128 queries
// where d, e <= 64, 64 otherwise, and up to 128 columns of v over all keys that
// these queries see.
//
// Error: kTensorCoreBoundFactor times the bound of the plain program.
//
// There are those of the two types of two bytes.
template <typename S>
void SoftmaxFragments(const SoftmaxShape& shape, float scale,
                      HeadArray<const S> q, HeadArray<const S> k,
                      HeadArray<const S> v, HeadArray<const S> bias,
                      HeadArray<S> out);

// Products and sums that are computed.
double SoftmaxFragmentsFlops(Scalar scalar, const SoftmaxShape& shape);

}  // namespace subquad::device
