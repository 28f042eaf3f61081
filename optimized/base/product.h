// Products of matrices at the speed of a good BLAS. Eigen computes them; its
// templates are compiled in product.cc only, as they take longer to compile
// than all the code around them.
#pragma once

#include <cstdint>
#include <type_traits>

#include "optimized/base/matrix.h"

namespace subquad {

// A matrix with contiguous rows or columns, `stride` elements apart.
template <typename T>
struct MatrixView {
  T* data;
  int64_t rows, columns, stride;
  bool row_major;
};

// Makes a view of an Eigen map, a transposed map, or a block of one.
template <typename Matrix>
auto ViewOf(Matrix&& matrix) {
  using Type = std::remove_cvref_t<Matrix>;
  static_assert(Type::InnerStrideAtCompileTime == 1);
  return MatrixView<std::remove_pointer_t<decltype(matrix.data())>>{
      matrix.data(), matrix.rows(), matrix.cols(), matrix.outerStride(),
      Type::IsRowMajor};
}

// Computes out = scale a b, or with `add` out += scale a b. `out` is row-major
// and shares no memory with a and b.
template <typename T>
void MultiplyViews(T scale, const MatrixView<const T>& a,
                   const MatrixView<const T>& b, bool add,
                   const MatrixView<T>& out);

template <typename A, typename B, typename Out>
void Multiply(typename A::Scalar scale, const A& a, const B& b, Out&& out) {
  static_assert(std::remove_cvref_t<Out>::IsRowMajor);
  MultiplyViews<typename A::Scalar>(scale, ViewOf(a), ViewOf(b), false,
                                    ViewOf(out));
}
template <typename A, typename B, typename Out>
void AddProduct(const A& a, const B& b, Out&& out) {
  static_assert(std::remove_cvref_t<Out>::IsRowMajor);
  MultiplyViews<typename A::Scalar>(1, ViewOf(a), ViewOf(b), true, ViewOf(out));
}

}  // namespace subquad
