// Exact softmax attention on tensor cores, for 16-bit tensors, with the scores
// in registers only (FlashAttention-2, Dao 2023).
#pragma once

#include <vector>

#include "cuda/base/tensor_core.h"
#include "cuda/softmax/softmax_partials.h"
#include "cuda/softmax/softmax_tiles.h"

namespace subquad::device {

inline constexpr int64_t kFragmentsDepth = 128;  // largest width of a query

// One kernel, for some of the queries of a problem.
struct FragmentsPlan {
  int64_t first_query, queries;
  int parts;       // 16-bit parts of a weight
  int64_t splits;  // blocks that share the keys of a block of queries
};

// Computes the same as SoftmaxTiles from the same arguments, but requires d <=
// kFragmentsDepth. Rows whose width is a multiple of eight are copied eight
// elements at a time, others element by element.
//
// Products of q and k are exact. A weight is computed in float32 and
// represented as a sum of 16-bit parts, so that it is not rounded to one 16-bit
// number as in FlashAttention: two parts for float16 (22 bits); two for
// bfloat16 (16 bits) if a query sees so many keys that the plain program's own
// error covers the rest, and three (24 bits, as in float32) otherwise. Each
// part takes a product with v.
//
// A block takes 128 or 64 queries and up to 128 columns of v. If there are too
// few blocks to fill a device, several blocks share the keys of a block of
// queries, and their sums are merged (softmax_partials.h).
//
// The error is at most kTensorCoreBoundFactor times the plain program's bound.
//
// Instantiated for the two 16-bit types.
template <typename S>
class SoftmaxFragments {
 public:
  SoftmaxFragments(Layout& layout, const SoftmaxShape& shape);

  void Run(float scale, HeadArray<const S> q, HeadArray<const S> k,
           HeadArray<const S> v, HeadArray<const S> bias, HeadArray<S> out,
           const SoftmaxOptions<S, S>& options) const;

  // Counts multiplications and additions.
  static double Flops(const SoftmaxShape& shape);

 private:
  const SoftmaxShape shape_;
  const std::vector<FragmentsPlan> plans_;
  PartialsBuffer partials_;
};

}  // namespace subquad::device
