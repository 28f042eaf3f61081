// kernelized_rpe_attention on the GPU:
//   out_i = phi(q_i)^T sum_j c(j-i) phi(k_j) v_j^T
//           / phi(q_i)^T sum_j c(j-i) phi(k_j),  c = exp(bias)  (NPRF eq.
//           10-13)
//
//   dense         ((phi(Q) phi(K)^T) o C) V by cuBLAS, everything in memory
//   tiled         the sums of dense, 64 x 64 weights at a time in registers
//   fft_streamed  algorithm 1, as many channels at a time as the cache holds;
//                 queries whose normaliser the transforms may have lost are
//                 computed by `tiled`
//
// All three scale features by the largest among the keys; queries whose visible
// keys are lost at that scale are computed pair by pair (direct_rows.h).
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/kernelized/dense.h"
#include "cuda/kernelized/direct_rows.h"
#include "cuda/kernelized/fft_streamed.h"
#include "cuda/kernelized/tiled.h"
#include "reference/contract/kernelized_rpe_attention.h"

namespace subquad::device {
namespace {

template <typename S>
class TiledKernelized {
 public:
  TiledKernelized(Layout& layout, const DeviceKernelizedShape& shape)
      : shape_(shape),
        features_(layout, shape.features(), KeyScaling::kRows),
        bias_(layout, shape),
        pairs_(layout, shape) {}

  void Run(HeadArray<const S> q, HeadArray<const S> k, HeadArray<const S> v,
           HeadArray<const S> omega, HeadArray<const S> bias,
           HeadArray<S> out) {
    features_.Run(q, k, omega);
    bias_.Run(bias);
    RunTiledKernelized<S>(shape_, features_, bias_.weights(), v, out,
                          pairs_.marks());
    pairs_.Run(q, k, omega, bias_.weights(), v, out);
  }

  static double Flops(const DeviceKernelizedShape& shape) {
    return Features::Flops(shape.features()) + TiledKernelizedFlops(shape);
  }

 private:
  const DeviceKernelizedShape shape_;
  Features features_;
  DeviceBias bias_;
  DirectRows pairs_;
};

template <typename S, template <typename> class Algorithm>
class Kernelized : public DevicePrepared {
 public:
  Kernelized(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        projects_(problem.HasInput("omega")),
        shape_(problem),
        algorithm_(layout, shape_) {}

  void Launch() override {
    algorithm_.Run(In<S>("q"), In<S>("k"), In<S>("v"),
                   projects_ ? In<S>("omega") : HeadArray<const S>(),
                   In<S>("bias"), Out<S>("out"));
  }
  double Flops() const override { return Algorithm<S>::Flops(shape_); }

 private:
  const bool projects_;
  const DeviceKernelizedShape shape_;
  Algorithm<S> algorithm_;
};
template <typename S>
using Dense = Kernelized<S, DenseKernelized>;
template <typename S>
using Tiled = Kernelized<S, TiledKernelized>;
template <typename S>
using FftStreamed = Kernelized<S, StreamedFftKernelized>;

RowBound FftBound(const Problem& problem, const Inputs& inputs) {
  const DeviceKernelizedShape shape(problem);
  return KernelizedFftBound(
      problem, inputs, StreamedFftKernelized<float>::TransformFactor(shape),
      shape.n_k);
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> KernelizedRpeAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "kernelized_rpe_attention",
      {{.id = "dense",
        .what = "all weights in memory: cuBLAS, and the bias between",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "tiled",
        .what = "64 x 64 weights at a time, in registers",
        .memory = {"O(n f)", "n"},
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Tiled>()},
       {.id = "fft_streamed",
        .what = "as many channels at a time as the cache holds, by cuFFT",
        .sums = MixedSums,
        .norm_bound = FftBound,
        .prepare = PrepareOnDevice<FftStreamed>()}});
}

}  // namespace subquad
