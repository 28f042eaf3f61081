// Eigen views of row-major arrays.
#pragma once

#include <Eigen/Core>
#include <cstdint>
#include <type_traits>

namespace subquad {

template <typename T>
using RowMajor =
    Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using MatrixMap = Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>>;
template <typename T>
using ConstMatrixMap = Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>>;

// Returns rows that are `stride` elements apart, or contiguous rows.
template <typename T>
auto RowsOf(T* data, int64_t rows, int64_t columns, int64_t stride) {
  using Map =
      std::conditional_t<std::is_const_v<T>,
                         ConstMatrixMap<std::remove_const_t<T>>, MatrixMap<T>>;
  return Map(data, rows, columns, Eigen::OuterStride<>(stride));
}
template <typename T>
auto RowsOf(T* data, int64_t rows, int64_t columns) {
  return RowsOf(data, rows, columns, columns);
}

}  // namespace subquad
