// Functions that the algorithms of linear_attention.h share.
#pragma once

#include "optimized/base/product.h"
#include "optimized/kernelized/linear.h"

namespace subquad {

// Multiplies the rows of a state by `factor`, to bring them to another scale.
template <typename T>
inline void Rescale(const T* factor, int64_t f, int64_t width, T* sums) {
  for (int64_t a = 0; a < f; ++a) {
    if (factor[a] == 1) continue;
    for (int64_t c = 0; c < width; ++c) sums[a * width + c] *= factor[a];
  }
}

// Returns the number of keys that all queries of a causal head see, in addition
// to one key for each further query.
template <typename T>
inline int64_t KeysBefore(const KernelizedShape& shape,
                          const HeadTensors<T>& head) {
  return std::min(shape.seen.first(), head.keys);
}

// Counts the flops for a head's keys before the first query.
inline double AbsorbFlops(const KernelizedShape& shape) {
  return 2.0 * static_cast<double>(std::min(shape.seen.first(), shape.n_k)) *
         static_cast<double>(shape.f) * static_cast<double>(shape.e + 1);
}

inline double FeatureFlops(const KernelizedShape& shape) {
  return static_cast<double>(shape.n_q + shape.n_k) *
         FeatureRows<float>(shape.map).RowFlops();
}

}  // namespace subquad
