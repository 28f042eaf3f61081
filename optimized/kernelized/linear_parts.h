// What the algorithms of linear_attention.h have in common.
#pragma once

#include "optimized/base/matrix.h"
#include "optimized/kernelized/linear.h"

namespace subquad {

template <typename T>
inline MatrixMap<T> Map(T* data, int64_t rows, int64_t columns) {
  return MatrixMap<T>(data, rows, columns, Eigen::OuterStride<>(columns));
}
template <typename T>
inline ConstMatrixMap<T> Map(const T* data, int64_t rows, int64_t columns) {
  return ConstMatrixMap<T>(data, rows, columns, Eigen::OuterStride<>(columns));
}

// Rows of a state brought to another scale.
template <typename T>
inline void Rescale(const T* factor, int64_t f, int64_t width, T* sums) {
  for (int64_t a = 0; a < f; ++a) {
    if (factor[a] == 1) continue;
    for (int64_t c = 0; c < width; ++c) sums[a * width + c] *= factor[a];
  }
}

// out [e] = sums [e] / sums[e]
template <typename T>
inline void Quotient(const T* sums, int64_t e, T* out) {
  const T total = sums[e];
  for (int64_t c = 0; c < e; ++c) out[c] = sums[c] / total;
}

inline double FeatureFlops(const KernelizedShape& shape) {
  return static_cast<double>(shape.n_q + shape.n_k) *
         FeatureRows<float>(shape.map).RowFlops();
}

}  // namespace subquad
