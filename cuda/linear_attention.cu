// linear_attention on the GPU: out_i = phi(q_i)^T sum_j phi(k_j) v_j^T /
// phi(q_i)^T sum_j phi(k_j) (FastRPB eq. 3; blog eq. 18-20; LRPE section II)
//
//   dense        phi(Q) phi(K)^T in memory, masked, times V, by cuBLAS
//   associative  phi(K)^T [V, 1] first, in segments; not causal
//   chunked      causal: a state before every chunk of 64 tokens, and the
//                chunk's own triangle
//
// Features are float32 arrays in memory for all three, scaled by the largest of
// many keys; causal queries that see only what is lost beside those are
// computed pair by pair (direct_rows.h).
#include "algorithms/linear_attention.h"
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/kernelized/dense.h"
#include "cuda/kernelized/linear.h"
#include "reference/linear_attention.h"

namespace subquad::device {
namespace {

template <typename S>
class Dense : public DevicePrepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays)
      : DevicePrepared(problem, arrays),
        projects_(problem.HasInput("omega")),
        product_(KernelizedShape(problem)) {}

  void Launch() override {
    product_.Run(In<S>("q"), In<S>("k"), In<S>("v"),
                 projects_ ? In<S>("omega") : HeadArray<const S>(), {},
                 Out<S>("out"));
  }

 private:
  const bool projects_;
  DenseKernelized<S> product_;
};

template <typename S>
class Linear : public DevicePrepared {
 public:
  Linear(const Problem& problem, const Arrays& arrays)
      : DevicePrepared(problem, arrays),
        projects_(problem.HasInput("omega")),
        attention_(KernelizedShape(problem)) {}

  void Launch() override {
    attention_.Run(In<S>("q"), In<S>("k"), In<S>("v"),
                   projects_ ? In<S>("omega") : HeadArray<const S>(),
                   Out<S>("out"));
  }

 private:
  const bool projects_;
  LinearKernelized<S, S, S> attention_;
};

Cost DenseCost(const Problem& problem, int) {
  return WithStorage(problem.scalar, [&]<typename S>() {
    Cost cost = DenseKernelized<S>::CostOf(KernelizedShape(problem));
    cost.bytes = TensorBytes(problem);
    return cost;
  });
}

Cost LinearCost(const Problem& problem, int) {
  Cost cost =
      LinearKernelized<float, float, float>::CostOf(KernelizedShape(problem));
  cost.bytes = TensorBytes(problem);
  return cost;
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> LinearAttentionCudaImplementations() {
  using namespace device;
  Implementation dense = DeviceImplementation("linear_attention", "dense");
  dense.what = "features times features by cuBLAS, masked, times values";
  dense.source = "FastRPB eq. 2";
  dense.time = "O(n^2 (f + e))";
  dense.memory = "O(n^2 + n f)";
  dense.time_class = "n^2";
  dense.memory_class = "n^2";
  dense.cost = DenseCost;
  dense.prepare = PrepareOnDevice<Dense>();

  Implementation associative =
      DeviceImplementation("linear_attention", "associative", NotCausal);
  associative.what = "key features times values first, tiles in registers";
  associative.source = "FastRPB eq. 3; Katharopoulos 2020";
  associative.time = "O(n f e)";
  associative.memory = "O(n f + f e)";
  associative.time_class = "n";
  associative.memory_class = "n";
  associative.norm_bound = SignedFeatureBound;
  associative.cost = LinearCost;
  associative.prepare = PrepareOnDevice<Linear>();

  Implementation chunked =
      DeviceImplementation("linear_attention", "chunked", OnlyCausal);
  chunked.what = "chunks of 64 tokens: their own triangle and the state before";
  chunked.source = "blog eq. 18-20";
  chunked.time = "O(n f (e + chunk))";
  chunked.memory = "O(n f (1 + e / chunk))";
  chunked.time_class = "n";
  chunked.memory_class = "n";
  chunked.norm_bound = SignedFeatureBound;
  chunked.cost = LinearCost;
  chunked.prepare = PrepareOnDevice<Linear>();
  return {dense, associative, chunked};
}

}  // namespace subquad
