#include "optimized/base/product.h"

namespace subquad {
namespace {

template <typename T>
ConstMatrixMap<T> MapOf(const MatrixView<const T>& view) {
  const bool turned = !view.row_major;
  return ConstMatrixMap<T>(view.data, turned ? view.columns : view.rows,
                           turned ? view.rows : view.columns,
                           Eigen::OuterStride<>(view.stride));
}

}  // namespace

template <typename T>
void MultiplyViews(T scale, const MatrixView<const T>& a,
                   const MatrixView<const T>& b, bool add,
                   const MatrixView<T>& out) {
  MatrixMap<T> result(out.data, out.rows, out.columns,
                      Eigen::OuterStride<>(out.stride));
  const auto assign = [&](const auto& x, const auto& y) {
    if (add)
      result.noalias() += scale * x * y;
    else
      result.noalias() = scale * x * y;
  };
  const ConstMatrixMap<T> x = MapOf(a), y = MapOf(b);
  if (a.row_major && b.row_major)
    assign(x, y);
  else if (a.row_major)
    assign(x, y.transpose());
  else if (b.row_major)
    assign(x.transpose(), y);
  else
    assign(x.transpose(), y.transpose());
}

template void MultiplyViews(float, const MatrixView<const float>&,
                            const MatrixView<const float>&, bool,
                            const MatrixView<float>&);
template void MultiplyViews(double, const MatrixView<const double>&,
                            const MatrixView<const double>&, bool,
                            const MatrixView<double>&);

}  // namespace subquad
