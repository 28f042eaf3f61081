#include "reference/fastrpb_attention.h"

#include <memory>

#include "reference/base/image.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"
#include "reference/inner_attention.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad {
namespace {

template <typename Real>
class FastRpbAttentionReference : public Reference<Real> {
 public:
  FastRpbAttentionReference(const Problem& problem, const Inputs& inputs)
      : attention_problem_(AttentionOf(problem)),
        v_(inputs["v"]),
        n_q_(QueriesOf(problem)),
        n_k_(KeysOf(problem)),
        e_(problem.Dim("e")),
        width_(problem.params.Has("width") ? problem.Dim("width") : 0),
        visible_(problem) {
    attention_ = ReferenceIn<Real>(attention_problem_, inputs);
    if (width_ == 0) {
      weights_ = &inputs["weights"];
    } else {
      weights_ = &inputs["weights_rows"];
      columns_ = &inputs["weights_cols"];
    }
  }

  void Row(const RowId& id, Real* value, double* units) override {
    attention_->Row(id, value, units);
    const double* v = v_.Head(id.head);
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> product(width);
    std::vector<double> product_units(static_cast<size_t>(e_));
    const int64_t seen = visible_.End(id.head, id.row);
    const double terms = 1.01 * static_cast<double>(n_k_ + 1);
    for (int64_t j = 0; j < seen; ++j) {
      double magnitude = 0;
      const Real weight = Weight(id.head, id.row, j, &magnitude);
      product.AddRow(weight, v + j * e_, width);
      product.Next();
      for (int64_t c = 0; c < e_; ++c)
        product_units[c] += terms * magnitude * std::abs(v[j * e_ + c]);
    }
    for (int64_t c = 0; c < e_; ++c) {
      value[c] += product.Total(static_cast<size_t>(c));
      if (units)
        units[c] += product_units[c] + std::abs(static_cast<double>(value[c]));
    }
  }

 private:
  Real Weight(int64_t head, int64_t i, int64_t j, double* magnitude) const {
    if (width_ == 0) {
      const double& w = weights_->Head(head)[j - i + n_q_ - 1];
      *magnitude = std::abs(w);
      return static_cast<Real>(w);
    }
    const int64_t height = n_q_ / width_;
    const double& row =
        weights_->Head(head)[j / width_ - i / width_ + height - 1];
    const double& column =
        columns_->Head(head)[j % width_ - i % width_ + width_ - 1];
    *magnitude = std::abs(row) + std::abs(column);
    return static_cast<Real>(row) + static_cast<Real>(column);
  }

  const Problem attention_problem_;
  std::unique_ptr<Reference<Real>> attention_;
  const Tensor& v_;
  const Tensor* weights_ = nullptr;
  const Tensor* columns_ = nullptr;
  const int64_t n_q_, n_k_, e_, width_;
  const VisibleKeys visible_;
};

class FastRpbAttentionOperator final
    : public OperatorWith<FastRpbAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "fastrpb_attention", "out = attention(q,k,v) + W v, W_ij = w(j-i)",
        "FastRPB eq. 10, section 3.2"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    std::vector<ParamRule> rules = {ParamRule::Choice(
        "attention", "attention to which W v is added", {"softmax", "linear"})};
    const bool linear =
        params.Has("attention") && params.Text("attention") == "linear";
    if (linear)
      for (ParamRule& rule : FeatureMapParams(params))
        rules.push_back(std::move(rule));
    const bool image = params.Has("height") || params.Has("width");
    // An image has no padding, so key_lengths does not apply.
    for (ParamRule& rule : VisibleKeysParams({.query_offset = !image}))
      if (!image || rule.name != "key_lengths")
        rules.push_back(std::move(rule));
    if (linear)
      std::ranges::move(NormaliserParams(), std::back_inserter(rules));
    rules.push_back(ParamRule::Scale(linear ? "1" : "1/sqrt(d)"));
    for (ParamRule& rule : ImageParams()) {
      rule.required = image;
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  Signature ForwardSignature(const Params& params) const override {
    const bool image = params.Has("height");
    const bool linear = params.Text("attention") == "linear";
    const std::string n_q = image ? kPixels : "n_q";
    const std::string n_k = image ? kPixels : "n_k";
    Signature signature;
    if (!image)
      signature.sizes = {SizeRule::Length("n_q", "queries"),
                         SizeRule::Length("n_k", "keys")};
    signature.sizes.push_back({"d", 64, "width of a query and a key"});
    signature.sizes.push_back({"e", 64, "width of a value"});
    signature.inputs = {{"q", {n_q, "d"}},
                        {"k", {n_k, "d"}},
                        TensorRule::Linear("v", {n_k, "e"})};
    if (linear) {
      AddOmega(params, signature);
    } else {
      TensorRule bias{"bias", {n_q + "+" + n_k + "-1"}, Role::kParameter};
      bias.optional = true;
      bias.offset_axes = {OffsetAxis::OfIndices(0, n_q)};
      signature.inputs.push_back(bias);
    }
    TensorRule weights{"weights", {"n_q+n_k-1"}, Role::kParameter};
    weights.offset_axes = {OffsetAxis::OfIndices(0, "n_q")};
    if (image) {
      weights.name = "weights_rows";
      weights.shape = {"2*height-1"};
      weights.offset_axes = {{0, "1-height"}};
      signature.inputs.push_back(weights);
      weights.name = "weights_cols";
      weights.shape = {"2*width-1"};
      weights.offset_axes = {{0, "1-width"}};
    }
    signature.inputs.push_back(weights);
    signature.outputs = {{"out", {n_q, "e"}}};
    signature.queries = n_q;
    signature.keys = n_k;
    return signature;
  }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    if (!params.Has("attention"))
      params.Set("attention", std::string("linear"));
    if (params.Text("attention") == "linear") CompleteFeatureMap(params);
    if (params.Has("height") || params.Has("width")) CompleteImage(n, params);
  }

  double RowWork(const Problem& problem, int) const override {
    const int64_t features = IsSoftmax(problem)
                                 ? problem.Dim("d")
                                 : FeatureMapOf(problem).features();
    return static_cast<double>(KeysOf(problem)) *
           static_cast<double>(features + 2 * problem.Dim("e"));
  }
};

}  // namespace

const Operator& FastRpbAttention() {
  static const FastRpbAttentionOperator op;
  return op;
}

}  // namespace subquad
