// The quadratic baseline of the products with relative weights: the matrix in
// device memory, and one product of matrices.
#pragma once

#include <type_traits>

#include "cuda/base/convert.h"
#include "cuda/base/gemm.h"

namespace subquad::device {

// Computes out[h] = matrix[h] values[h], or += that, once the caller has filled
// `matrix()`: [matrices, n_q, n_k] in Weight, the tensors' own type S if its
// elements are exact in it, else float.
template <typename S, typename Weight = S>
class DenseProduct {
 public:
  DenseProduct(Layout& layout, int64_t n_q, int64_t n_k, int64_t e,
               int64_t heads, int64_t matrices)
      : n_q_(n_q),
        n_k_(n_k),
        e_(e),
        heads_(heads),
        matrices_(matrices),
        matrix_(layout, matrices * n_q * n_k),
        widened_(layout, kSame ? 0 : heads * n_k * e),
        sums_(layout, kRounds ? heads * n_q * e : 0),
        gemm_(layout) {}

  Weight* matrix() const { return matrix_.data(); }

  // Allows `add` only if S is float.
  void Run(HeadArray<const S> values, HeadArray<S> out, bool add = false) {
    HeadArray<const Weight> right;
    if constexpr (kSame)
      right = values;
    else
      right = widened_.Run(values);
    float* sums = sums_.data();
    if constexpr (!kRounds) sums = out.data;
    gemm_.Run<Weight>(
        heads_, 1,
        {matrix_.data(), n_q_, n_k_, n_k_, matrices_ > 1 ? n_q_ * n_k_ : 0},
        {right.data, n_k_, e_, e_, right.head_stride}, add ? 1 : 0,
        {sums, n_q_, e_, e_, n_q_ * e_});
    if constexpr (kRounds) Convert(sums, heads_ * n_q_ * e_, out.data);
  }

 private:
  static constexpr bool kRounds = sizeof(S) < sizeof(float);
  static constexpr bool kSame = std::is_same_v<S, Weight>;
  static_assert(kSame || std::is_same_v<Weight, float>);
  const int64_t n_q_, n_k_, e_, heads_, matrices_;
  DeviceBuffer<Weight> matrix_;
  Widened<S> widened_;        // if the matrix has a wider type
  DeviceBuffer<float> sums_;  // if out has a narrower type
  Gemm gemm_;
};

}  // namespace subquad::device
