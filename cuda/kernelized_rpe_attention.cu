// kernelized_rpe_attention on the GPU:
//   out_i = phi(q_i)^T sum_j c(j-i) phi(k_j) v_j^T
//           / phi(q_i)^T sum_j c(j-i) phi(k_j),  c = exp(bias)  (NPRF eq.
//           10-13)
//
//   dense         ((phi(Q) phi(K)^T) o C) V by cuBLAS, everything in memory
//   tiled         the same sums, 64 x 64 weights at a time in registers
//   fft_streamed  algorithm 1, as many channels at a time as the cache holds;
//                 queries whose normaliser the transforms may have lost are
//                 computed by `tiled`
//
// All three scale features by what is largest among the keys; queries that see
// only what is lost beside that are computed pair by pair (direct_rows.h).
#include "algorithms/kernelized_rpe_attention.h"
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/kernelized/dense.h"
#include "cuda/kernelized/direct_rows.h"
#include "cuda/kernelized/tiled.h"
#include "cuda/kernelized/transforms.h"

namespace subquad::device {
namespace {

template <typename S>
class TiledKernelized {
 public:
  explicit TiledKernelized(const DeviceKernelizedShape& shape)
      : shape_(shape),
        features_(shape.features(), KeyScaling::kRows),
        bias_(shape),
        pairs_(shape) {}

  void Run(HeadArray<const S> q, HeadArray<const S> k, HeadArray<const S> v,
           HeadArray<const S> omega, HeadArray<const S> bias,
           HeadArray<S> out) {
    features_.Run(q, k, omega);
    bias_.Run(bias);
    RunTiledKernelized<S>(shape_, features_, bias_.weights(), v, out,
                          pairs_.marks());
    pairs_.Run(q, k, omega, bias_.weights(), v, out);
  }

  static Cost CostOf(const DeviceKernelizedShape& shape) {
    return {.flops =
                Features::Flops(shape.features()) + TiledKernelizedFlops(shape),
            .workspace_bytes =
                Features::WorkspaceBytes(shape.features(), KeyScaling::kRows) +
                DeviceBias::WorkspaceBytes(shape) +
                DirectRows::WorkspaceBytes(shape)};
  }

 private:
  const DeviceKernelizedShape shape_;
  Features features_;
  DeviceBias bias_;
  DirectRows pairs_;
};

template <template <typename> class Algorithm>
struct Kernelized {
  template <typename S>
  class Run : public DevicePrepared {
   public:
    Run(const Problem& problem, const Arrays& arrays)
        : DevicePrepared(problem, arrays),
          projects_(problem.HasInput("omega")),
          algorithm_(DeviceKernelizedShape(problem)) {}

    void Launch() override {
      algorithm_.Run(
          this->template In<S>("q"), this->template In<S>("k"),
          this->template In<S>("v"),
          projects_ ? this->template In<S>("omega") : HeadArray<const S>(),
          this->template In<S>("bias"), this->template Out<S>("out"));
    }

   private:
    const bool projects_;
    Algorithm<S> algorithm_;
  };

  static Cost CostOf(const Problem& problem, int) {
    return WithStorage(problem.scalar, [&]<typename S>() {
      Cost cost = Algorithm<S>::CostOf(DeviceKernelizedShape(problem));
      cost.bytes = TensorBytes(problem);
      return cost;
    });
  }
};

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
        .cost = Kernelized<DenseKernelized>::CostOf,
        .prepare = PrepareOnDevice<Kernelized<DenseKernelized>::Run>()},
       {.id = "tiled",
        .what = "64 x 64 weights at a time, in registers",
        .memory = {"O(n f)", "n"},
        .sums = DirectSums,
        .cost = Kernelized<TiledKernelized>::CostOf,
        .prepare = PrepareOnDevice<Kernelized<TiledKernelized>::Run>()},
       {.id = "fft_streamed",
        .what = "as many channels at a time as the cache holds, by cuFFT",
        .sums = MixedSums,
        .cost = Kernelized<StreamedFftKernelized>::CostOf,
        .norm_bound = FftBound,
        .prepare = PrepareOnDevice<Kernelized<StreamedFftKernelized>::Run>()}});
}

}  // namespace subquad
