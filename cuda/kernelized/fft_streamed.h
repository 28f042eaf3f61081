// Kernelized attention with a relative bias by Toeplitz products (NPRF
// algorithm 1): every product of a key feature and a value column is a channel,
// phi_a(k_j) v_jx and phi_a(k_j) itself, and the bias mixes each channel along
// the sequence. It processes as many channels at a time as fit into the
// device's cache.
#pragma once

#include "cuda/base/fft.h"
#include "cuda/kernelized/direct_rows.h"
#include "cuda/kernelized/shape.h"

namespace subquad::device {

template <typename S>
class StreamedFftKernelized {
 public:
  StreamedFftKernelized(Layout& layout, const DeviceKernelizedShape& shape);

  // `omega` is {} if the map does not project.
  void Run(HeadArray<const S> q, HeadArray<const S> k, HeadArray<const S> v,
           HeadArray<const S> omega, HeadArray<const S> bias, HeadArray<S> out);

  static double Flops(const DeviceKernelizedShape& shape);

  // Returns the factor of element-wise errors of a channel: they are at most
  // this factor times the roundoff, |c|_2 and the channel's 2-norm.
  static double TransformFactor(const DeviceKernelizedShape& shape);

 private:
  static int64_t Length(const DeviceKernelizedShape& shape);
  // Returns how many features, across all heads, have their channels
  // transformed together.
  static int64_t FeaturesAtOnce(const DeviceKernelizedShape& shape);

  void TransformWeights();
  void AddChannels(int64_t first, int64_t count, HeadArray<const S> v);
  void FindLost();

  const DeviceKernelizedShape shape_;
  const int64_t length_, features_at_once_;
  Features features_;
  DeviceBias bias_;
  DeviceBuffer<float> vectors_;          // [vectors, length]
  DeviceBuffer<float> channels_;         // [features at once, e + 1, length]
  DeviceBuffer<float> sums_;             // [heads, e + 1, n_q]
  DeviceBuffer<float> squares_, norms_;  // [heads, pieces, f], [heads, f]
  DirectRows pairs_;
  FftPlan vector_plan_, plan_;
  FftArea area_;
};

}  // namespace subquad::device
