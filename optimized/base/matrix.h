// Row-major arrays as Eigen sees them.
#pragma once

#include <Eigen/Core>

namespace subquad {

template <typename T>
using RowMajor =
    Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
template <typename T>
using MatrixMap = Eigen::Map<RowMajor<T>, 0, Eigen::OuterStride<>>;
template <typename T>
using ConstMatrixMap = Eigen::Map<const RowMajor<T>, 0, Eigen::OuterStride<>>;

}  // namespace subquad
