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

// Throws for the first pixel that sees no pixel through a mask of offsets.
void CheckEveryPixelSees(const Problem& problem, const Tensor& bias,
                         const BiasByOffset& by_offset) {
  const VisibleKeys visible(problem);
  for (int64_t head = 0; head < problem.heads; ++head) {
    const double* b = bias.Head(head);
    for (int64_t i = 0; i < by_offset.n_q; ++i) {
      const int64_t count = visible.Count(head, i);
      int64_t j = 0;
      while (j < count && b[by_offset.Index(i, j)] ==
                              -std::numeric_limits<double>::infinity())
        ++j;
      if (j == count) ThrowSeesNothing(problem, head, i);
    }
  }
}

// Throws for the first query that sees no key through a mask of offsets.
void CheckEveryQuerySees(const Problem& problem, const Tensor& bias) {
  const VisibleKeys visible(problem);
  const int64_t n_q = problem.Dim("n_q"), n_k = problem.Dim("n_k");
  for (int64_t slice = 0; slice < bias.slices.count(); ++slice) {
    const double* b = bias.Slice(slice);
    std::vector<int64_t> finite(n_q + n_k);  // count among the first t offsets
    for (int64_t t = 0; t < n_q + n_k - 1; ++t)
      finite[t + 1] =
          finite[t] + (b[t] != -std::numeric_limits<double>::infinity());
    for (int64_t head : bias.slices.Readers(slice))
      for (int64_t i = 0; i < n_q; ++i)
        if (finite[n_q - 1 - i + visible.Count(head, i)] == finite[n_q - 1 - i])
          ThrowSeesNothing(problem, head, i);
  }
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
        by_offset_{problem.queries,
                   problem.params.Has("width") ? problem.Dim("width") : 0},
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        visible_(problem),
        scale_(SoftmaxScale<Real>(problem)) {
    if (bias_ && by_offset_.width > 0)
      CheckEveryPixelSees(problem, *bias_, by_offset_);
    else if (bias_)
      CheckEveryQuerySees(problem, *bias_);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    SoftmaxRow<Real> row(problem_, id.head, id.row);
    const double* q = q_.Head(id.head) + id.row * d_;
    const double* bias = bias_ ? bias_->Head(id.head) : nullptr;
    for (int64_t j = 0; j < visible_.Count(id.head, id.row); ++j) {
      const auto score = [&] {
        return ScaledDot<Real>(q, k_.Head(id.head) + j * d_, d_, scale_);
      };
      if (!bias) {
        row.See(j, score());
        continue;
      }
      const double& of_pair = bias[by_offset_.Index(id.row, j)];
      if (of_pair != -std::numeric_limits<double>::infinity())
        row.See(j, score().Plus(static_cast<Real>(of_pair)));
    }
    row.Write(
        e_, [&](int64_t j) { return v_.Head(id.head) + j * e_; }, value, units);
  }

 private:
  const Problem& problem_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor* bias_;
  const BiasByOffset by_offset_;
  const int64_t d_, e_;
  const VisibleKeys visible_;
  const Real scale_;
};

class SoftmaxAttentionOperator final
    : public OperatorWith<SoftmaxAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "softmax_attention", "out_i = softmax_j(scale q_i.k_j + bias(j-i)) v",
        "FastRPB eq. 1; NPRF eq. 1, 6; Transformers II eq. 1, 11"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    const bool image = params.Has("height") || params.Has("width");
    std::vector<ParamRule> rules = VisibleKeysParams(image);
    rules.push_back(ParamRule::Scale("1/sqrt(d)"));
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
    signature.inputs = {
        {"q", {n_q, "d"}}, {"k", {n_k, "d"}}, {"v", {n_k, "e"}}, bias};
    signature.outputs = {{"out", {n_q, "e"}}};
    signature.queries = n_q;
    signature.keys = n_k;
    return signature;
  }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    if (params.Has("height") || params.Has("width")) CompleteImage(n, params);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.keys) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace

const Operator& SoftmaxAttention() {
  static const SoftmaxAttentionOperator op;
  return op;
}

}  // namespace subquad
