#include "reference/softmax_attention.h"

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "reference/base/image.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {
namespace {

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
        sinks_(problem.HasInput("sinks") ? &inputs["sinks"] : nullptr),
        lse_(IndexOf(problem.outputs, "lse")),
        by_offset_{problem.queries,
                   problem.params.Has("width") ? problem.Dim("width") : 0},
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        visible_(problem),
        scale_(SoftmaxScale<Real>(problem)),
        softcap_(problem.params.Has("softcap")
                     ? problem.params.Number("softcap")
                     : 0),
        roundoff_(Info(problem.scalar).unit_roundoff) {}

  void Row(const RowId& id, Real* value, double* units) override {
    SoftmaxRow<Real> row(problem_);
    const double* q = q_.Head(id.head) + id.row * d_;
    const double* bias = bias_ ? bias_->Head(id.head) : nullptr;
    if (sinks_) row.AddSink(static_cast<Real>(*sinks_->Head(id.head)));
    const int64_t end = visible_.End(id.head, id.row);
    for (int64_t j = visible_.First(id.head, id.row); j < end; ++j) {
      const auto score = [&] {
        const Score<Real> dot =
            ScaledDot<Real>(q, k_.Head(id.head) + j * d_, d_, scale_);
        return softcap_ > 0 ? dot.Capped(static_cast<Real>(softcap_), roundoff_)
                            : dot;
      };
      if (slopes_) {
        const Score<Real> of_slope = BiasOfSlope(id.head, j - id.row);
        Score<Real> sum = score().Plus(of_slope.value);
        sum.units += of_slope.units;
        row.See(j, sum);
        continue;
      }
      if (!bias) {
        row.See(j, score());
        continue;
      }
      const double& of_pair = bias[by_offset_.Index(id.row, j)];
      if (of_pair != -std::numeric_limits<double>::infinity())
        row.See(j, score().Plus(static_cast<Real>(of_pair)));
    }
    if (id.output == lse_) return row.WriteLogSum(value, units);
    row.Write(
        e_, [&](int64_t j) { return v_.Head(id.head) + j * e_; }, value, units);
  }

 private:
  // Returns the bias of two indices that are this far apart, which is rounded.
  Score<Real> BiasOfSlope(int64_t head, int64_t offset) const {
    const auto distance =
        static_cast<Real>(std::abs(offset - visible_.offset()));
    const Real bias = -static_cast<Real>(*slopes_->Head(head)) * distance;
    return {bias, std::abs(static_cast<double>(bias))};
  }

  const Problem& problem_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor* bias_;
  const Tensor* slopes_;
  const Tensor* sinks_;
  const int lse_;  // the index of this output, or -1
  const BiasByOffset by_offset_;
  const int64_t d_, e_;
  const VisibleKeys visible_;
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
        "out_i = softmax_j(cap(scale q_i.k_j) + bias(j-i)) v, where sinks add "
        "exp(sink) to the sum of the weights",
        "FastRPB eq. 1; NPRF eq. 1, 6; Transformers II eq. 1, 11"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    const bool image = params.Has("height") || params.Has("width");
    std::vector<ParamRule> rules =
        VisibleKeysParams({.query_offset = !image,
                           .least_offset = -kMaxInteger,
                           .windows = true});
    rules.push_back(ParamRule::Scale("1/sqrt(d)"));
    ParamRule softcap{"softcap", ParamType::kNumber,
                      "scores x become softcap tanh(x / softcap), before the "
                      "bias is added",
                      false};
    softcap.default_value = "none";
    rules.push_back(std::move(softcap));
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
    TensorRule bias{"bias", {"n_q+n_k-1"}, Role::kParameter};
    bias.offset_axes = {OffsetAxis::OfIndices(0, "n_q")};
    if (image) {
      bias.shape = {"2*height-1", "2*width-1"};
      bias.offset_axes = {{0, "1-height"}, {1, "1-width"}};
    }
    bias.optional = true;
    bias.may_be_minus_infinity = true;
    TensorRule slopes{"slopes", {}, Role::kParameter, Draw::kPositive};
    slopes.optional = true;
    TensorRule sinks{"sinks", {}, Role::kParameter};
    sinks.optional = true;
    signature.inputs = {
        {"q", {n_q, "d"}}, {"k", {n_k, "d"}}, {"v", {n_k, "e"}}, bias};
    if (!image) signature.inputs.push_back(std::move(slopes));
    signature.inputs.push_back(std::move(sinks));
    TensorRule lse{"lse", {n_q}};
    lse.optional = true;
    lse.may_be_minus_infinity = true;
    signature.outputs = {{"out", {n_q, "e"}}, lse};
    signature.queries = n_q;
    signature.keys = n_k;
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    if (problem.HasInput("bias") && problem.HasInput("slopes"))
      throw InvalidInput("input slopes", "no bias beside it", "both");
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
