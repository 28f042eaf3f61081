#include "reference/softmax_attention.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/base/max_distance.h"
#include "reference/base/offset_bias.h"
#include "reference/base/operator_with.h"
#include "reference/base/pair_tensor.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/distance_buckets.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {
namespace {

// Returns the buckets of a table; nothing without one.
std::optional<DistanceBuckets> BucketsOf(const Problem& problem) {
  if (!problem.HasInput("buckets")) return std::nullopt;
  const Params& params = problem.params;
  return DistanceBuckets(problem.Dim("B"), MaxDistanceOf(params),
                         params.Flag("bidirectional"));
}

// Returns the parameter `softcap`, or 0 where scores are not capped.
double SoftcapOf(const Problem& problem) {
  if (!problem.params.Has("softcap")) return 0;
  const double cap = problem.params.Number("softcap");
  const double largest = ArithmeticOf(problem.scalar) == Scalar::kFloat64
                             ? std::numeric_limits<double>::max()
                             : std::numeric_limits<float>::max();
  return cap > largest ? 0 : cap;
}

template <typename Real>
class SoftmaxAttentionReference : public Reference<Real> {
 public:
  SoftmaxAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        k_(inputs["k"]),
        v_(inputs["v"]),
        bias_(problem.HasInput("bias") ? &inputs["bias"] : nullptr),
        slopes_(problem.HasInput("slopes") ? &inputs["slopes"] : nullptr),
        table_(problem.HasInput("buckets") ? &inputs["buckets"] : nullptr),
        buckets_(BucketsOf(problem)),
        pair_bias_(problem, inputs, "pair_bias"),
        mask_(problem, inputs, "mask"),
        sinks_(problem.HasInput("sinks") ? &inputs["sinks"] : nullptr),
        lse_(IndexOf(problem.outputs, "lse")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        visible_(problem),
        bias_index_(problem, visible_),
        scale_(SoftmaxScale<Real>(problem)),
        softcap_(SoftcapOf(problem)),
        roundoff_(ArithmeticRoundoff(problem.scalar)) {}

  void Row(const RowId& id, Real* value, double* units) override {
    constexpr double kHidden = -std::numeric_limits<double>::infinity();
    SoftmaxRow<Real> row(problem_);
    const double* q = q_.Head(id.head) + id.row * d_;
    const int64_t end = visible_.End(id.head, id.row);
    for (int64_t j = visible_.First(id.head, id.row); j < end; ++j) {
      if (const double* sees = mask_.At(id.head, id.row, j); sees && *sees == 0)
        continue;
      const double* const of_offset = BiasOfOffset(id.head, id.row, j);
      const double* const of_pair = pair_bias_.At(id.head, id.row, j);
      if ((of_offset && *of_offset == kHidden) ||
          (of_pair && *of_pair == kHidden))
        continue;
      Score<Real> score =
          ScaledDot<Real>(q, k_.Head(id.head) + j * d_, d_, scale_);
      if (softcap_ > 0 && !problem_.caps_biased_scores) score = Capped(score);
      std::optional<Score<Real>> bias;
      if (of_offset) bias = Score<Real>{static_cast<Real>(*of_offset)};
      if (slopes_) bias = BiasOfSlope(id.head, visible_.Offset(id.row, j));
      if (bias && of_pair)
        score = score.Plus(*bias, static_cast<Real>(*of_pair));
      else if (bias)
        score = score.Plus(*bias);
      else if (of_pair)
        score = score.Plus(static_cast<Real>(*of_pair));
      if (softcap_ > 0 && problem_.caps_biased_scores) score = Capped(score);
      row.See(j, score);
    }
    if (sinks_) {
      const auto sink = static_cast<Real>(*sinks_->Head(id.head));
      row.AddSink(problem_.leaves_sinks_unshifted && row.SeesAny()
                      ? sink + row.Largest()
                      : sink);
    }
    if (id.output == lse_) return row.WriteLogSum(value, units);
    row.Write(
        e_, [&](int64_t j) { return v_.Head(id.head) + j * e_; }, value, units);
  }

 private:
  Score<Real> Capped(const Score<Real>& score) const {
    Score<Real> capped = score.Capped(static_cast<Real>(softcap_), roundoff_);
    if (problem_.ignores_softcap_slope)
      capped.value = score.value + AsConstant(capped.value - score.value);
    return capped;
  }

  // Returns the entry of a bias or of a table of buckets; null without one.
  const double* BiasOfOffset(int64_t head, int64_t i, int64_t j) const {
    if (bias_) return bias_->Head(head) + bias_index_.Of(i, j);
    if (!table_) return nullptr;
    return table_->Head(head) + buckets_->Of(visible_.Offset(i, j));
  }

  // Returns the bias of positions that are this far apart, which is rounded.
  Score<Real> BiasOfSlope(int64_t head, int64_t offset) const {
    const auto distance = static_cast<Real>(std::abs(offset));
    const Real bias = -static_cast<Real>(*slopes_->Head(head)) * distance;
    return {bias, std::abs(static_cast<double>(bias))};
  }

  const Problem& problem_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor* bias_;
  const Tensor* slopes_;
  const Tensor* table_;
  const std::optional<DistanceBuckets> buckets_;  // of the table's entries
  const PairTensor pair_bias_, mask_;
  const Tensor* sinks_;
  const int lse_;  // the index of this output, or -1
  const int64_t d_, e_;
  const VisibleKeys visible_;
  const OffsetBiasIndex bias_index_;
  const Real scale_;
  const double softcap_;  // 0: none
  const double roundoff_;
};

class SoftmaxAttentionOperator final
    : public OperatorWith<SoftmaxAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "softmax_attention",
        "out_i = softmax_j(cap(scale q_i.k_j) + bias(j-i) + pair_bias[i,j]) v "
        "over the keys that mask and parameters leave visible, where sinks add "
        "exp(sink) to the sum of the weights",
        "FastRPB eq. 1; NPRF eq. 1, 6; Transformers II eq. 1, 11"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    const bool image = params.Has("height") || params.Has("width");
    std::vector<ParamRule> rules =
        VisibleKeysParams({.query_offset = !image,
                           .least_offset = -kMaxInteger,
                           .windows = true,
                           .packed = true});
    rules.push_back(ParamRule::Scale("1/sqrt(d)"));
    ParamRule softcap{"softcap", ParamType::kNumber,
                      "scores x become softcap tanh(x / softcap), before the "
                      "bias is added",
                      false};
    softcap.default_value = "none";
    rules.push_back(std::move(softcap));
    if (!image)
      for (ParamRule& rule : BucketParams()) rules.push_back(std::move(rule));
    for (ParamRule& rule : ImageParams()) {
      rule.required = image;
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  Signature ForwardSignature(const Params& params) const override {
    const bool image = params.Has("height");
    const std::string n_q = image ? kPixels : "n_q";
    const std::string n_k = image ? kPixels : "n_k";
    Signature signature;
    if (!image)
      signature.sizes = {SizeRule::Length("n_q", "queries"),
                         SizeRule::Length("n_k", "keys")};
    signature.sizes.push_back({"d", 64, "width of a query and a key"});
    signature.sizes.push_back({"e", 64, "width of a value"});
    TensorRule bias = BiasRule(params);
    bias.optional = true;
    TensorRule slopes{"slopes", {}, Role::kParameter, Draw::kPositive};
    slopes.optional = true;
    TensorRule buckets{"buckets", {"B"}, Role::kParameter};
    buckets.optional = true;
    TensorRule mask = MaskRule(n_q, n_k);
    TensorRule pair_bias{"pair_bias", {n_q, n_k}, Role::kParameter};
    pair_bias.optional = pair_bias.per_pair = true;
    pair_bias.may_be_minus_infinity = true;
    TensorRule sinks{"sinks", {}, Role::kParameter};
    sinks.optional = true;
    signature.inputs = {{"q", {n_q, "d"}},
                        {"k", {n_k, "d"}},
                        TensorRule::Linear("v", {n_k, "e"}),
                        bias};
    if (!image) {
      signature.inputs.push_back(std::move(slopes));
      signature.inputs.push_back(std::move(buckets));
      SizeRule count{"B", 16, "buckets of distances", 2};
      count.of_input = "buckets";
      signature.sizes.push_back(std::move(count));
    }
    for (TensorRule* rule : {&mask, &pair_bias, &sinks})
      signature.inputs.push_back(std::move(*rule));
    TensorRule lse{"lse", {n_q}};
    lse.apart = true;
    lse.optional = true;
    lse.may_be_minus_infinity = true;
    signature.outputs = {{"out", {n_q, "e"}}, lse};
    signature.queries = n_q;
    signature.keys = n_k;
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    const std::vector<std::string> kinds = {"bias", "slopes", "buckets"};
    for (size_t second = 1; second < kinds.size(); ++second)
      for (size_t first = 0; first < second; ++first)
        if (problem.HasInput(kinds[first]) && problem.HasInput(kinds[second]))
          throw InvalidInput("input " + kinds[second],
                             "no " + kinds[first] + " beside it", "both");
    if (problem.HasInput("buckets")) CheckBuckets(problem);
    SequencesOf(problem.params, problem.queries, problem.keys);  // checks them
  }

  static std::vector<ParamRule> BucketParams() {
    ParamRule distance = ParamRule::Integer(
        "max_distance", "distance from which all keys share a bucket", 2);
    distance.required = false;
    distance.default_value = std::to_string(kDefaultMaxDistance);
    ParamRule both = ParamRule::Flag(
        "bidirectional",
        "half of the buckets are for keys after the query; otherwise these "
        "share bucket 0");
    both.opposite_of = "causal";
    both.default_value = "not causal";
    distance.of_input = both.of_input = "buckets";
    return {std::move(distance), std::move(both)};
  }

  static void CheckBuckets(const Problem& problem) {
    const int64_t count = problem.Dim("B");
    const bool both = problem.params.Flag("bidirectional");
    if (both && (count < 4 || count % 2 != 0))
      throw InvalidInput("input buckets",
                         "an even number of at least 4, since they are "
                         "bidirectional",
                         std::to_string(count));
    const int64_t exact = BucketsOf(problem)->exact();
    const int64_t most = problem.params.Has("max_distance")
                             ? problem.params.Integer("max_distance")
                             : 128;
    if (most <= exact)
      throw InvalidInput("parameter max_distance",
                         "more than the " + std::to_string(exact) +
                             " distances that have a bucket of their own",
                         std::to_string(most));
  }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    if (params.Has("height") || params.Has("width")) CompleteImage(n, params);
  }

  double RowWork(const Problem& problem, int output) const override {
    return static_cast<double>(problem.keys) *
           static_cast<double>(problem.Dim("d") +
                               (output == 0 ? problem.Dim("e") : 0));
  }
};

}  // namespace

const Operator& SoftmaxAttention() {
  static const SoftmaxAttentionOperator op;
  return op;
}

}  // namespace subquad
