// The quadratic baselines of kernelized attention: all weights in device
// memory, times the values.
#pragma once

#include <optional>

#include "cuda/kernelized/direct_rows.h"
#include "cuda/kernelized/shape.h"

namespace subquad::device {

// Computes out = weights values / normalisers, once the caller has filled the
// weights [heads, n_q, n_k] and the normalisers [heads, n_q].
template <typename S>
class DenseQuotient {
 public:
  DenseQuotient(Layout& layout, int64_t heads, int64_t n_q, int64_t n_k,
                int64_t e);

  float* weights() const { return weights_.data(); }
  float* normalisers() const { return normalisers_.data(); }
  // Computes weights[h] = queries[h] keys[h]^T, for rows of f elements.
  void Scores(const float* queries, const float* keys, int64_t f);
  void Run(HeadArray<const S> v, HeadArray<S> out);

  Gemm& gemm() { return gemm_; }

 private:
  static constexpr bool kRounds = sizeof(S) < sizeof(float);

  const int64_t heads_, n_q_, n_k_, e_;
  DeviceBuffer<float> weights_, normalisers_;
  DeviceBuffer<float> values_, sums_;  // for tensors of a narrower type
  Gemm gemm_;
};

// Computes the weights (phi(Q) phi(K)^T) o C (NPRF eq. 10; FastRPB eq. 2).
template <typename S>
class DenseKernelized {
 public:
  DenseKernelized(Layout& layout, const DeviceKernelizedShape& shape);

  // `omega` is {} if the map does not project, `bias` is {} if there is no
  // bias.
  void Run(HeadArray<const S> q, HeadArray<const S> k, HeadArray<const S> v,
           HeadArray<const S> omega, HeadArray<const S> bias, HeadArray<S> out);

  static double Flops(const DeviceKernelizedShape& shape);

 private:
  const DeviceKernelizedShape shape_;
  Features features_;
  std::optional<DeviceBias> bias_;
  DenseQuotient<S> quotient_;
  DirectRows pairs_;
};

}  // namespace subquad::device
