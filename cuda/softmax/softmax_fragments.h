// Exact softmax attention on tensor cores, for tensors of two bytes, with the
// scores in registers only (FlashAttention-2, Dao 2023).
#pragma once

#include <vector>

#include "cuda/base/tensor_core.h"
#include "cuda/softmax/softmax_partials.h"
#include "cuda/softmax/softmax_tiles.h"

namespace subquad::device {

inline constexpr int64_t kFragmentsDepth = 128;  // columns of a query that fit

// Describes one kernel, which takes some of the queries of a problem.
struct FragmentsPlan {
  int64_t first_query, queries;
  int parts;       // of a weight
  int64_t splits;  // blocks that share the keys of a block of queries
};

// Computes what SoftmaxTiles computes, of the same arguments, but d <=
// kFragmentsDepth. Rows of a multiple of eight numbers are copied as a whole,
// others one by one.
//
// Products of q and k are exact. A weight is computed in float32 and becomes a
// sum of numbers of two bytes, so that it is not rounded as it is in
// FlashAttention: two of float16 (22 bits), two of bfloat16 (16 bits) where a
// query sees so many keys that the plain program's own error covers the rest,
// and three (24 bits, as float32) elsewhere. That takes as many products with
// v.
//
// A block takes 128 or 64 queries and up to 128 columns of v. Where that makes
// too few blocks to fill a device, several blocks share the keys of a block of
// queries, and their sums are merged (softmax_partials.h).
//
// The error is at most kTensorCoreBoundFactor times the bound of the plain
// program.
//
// The two types of two bytes are instantiated.
template <typename S>
class SoftmaxFragments {
 public:
  SoftmaxFragments(Layout& layout, const SoftmaxShape& shape);

  void Run(float scale, HeadArray<const S> q, HeadArray<const S> k,
           HeadArray<const S> v, HeadArray<const S> bias,
           HeadArray<S> out) const;

  // Counts the products and sums that are computed.
  static double Flops(const SoftmaxShape& shape);

 private:
  const SoftmaxShape shape_;
  const std::vector<FragmentsPlan> plans_;
  PartialsBuffer partials_;
};

}  // namespace subquad::device
