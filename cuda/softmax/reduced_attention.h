// Attention of all queries to a reduced number of keys and values, by two
// algorithms; shared by linformer_attention and memory_compressed_attention.
// The reduced keys and values are float32: intermediate sums are not rounded to
// a storage type.
#pragma once

#include "cuda/softmax/dense_attention.h"
#include "cuda/softmax/softmax_tiles.h"

namespace subquad::device {

// Uses two products by cuBLAS with the scores in memory.
template <typename S>
class DenseToReduced {
 public:
  // The bound of reference/softmax/reduced_keys.h holds for any order of the
  // sums.
  static constexpr double kBoundFactor = 1;

  DenseToReduced(Layout& layout, const SoftmaxShape& shape)
      : attention_(layout, shape),
        queries_(layout, shape.heads * shape.n_q * shape.d) {}

  void Run(float scale, HeadArray<const S> q, HeadArray<const float> k,
           HeadArray<const float> v, HeadArray<S> out) {
    attention_.template Run<float>(EveryKey(), scale, queries_.Run(q), k, v,
                                   out);
  }

  static double Flops(const SoftmaxShape& shape) {
    return DenseAttention<S>::Flops(shape);
  }

 private:
  DenseAttention<S> attention_;
  Widened<S> queries_;
};

// Keeps scores in registers only.
template <typename S>
class TiledToReduced {
 public:
  static constexpr double kBoundFactor = kSoftmaxTilesBoundFactor;

  TiledToReduced(Layout&, const SoftmaxShape& shape) : shape_(shape) {}

  void Run(float scale, HeadArray<const S> q, HeadArray<const float> k,
           HeadArray<const float> v, HeadArray<S> out) {
    SoftmaxTiles<S, float, float, S>(shape_, scale, q, k, v, {}, out);
  }

  static double Flops(const SoftmaxShape& shape) {
    return SoftmaxTilesFlops(shape);
  }

 private:
  const SoftmaxShape shape_;
};

}  // namespace subquad::device
