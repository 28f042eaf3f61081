// The quadratic baseline of operators with a softmax: all scores in device
// memory, between two products of matrices by cuBLAS.
#pragma once

#include "cuda/base/convert.h"
#include "cuda/base/gemm.h"
#include "cuda/softmax/softmax_rows.h"
#include "cuda/softmax/softmax_tiles.h"

namespace subquad::device {

// Computes out = softmax(adjusted(scale q k^T)) v, with the tensors of
// SoftmaxTiles. `adjusted` masks and adds as SoftmaxRows says.
template <typename S>
class DenseAttention {
 public:
  DenseAttention(Layout& layout, const SoftmaxShape& shape)
      : shape_(shape),
        scores_(layout, shape.heads * shape.n_q * shape.n_k),
        sums_(layout, kRounds ? shape.heads * shape.n_q * shape.e : 0),
        gemm_(layout) {}

  template <typename T, typename Adjusted>
  void Run(const Adjusted& adjusted, float scale, HeadArray<const T> q,
           HeadArray<const T> k, HeadArray<const float> v, HeadArray<S> out) {
    const int64_t n_q = shape_.n_q, n_k = shape_.n_k, d = shape_.d,
                  e = shape_.e, heads = shape_.heads;
    float* sums = sums_.data();
    if constexpr (!kRounds) sums = out.data;
    gemm_.Run<T>(heads, scale, {q.data, n_q, d, d, q.head_stride},
                 {k.data, n_k, d, d, k.head_stride, true}, 0,
                 {scores_.data(), n_q, n_k, n_k, n_q * n_k});
    SoftmaxRows(adjusted, heads, n_q, n_k, scores_.data());
    gemm_.Run<float>(heads, 1, {scores_.data(), n_q, n_k, n_k, n_q * n_k},
                     {v.data, n_k, e, e, v.head_stride}, 0,
                     {sums, n_q, e, e, n_q * e});
    if constexpr (kRounds) Convert(sums, heads * n_q * e, out.data);
  }

  static double Flops(const SoftmaxShape& shape) {
    return 2 * static_cast<double>(shape.heads * shape.n_q) *
           static_cast<double>(shape.n_k) *
           static_cast<double>(shape.d + shape.e);
  }

 private:
  static constexpr bool kRounds = sizeof(S) < sizeof(float);
  const SoftmaxShape shape_;
  DeviceBuffer<float> scores_;
  DeviceBuffer<float> sums_;  // if out has a narrower type
  Gemm gemm_;
};

}  // namespace subquad::device
