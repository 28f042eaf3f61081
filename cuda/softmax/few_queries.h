// Exact softmax attention of few queries over many keys, as in generating text
// token by token: reading the keys and values takes nearly all of the time.
#pragma once

#include "cuda/softmax/softmax_partials.h"
#include "cuda/softmax/softmax_tiles.h"

namespace subquad::device {

inline constexpr int64_t kFewQueriesColumns = 128;  // largest width of q and v

// Computes the same as SoftmaxTiles, but requires d, e <= kFewQueriesColumns. A
// block takes one query. Each lane reads 16 bytes of a key and of its value
// into registers, so that there are no tiles in shared memory and no query is
// padded to a tile. If there are too few queries to fill the device, several
// blocks share the keys of a query, and their sums are merged
// (softmax_partials.h). Each query of each head reads all of its keys, also
// where heads share them.
//
// Everything is computed in float32 and rounded once.
//
// Instantiated for the three storage types.
template <typename S>
class FewQueries {
 public:
  FewQueries(Layout& layout, const SoftmaxShape& shape);

  void Run(float scale, HeadArray<const S> q, HeadArray<const S> k,
           HeadArray<const S> v, HeadArray<const S> bias, HeadArray<S> out,
           const SoftmaxOptions<S, S>& options) const;

  // Counts multiplications and additions.
  static double Flops(const SoftmaxShape& shape);

 private:
  const SoftmaxShape shape_;
  const int64_t splits_;  // blocks that share the keys of a query
  PartialsBuffer partials_;
};

// Factor for the plain program's bound. A sum is rescaled once for every batch
// of at least 8 keys, and once more when two sums of at least 8 keys each are
// merged. Each rescaling is one rounding and at most two of the exponential, so
// that both together are at most twice 3/8 of the roundings of adding the keys.
inline constexpr double kFewQueriesBoundFactor = 1 + 2 * 3.0 / 8;

}  // namespace subquad::device
