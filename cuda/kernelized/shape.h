// The parts that the algorithms of kernelized attention on a device share:
// sizes, and the weights c = exp(bias) by offset.
#pragma once

#include "cuda/kernelized/features.h"
#include "reference/contract/kernelized.h"

namespace subquad::device {

struct DeviceKernelizedShape : KernelizedShape {
  explicit DeviceKernelizedShape(const Problem& problem)
      : KernelizedShape(problem) {
    if (has_bias) {
      bias_vectors = problem.SlicesOf("bias").count();
      bias_count = BiasCount();
    }
    // No query sees keys after the last query.
    if (causal) n_k = std::min(n_k, n_q);
  }

  FeatureShape features() const { return {map, n_q, n_k, heads}; }

  int64_t bias_vectors = 0, bias_count = 0;  // 0: no bias
};

// The weights exp(bias) in device memory; without a bias, `at` is null.
struct BiasWeights {
  const Scaled* at = nullptr;  // the entry for i = j of head 0
  int64_t head_stride = 0;
  TokenPositions positions = {0};
};

class DeviceBias {
 public:
  DeviceBias(Layout& layout, const DeviceKernelizedShape& shape);
  template <typename S>
  void Run(HeadArray<const S> bias);

  BiasWeights weights() const;
  // Return, for every vector, over the entries that some query may see: the
  // largest exponent, and the 2-norm of exp(bias) divided by that power of two.
  const int* tops() const { return tops_.data(); }
  const float* norms() const { return norms_.data(); }

 private:
  const DeviceKernelizedShape shape_;
  DeviceBuffer<Scaled> table_;  // [vectors, count]
  DeviceBuffer<int> tops_;
  DeviceBuffer<float> norms_;
};

}  // namespace subquad::device
