// Exact softmax attention of few queries over many keys, as when text is
// generated token by token: reading the keys and the values is nearly all work.
#pragma once

#include "cuda/softmax/softmax_partials.h"
#include "cuda/softmax/softmax_tiles.h"

namespace subquad::device {

inline constexpr int64_t kFewQueriesColumns = 128;  // of q and of v that fit

// Computes what SoftmaxTiles computes, but d, e <= kFewQueriesColumns. A block
// takes one query, and lanes side by side read 16 bytes each of a key and of
// its value, which stay in registers: there are no tiles in shared memory, and
// no query is padded to a tile. Blocks share the keys of a query until they
// fill the device, and their sums are merged (softmax_partials.h). Every query
// reads its keys again.
//
// Everything is computed in float32 and rounded once.
//
// The three types of storage are instantiated.
template <typename S>
class FewQueries {
 public:
  FewQueries(Layout& layout, const SoftmaxShape& shape);

  void Run(float scale, HeadArray<const S> q, HeadArray<const S> k,
           HeadArray<const S> v, HeadArray<const S> bias,
           HeadArray<S> out) const;

  // Counts the products and sums that are computed.
  static double Flops(const SoftmaxShape& shape);

 private:
  const SoftmaxShape shape_;
  const int64_t splits_;  // blocks that share the keys of a query
  PartialsBuffer partials_;
};

// Multiplies the bound of the plain program. A sum is rescaled once for every
// batch of at least 8 keys, and once more where two sums of at least 8 keys
// each are merged. Each time that is a rounding and at most two of the
// exponential, so at most 3/8 of the roundings of adding the keys, twice.
inline constexpr double kFewQueriesBoundFactor = 1 + 2 * 3.0 / 8;

}  // namespace subquad::device
