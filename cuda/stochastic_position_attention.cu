// stochastic_position_attention on the GPU: attention on q^ and k^ (SPE;
// FastRPB eq. 8), computed by noisy_tokens.h
//
//   dense        the weights of the attention in memory, by cuBLAS
//   tiled        softmax: one kernel with the scores in registers
//   associative  linear, not causal: features, then one state
//   chunked      linear, causal: features, then chunks of tokens
//
// All algorithms store q^ and k^ in memory as float32.
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/kernelized/dense.h"
#include "cuda/kernelized/linear.h"
#include "cuda/kernelized/noisy_tokens.h"
#include "cuda/softmax/dense_attention.h"
#include "reference/contract/softmax_scale.h"
#include "reference/contract/stochastic_position_attention.h"

namespace subquad::device {
namespace {

SoftmaxShape SoftmaxShapeOf(const Problem& problem) {
  const NoiseShape noise(problem);
  return {.heads = noise.heads,
          .n_q = noise.n_q,
          .n_k = noise.n_k,
          .d = noise.draws,
          .e = problem.Dim("e"),
          .ahead = SoftmaxShape::AheadOf(problem.params.Flag("causal"))};
}

// Computes q^ and k^ before the attention, for all algorithms.
template <typename S>
class OnNoise : public DevicePrepared {
 public:
  OnNoise(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        noise_(problem),
        tokens_(layout, noise_) {
    tensors_ = {.q = In<S>("q"), .k = In<S>("k"), .z = In<S>("z")};
    if (IsSine(problem)) {
      tensors_.freqs = In<S>("freqs");
      tensors_.phases = In<S>("phases");
      tensors_.gains = In<S>("gains");
    } else {
      tensors_.filters_q = In<S>("filters_q");
      tensors_.filters_k = In<S>("filters_k");
    }
  }

  void Launch() final {
    tokens_.Run(tensors_);
    Attend(tokens_.queries(), tokens_.keys());
  }

  double Flops() const final {
    return NoisyTokensFlops(noise_) + AttentionFlops();
  }

 protected:
  virtual void Attend(HeadArray<const float> q, HeadArray<const float> k) = 0;
  virtual double AttentionFlops() const = 0;

 private:
  const NoiseShape noise_;
  NoisyTokens<S> tokens_;
  NoiseTensors<S> tensors_;
};

// ---- softmax

struct CausalKeys : EveryKey {
  bool causal;
  __device__ int64_t Keys(int64_t i) const {
    return causal ? i + 1 : EveryKey::Keys(i);
  }
};

template <typename S>
class DenseSoftmax : public OnNoise<S> {
 public:
  DenseSoftmax(const Problem& problem, const Arrays& arrays, Layout& layout)
      : OnNoise<S>(problem, arrays, layout),
        shape_(SoftmaxShapeOf(problem)),
        scale_(ScoreScale<float>(problem)),
        attention_(layout, shape_),
        values_(layout, shape_.heads * shape_.n_k * shape_.e) {}

 private:
  void Attend(HeadArray<const float> q, HeadArray<const float> k) override {
    CausalKeys keys;
    keys.causal = shape_.ahead == 0;
    attention_.template Run<float>(keys, scale_, q, k,
                                   values_.Run(this->template In<S>("v")),
                                   this->template Out<S>("out"));
  }

  double AttentionFlops() const override {
    return DenseAttention<S>::Flops(shape_);
  }

  const SoftmaxShape shape_;
  const float scale_;
  DenseAttention<S> attention_;
  Widened<S> values_;
};

template <typename S>
class Tiled : public OnNoise<S> {
 public:
  Tiled(const Problem& problem, const Arrays& arrays, Layout& layout)
      : OnNoise<S>(problem, arrays, layout),
        shape_(SoftmaxShapeOf(problem)),
        scale_(ScoreScale<float>(problem)) {}

 private:
  void Attend(HeadArray<const float> q, HeadArray<const float> k) override {
    SoftmaxTiles<float, float, S, S>(shape_, scale_, q, k,
                                     this->template In<S>("v"), {},
                                     this->template Out<S>("out"));
  }

  double AttentionFlops() const override { return SoftmaxTilesFlops(shape_); }

  const SoftmaxShape shape_;
  const float scale_;
};

// ---- linear

DeviceKernelizedShape KernelizedShapeOf(const Problem& problem) {
  return DeviceKernelizedShape(
      AttentionOnNoise(problem, ScoreScale<double>(problem)));
}

int64_t OmegaCount(const Problem& problem, const DeviceKernelizedShape& shape) {
  if (!shape.map.projects()) return 0;
  return problem.SlicesOf("omega").count() * shape.map.projections *
         shape.map.d;
}

template <typename S>
class DenseLinear : public OnNoise<S> {
 public:
  DenseLinear(const Problem& problem, const Arrays& arrays, Layout& layout)
      : OnNoise<S>(problem, arrays, layout),
        shape_(KernelizedShapeOf(problem)),
        attention_(layout, shape_),
        values_(layout, shape_.heads * NoiseShape(problem).n_k * shape_.e),
        omega_(layout, OmegaCount(problem, shape_)),
        sums_(layout, kRounds ? shape_.heads * shape_.n_q * shape_.e : 0) {}

 private:
  static constexpr bool kRounds = sizeof(S) < sizeof(float);

  void Attend(HeadArray<const float> q, HeadArray<const float> k) override {
    HeadArray<const float> omega;
    if (shape_.map.projects())
      omega = omega_.Run(this->template In<S>("omega"));
    const auto values = values_.Run(this->template In<S>("v"));
    const auto out = this->template Out<S>("out");
    const int64_t count = shape_.n_q * shape_.e;
    if constexpr (kRounds) {
      attention_.Run(q, k, values, omega, {}, {sums_.data(), count});
      Convert(sums_.data(), shape_.heads * count, out.data);
    } else {
      attention_.Run(q, k, values, omega, {}, out);
    }
  }

  double AttentionFlops() const override {
    return DenseKernelized<float>::Flops(shape_);
  }

  const DeviceKernelizedShape shape_;
  DenseKernelized<float> attention_;
  Widened<S> values_, omega_;
  DeviceBuffer<float> sums_;  // if out has a narrower type
};

template <typename S>
class Linear : public OnNoise<S> {
 public:
  Linear(const Problem& problem, const Arrays& arrays, Layout& layout)
      : OnNoise<S>(problem, arrays, layout),
        projects_(problem.HasInput("omega")),
        shape_(KernelizedShapeOf(problem)),
        attention_(layout, shape_) {}

 private:
  void Attend(HeadArray<const float> q, HeadArray<const float> k) override {
    attention_.Run(
        q, k, this->template In<S>("v"),
        projects_ ? this->template In<S>("omega") : HeadArray<const S>(),
        this->template Out<S>("out"));
  }

  double AttentionFlops() const override {
    return LinearKernelized<float, S, S>::Flops(shape_);
  }

  const bool projects_;
  const DeviceKernelizedShape shape_;
  LinearKernelized<float, S, S> attention_;
};

std::unique_ptr<Prepared> PrepareDense(const Problem& problem,
                                       const Arrays& arrays, Layout& layout) {
  return IsSoftmax(problem)
             ? PrepareOnDevice<DenseSoftmax>()(problem, arrays, layout)
             : PrepareOnDevice<DenseLinear>()(problem, arrays, layout);
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> StochasticPositionAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "stochastic_position_attention",
      {{.id = "dense",
        .what = "q^ and k^, then all weights in memory, by cuBLAS",
        .sums = DirectSums,
        .prepare = PrepareDense},
       {.id = "tiled",
        .what = "q^ and k^, then one kernel with the scores in registers",
        .sums = DirectSums,
        // The error that q^ and k^ add to a score is part of the reference's
        // bound, which the attention multiplies by its own factor.
        .bound_factor = kSoftmaxTilesBoundFactor,
        .prepare = PrepareOnDevice<Tiled>()},
       {.id = "associative",
        .what = "q^ and k^, then one state for all queries",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Linear>()},
       {.id = "chunked",
        .what = "q^ and k^, then chunks of 64 tokens",
        // The keys of a chunk share a scale. A query that is lost at this
        // scale, possibly because of a later key, is recomputed pair by pair.
        .sums = MixedWideSums,
        .prepare = PrepareOnDevice<Linear>()}});
}

}  // namespace subquad
