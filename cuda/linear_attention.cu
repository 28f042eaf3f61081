// linear_attention on the GPU: out_i = phi(q_i)^T sum_j phi(k_j) v_j^T /
// phi(q_i)^T sum_j phi(k_j) (FastRPB eq. 3; Transformers II eq. 18-20; LRPE
// section II)
//
//   dense        phi(Q) phi(K)^T in memory, masked, times V, by cuBLAS
//   associative  phi(K)^T [V, 1] first, in segments; not causal
//   chunked      causal: a state before every chunk of 64 tokens, and the
//                chunk's own triangle
//
// Features are float32 arrays in memory for all three, scaled by the largest of
// many keys; causal queries whose visible keys are lost at that scale are
// computed pair by pair (direct_rows.h).
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/kernelized/dense.h"
#include "cuda/kernelized/linear.h"
#include "reference/contract/linear_attention.h"

namespace subquad::device {
namespace {

template <typename S>
class Dense : public DevicePrepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        projects_(problem.HasInput("omega")),
        shape_(problem),
        product_(layout, shape_) {}

  void Launch() override {
    product_.Run(In<S>("q"), In<S>("k"), In<S>("v"),
                 projects_ ? In<S>("omega") : HeadArray<const S>(), {},
                 Out<S>("out"));
  }

  double Flops() const override { return DenseKernelized<S>::Flops(shape_); }

 private:
  const bool projects_;
  const DeviceKernelizedShape shape_;
  DenseKernelized<S> product_;
};

template <typename S, typename Sum>
class Linear : public DevicePrepared {
 public:
  Linear(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        projects_(problem.HasInput("omega")),
        shape_(problem),
        attention_(layout, shape_) {}

  void Launch() override {
    attention_.Run(In<S>("q"), In<S>("k"), In<S>("v"),
                   projects_ ? In<S>("omega") : HeadArray<const S>(),
                   Out<Sum>("out"));
  }

  double Flops() const override {
    return LinearKernelized<S, S, Sum>::Flops(shape_);
  }

 private:
  const bool projects_;
  const DeviceKernelizedShape shape_;
  LinearKernelized<S, S, Sum> attention_;
};

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> LinearAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "linear_attention",
      {{.id = "dense",
        .what = "features times features by cuBLAS, masked, times values",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "associative",
        .what = "key features times values first, tiles in registers",
        .memory = {"O(n f + f e)", "n"},
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Linear>()},
       {.id = "chunked",
        .what =
            "chunks of 64 tokens: pairs within a chunk, and the previous state",
        .memory = {"O(n f (1 + e / chunk))", "n"},
        // A query may be lost because of a later key of its chunk, and is then
        // recomputed pair by pair.
        .sums = MixedWideSums,
        .prepare = PrepareOnDevice<Linear>()}});
}

}  // namespace subquad
