// softmax_attention on the GPU: out_i = softmax_j(scale q_i.k_j + bias(j-i)) v
//
//   dense  two products by cuBLAS with the scores of all heads in memory, and a
//          kernel that takes the softmax of their rows
//   tiled  one kernel with the scores in registers (softmax_tiles.h)
//   tensor_cores  like tiled, for 16-bit types (softmax_fragments.h)
//   decode  one block for each query, or several that share its keys
//          (few_queries.h)
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/softmax/dense_attention.h"
#include "cuda/softmax/few_queries.h"
#include "cuda/softmax/softmax_fragments.h"
#include "cuda/softmax/softmax_tiles.h"
#include "reference/contract/softmax_scale.h"

namespace subquad::device {
namespace {

SoftmaxShape ShapeOf(const Problem& problem) {
  return {problem.heads,    problem.Dim("n_q"), problem.Dim("n_k"),
          problem.Dim("d"), problem.Dim("e"),   problem.params.Flag("causal")};
}

// The mask and the bias of a score.
template <typename S>
struct Biased {
  const S* bias;  // null: none
  int64_t head_stride;
  int64_t n_q;
  bool causal;

  __device__ int64_t Keys(int64_t i) const {
    return causal ? i + 1 : INT64_MAX;
  }
  __device__ float operator()(int64_t h, int64_t i, int64_t j,
                              float score) const {
    return bias ? score + ToFloat(bias[h * head_stride + j - i + n_q - 1])
                : score;
  }
};

template <typename S>
class SoftmaxRun : public DevicePrepared {
 public:
  SoftmaxRun(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(ShapeOf(problem)),
        scale_(ScoreScale<float>(problem)),
        has_bias_(problem.HasInput("bias")) {}

 protected:
  HeadArray<const S> Bias() const {
    return has_bias_ ? In<S>("bias") : HeadArray<const S>{};
  }

  const SoftmaxShape shape_;
  const float scale_;

 private:
  const bool has_bias_;
};

template <typename S>
class Dense : public SoftmaxRun<S> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : SoftmaxRun<S>(problem, arrays, layout),
        attention_(layout, this->shape_),
        values_(layout,
                this->shape_.heads * this->shape_.n_k * this->shape_.e) {}

  void Launch() override {
    const HeadArray<const S> bias = this->Bias();
    attention_.Run(
        Biased<S>{bias.data, bias.head_stride, this->shape_.n_q,
                  this->shape_.causal},
        this->scale_, this->template In<S>("q"), this->template In<S>("k"),
        values_.Run(this->template In<S>("v")), this->template Out<S>("out"));
  }

  double Flops() const override {
    return DenseAttention<S>::Flops(this->shape_);
  }

 private:
  DenseAttention<S> attention_;
  Widened<S> values_;
};

template <typename S, typename Sum>
class Tiled : public SoftmaxRun<S> {
 public:
  using SoftmaxRun<S>::SoftmaxRun;

  void Launch() override {
    SoftmaxTiles<S, S, S, Sum>(
        this->shape_, this->scale_, this->template In<S>("q"),
        this->template In<S>("k"), this->template In<S>("v"), this->Bias(),
        this->template Out<Sum>("out"));
  }

  double Flops() const override { return SoftmaxTilesFlops(this->shape_); }
};

// Makes an implementation of a class that allocates its own memory and is
// constructed from a layout and a shape.
template <typename S, template <typename> class Part>
class PartRun : public SoftmaxRun<S> {
 public:
  PartRun(const Problem& problem, const Arrays& arrays, Layout& layout)
      : SoftmaxRun<S>(problem, arrays, layout), part_(layout, this->shape_) {}

  void Launch() override {
    part_.Run(this->scale_, this->template In<S>("q"),
              this->template In<S>("k"), this->template In<S>("v"),
              this->Bias(), this->template Out<S>("out"));
  }

  double Flops() const override { return Part<S>::Flops(this->shape_); }

 private:
  Part<S> part_;
};

template <typename S>
using TensorCores = PartRun<S, SoftmaxFragments>;
template <typename S>
using Decode = PartRun<S, FewQueries>;

std::unique_ptr<Prepared> PrepareTensorCores(const Problem& problem,
                                             const Arrays& arrays,
                                             Layout& layout) {
  if (problem.scalar == Scalar::kBFloat16)
    return std::make_unique<TensorCores<__nv_bfloat16>>(problem, arrays,
                                                        layout);
  return std::make_unique<TensorCores<__half>>(problem, arrays, layout);
}

std::string WhyNotTensorCores(const Problem& problem) {
  if (problem.Dim("d") <= kFragmentsDepth) return "";
  return "d is at most " + std::to_string(kFragmentsDepth) +
         " on the tensor cores";
}

std::string WhyNotDecode(const Problem& problem) {
  if (std::max(problem.Dim("d"), problem.Dim("e")) <= kFewQueriesColumns)
    return "";
  return "d and e are at most " + std::to_string(kFewQueriesColumns) +
         " in a kernel of one query per block";
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> SoftmaxAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "softmax_attention",
      {{// Any order of the sums is within the bound of
        // reference/softmax/softmax_rows.h, and so is one more rounding of each
        // weight.
        .id = "dense",
        .what = "two GEMMs (cuBLAS) with the scores in memory",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "tiled",
        .what = "online softmax over tiles of keys, scores in registers",
        .memory = {"O(1)", "1"},
        .sums = DirectSums,
        .bound_factor = kSoftmaxTilesBoundFactor,
        .prepare = PrepareOnDevice<Tiled>()},
       {.id = "tensor_cores",
        .scalars = {Scalar::kBFloat16, Scalar::kFloat16},
        .what = "online softmax over tiles of keys, products on tensor cores",
        .source = "Dao 2023",
        .time = {"O(n^2 (d+e))", "n^2"},
        .memory = {"O(e)", "1"},
        .sums = DirectSums,
        .why_not = WhyNotTensorCores,
        .bound_factor = kTensorCoreBoundFactor,
        .prepare = PrepareTensorCores},
       {.id = "decode",
        .what =
            "one query per block, its keys split over blocks, for few queries",
        .source = "Dao et al. 2023 (Flash-Decoding)",
        .time = {"O(n^2 (d+e))", "n^2"},
        .memory = {"O(e)", "1"},
        .sums = DirectSums,
        .why_not = WhyNotDecode,
        .bound_factor = kFewQueriesBoundFactor,
        .prepare = PrepareOnDevice<Decode>()}});
}

}  // namespace subquad
