// softmax_attention on the GPU: out_i = softmax_j(scale q_i.k_j + bias(j-i)) v
//
//   dense  two products by cuBLAS with the scores of all heads in memory, and a
//          kernel that takes the softmax of their rows
//   tiled  one kernel with the scores in registers (softmax_tiles.h)
//   tensor_cores  like tiled, for 16-bit types (softmax_fragments.h)
//   decode  one block for each query, or several that share its keys
//          (few_queries.h)
#include <algorithm>
#include <limits>

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
  const Params& params = problem.params;
  const auto keys = [&](const char* window) {
    return params.Has(window) ? params.Integer(window) : kAllKeys;
  };
  return {
      .heads = problem.heads,
      .n_q = problem.Dim("n_q"),
      .n_k = problem.Dim("n_k"),
      .d = problem.Dim("d"),
      .e = problem.Dim("e"),
      .ahead = std::min(SoftmaxShape::AheadOf(params.Flag("causal")),
                        keys("window_right")),
      .behind = keys("window_left"),
      .first = params.Has("query_offset") ? params.Integer("query_offset") : 0};
}

// The mask and the bias of a score, and the options.
template <typename S>
struct Biased {
  SoftmaxShape shape;
  HeadArray<const S> bias;
  SoftmaxOptions<S, S> options;

  __device__ int64_t Keys(int64_t i) const { return shape.End(i); }
  __device__ float operator()(int64_t h, int64_t i, int64_t j,
                              float score) const {
    if (j < shape.Begin(i)) return -std::numeric_limits<float>::infinity();
    const auto change = ScoreChange::Of(options, h);
    score = change.Capped(score);
    if (bias.data) score += ToFloat(bias.Head(h)[j - i + shape.n_q - 1]);
    return change.Sloped(score, j - i - shape.first);
  }
  __device__ const S* Sink(int64_t h) const { return options.sinks.Head(h); }
  __device__ void Put(int64_t h, int64_t i, float log_of_sum) const {
    if (options.lse.data) Store(log_of_sum, options.lse.Head(h) + i);
  }
};

template <typename S>
class SoftmaxRun : public DevicePrepared {
 public:
  SoftmaxRun(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(ShapeOf(problem)),
        scale_(ScoreScale<float>(problem)),
        softcap_(static_cast<float>(Softcap(problem))),
        has_bias_(problem.HasInput("bias")),
        has_slopes_(problem.HasInput("slopes")),
        has_sinks_(problem.HasInput("sinks")),
        has_lse_(IndexOf(problem.outputs, "lse") >= 0) {}

 protected:
  HeadArray<const S> Bias() const { return Optional(has_bias_, "bias"); }
  template <typename To>
  SoftmaxOptions<S, To> Options() const {
    return {.softcap = softcap_,
            .slopes = Optional(has_slopes_, "slopes"),
            .sinks = Optional(has_sinks_, "sinks"),
            .lse = has_lse_ ? Out<To>("lse") : HeadArray<To>{}};
  }

  const SoftmaxShape shape_;
  const float scale_;

 private:
  HeadArray<const S> Optional(bool given, const char* name) const {
    return given ? In<S>(name) : HeadArray<const S>{};
  }

  const float softcap_;
  const bool has_bias_, has_slopes_, has_sinks_, has_lse_;
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
    attention_.Run(
        Biased<S>{this->shape_, this->Bias(), this->template Options<S>()},
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
        this->template Out<Sum>("out"), this->template Options<Sum>());
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
              this->Bias(), this->template Out<S>("out"),
              this->template Options<S>());
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

// What the tiles, the fragments and the kernel for few queries take beyond a
// mask and a bias by offset; the scores in memory take all but groups of heads.
const std::vector<std::string> kTaken = {
    "query_offset", "window_left", "window_right", "softcap",
    "sinks",        "slopes",      "lse"};

std::string WhyNotOnDevice(const Problem& problem) {
  return problem.params.Has("height")
             ? "this GPU kernel does not support the bias of an image"
             : "";
}

std::string WhyNotTensorCores(const Problem& problem) {
  if (std::string reason = WhyNotOnDevice(problem); !reason.empty())
    return reason;
  if (problem.Dim("d") <= kFragmentsDepth) return "";
  return "d is at most " + std::to_string(kFragmentsDepth) +
         " on the tensor cores";
}

std::string WhyNotDecode(const Problem& problem) {
  if (std::string reason = WhyNotOnDevice(problem); !reason.empty())
    return reason;
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
        .takes = kTaken,
        .why_not = WhyNotOnDevice,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "tiled",
        .what = "online softmax over tiles of keys, scores in registers",
        .memory = {"O(1)", "1"},
        .sums = DirectSums,
        .takes = kTaken,
        .takes_groups = true,
        .why_not = WhyNotOnDevice,
        .bound_factor = kSoftmaxTilesBoundFactor,
        .prepare = PrepareOnDevice<Tiled>()},
       {.id = "tensor_cores",
        .scalars = {Scalar::kBFloat16, Scalar::kFloat16},
        .what = "online softmax over tiles of keys, products on tensor cores",
        .source = "Dao 2023",
        .time = {"O(n^2 (d+e))", "n^2"},
        .memory = {"O(e)", "1"},
        .sums = DirectSums,
        .takes = kTaken,
        .takes_groups = true,
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
        .takes = kTaken,
        .takes_groups = true,
        .why_not = WhyNotDecode,
        .bound_factor = kFewQueriesBoundFactor,
        .prepare = PrepareOnDevice<Decode>()}});
}

}  // namespace subquad
