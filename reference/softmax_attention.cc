#include "reference/softmax_attention.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/base/gradients.h"
#include "reference/base/image.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_gradient.h"
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
        n_q_(problem.queries),
        n_k_(problem.keys),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        visible_(problem),
        scale_(SoftmaxScale<Real>(problem)) {
    if (bias_ && by_offset_.width > 0)
      CheckEveryPixelSees(problem, *bias_, by_offset_);
    else if (bias_)
      CheckEveryQuerySees(problem, *bias_);
    if (problem.backward)
      gradient_.emplace(problem, *this, inputs["grad"], n_q_, n_k_, e_);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    if (problem_.backward) return Gradient(id, value, units);
    SoftmaxRow<Real> row(problem_, id.head, id.row);
    for (int64_t j = 0; j < visible_.Count(id.head, id.row); ++j)
      if (const auto score = See(id.head, id.row, j)) row.See(j, *score);
    row.Write(
        e_, [&](int64_t j) { return Value(id.head, j); }, value, units);
  }

  // Returns the score of a visible pair, for softmax_gradient.h.
  std::optional<Score<Real>> See(int64_t head, int64_t i, int64_t j) const {
    if (!visible_.Sees(head, i, j)) return std::nullopt;
    static constexpr double kNone = 0;
    const double& bias =
        bias_ ? bias_->Head(head)[by_offset_.Index(i, j)] : kNone;
    if (bias == -std::numeric_limits<double>::infinity()) return std::nullopt;
    const Score<Real> dot = ScaledDot<Real>(q_.Head(head) + i * d_,
                                            k_.Head(head) + j * d_, d_, scale_);
    return bias_ ? dot.Plus(static_cast<Real>(bias)) : dot;
  }
  const double* Value(int64_t head, int64_t j) const {
    return v_.Head(head) + j * e_;
  }
  const double* ValueUnits(int64_t, int64_t) const { return nullptr; }

 private:
  using Pair = GradientPair<Real>;

  void Gradient(const RowId& id, Real* value, double* units) const {
    const std::string& name = problem_.outputs[id.output].name;
    const auto readers = [&](const Tensor& tensor) {
      return tensor.slices.Readers(id.head);
    };
    if (name == "grad_v")
      return gradient_->ValueRow(readers(v_), id.row, value, units);
    if (name == "grad_bias") return GradBias(id, value, units);
    if (name == "grad_q")
      return gradient_->QueryRow(readers(q_), id.row, k_, d_, scale_, value,
                                 units);
    gradient_->KeyRow(readers(k_), id.row, q_, d_, scale_, value, units);
  }

  void GradBias(const RowId& id, Real* value, double* units) const {
    if (by_offset_.width > 0) return GradImageBias(id, value, units);
    const int64_t offset = id.row - (n_q_ - 1);
    GradientRow<Real> row(1, value, units);
    for (int64_t head : bias_->slices.Readers(id.head))
      for (int64_t i = std::max<int64_t>(0, -offset);
           i < n_q_ && i + offset < n_k_; ++i)
        if (const auto pair = gradient_->At(head, i, i + offset, row.bounded()))
          row.Add(pair->score);
    row.Finish();
  }

  // Writes the gradient for one offset of rows and all offsets of columns.
  void GradImageBias(const RowId& id, Real* value, double* units) const {
    const int64_t width = by_offset_.width;
    for (int64_t t = 0; t < 2 * width - 1; ++t) {
      GradientRow<Real> entry(1, value + t, units ? units + t : nullptr);
      for (int64_t head : bias_->slices.Readers(id.head))
        for (int64_t i = 0; i < n_q_; ++i) {
          const int64_t row = i / width + id.row - (n_q_ / width - 1);
          const int64_t column = i % width + t - (width - 1);
          if (row < 0 || row >= n_k_ / width || column < 0 || column >= width)
            continue;
          if (const auto pair =
                  gradient_->At(head, i, row * width + column, entry.bounded()))
            entry.Add(pair->score);
        }
      entry.Finish();
    }
  }

  const Problem& problem_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor* bias_;
  const BiasByOffset by_offset_;
  const int64_t n_q_, n_k_, d_, e_;
  const VisibleKeys visible_;
  const Real scale_;
  std::optional<SoftmaxGradient<Real, SoftmaxAttentionReference>> gradient_;
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

  bool HasGradientProgram() const override { return true; }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    if (params.Has("height") || params.Has("width")) CompleteImage(n, params);
  }

  double RowWork(const Problem& problem, int) const override {
    const int64_t pairs = problem.backward
                              ? std::max(problem.queries, problem.keys)
                              : problem.keys;
    return static_cast<double>(pairs) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }

  double SharedWorkOf(const Problem& problem) const override {
    return problem.backward
               ? static_cast<double>(problem.heads) *
                     static_cast<double>(problem.queries) * RowWork(problem, 0)
               : 0;
  }
};

}  // namespace

const Operator& SoftmaxAttention() {
  static const SoftmaxAttentionOperator op;
  return op;
}

}  // namespace subquad
