#include "reference/synthesizer_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/operator_with.h"
#include "reference/softmax/reduced_keys.h"

namespace subquad {
namespace {

enum class SynthesizerKind { kDense, kRandom, kFactorized };

SynthesizerKind SynthesizerKindOf(const Params& params) {
  const std::string& kind = params.Text("kind");
  if (kind == "random") return SynthesizerKind::kRandom;
  if (kind == "factorized") return SynthesizerKind::kFactorized;
  return SynthesizerKind::kDense;
}

template <typename Real>
class SynthesizerAttentionReference : public Reference<Real> {
 public:
  SynthesizerAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        inputs_(inputs),
        kind_(SynthesizerKindOf(problem.params)),
        n_(problem.Dim("n")),
        token_(problem.Dim("D")),
        e_(problem.Dim("e")),
        causal_(problem.params.Flag("causal")) {
    for (int64_t h = 0; h < problem.heads; ++h)
      values_.push_back(Products(h, 0, n_, inputs["phi_v"].Head(h), e_));
  }

  void Row(const RowId& id, Real* value, double* units) override {
    SoftmaxRow<Real> row(problem_);
    const int64_t keys = causal_ ? id.row + 1 : n_;
    if (kind_ == SynthesizerKind::kDense) {
      SeeDense(id, keys, row);
    } else {
      for (int64_t j = 0; j < keys; ++j) row.See(j, ScoreOf(id, j));
    }
    const ReducedRows<Real>& values = values_[static_cast<size_t>(id.head)];
    row.Write(
        e_, [&](int64_t j) { return values.Row(j); },
        [&](int64_t j) { return values.Units(j); }, value, units);
  }

 private:
  // Multiplies `rows` rows of x, from `first` on, by a matrix [D, width].
  ReducedRows<Real> Products(int64_t head, int64_t first, int64_t rows,
                             const double* matrix, int64_t width) const {
    const double* x = inputs_["x"].Head(head) + first * token_;
    ReducedRows<Real> products(rows, width);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t a = 0; a < token_; ++a)
        products.Add(i, x[i * token_ + a], matrix + a * width, token_);
    products.Finish();
    return products;
  }

  void SeeDense(const RowId& id, int64_t keys, SoftmaxRow<Real>& row) const {
    const int64_t m = problem_.Dim("m"), width = n_ + problem_.Dim("extra");
    const ReducedRows<Real> hidden =
        Products(id.head, id.row, 1, inputs_["phi_1"].Head(id.head), m);
    const double* phi_2 = inputs_["phi_2"].Head(id.head);
    std::vector<Real> scores(static_cast<size_t>(keys));
    std::vector<double> score_units(scores.size());
    for (int64_t b = 0; b < m; ++b) {
      const Real h = hidden.Row(0)[b];
      const Real gate = h <= 0 ? Real{0} : h;
      AddScaledRow(scores.data(), gate, phi_2 + b * width, keys);
      for (int64_t j = 0; j < keys; ++j)
        score_units[j] += 1.01 *
                          (static_cast<double>(m) * static_cast<double>(gate) +
                           hidden.Units(0)[b]) *
                          std::abs(phi_2[b * width + j]);
    }
    for (int64_t j = 0; j < keys; ++j)
      row.See(j, {scores[static_cast<size_t>(j)],
                  score_units[static_cast<size_t>(j)]});
  }

  Score<Real> ScoreOf(const RowId& id, int64_t j) const {
    if (kind_ == SynthesizerKind::kRandom)
      return {
          static_cast<Real>(inputs_["logits"].Head(id.head)[id.row * n_ + j]),
          0};
    const int64_t r = problem_.Dim("r");
    return ScaledDot<Real>(inputs_["factor_q"].Head(id.head) + id.row * r,
                           inputs_["factor_k"].Head(id.head) + j * r, r,
                           Real{1});
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const SynthesizerKind kind_;
  const int64_t n_, token_, e_;
  const bool causal_;
  std::vector<ReducedRows<Real>> values_;  // of each head
};

class SynthesizerAttentionOperator final
    : public OperatorWith<SynthesizerAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {"synthesizer_attention",
                                             "out = softmax(B) (x phi_v)",
                                             "Transformers II, fig. 12b, 13a"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return {ParamRule::Choice("kind", "source of the scores",
                              {"dense", "random", "factorized"}),
            ParamRule::Flag("causal", "token i sees tokens j <= i only")};
  }

  Signature ForwardSignature(const Params& params) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"D", 64, "width of a token"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {
        {"x", {"n", "D"}},
        TensorRule::Linear("phi_v", {"D", "e"}, Role::kParameter,
                           Draw::kMixingRows)};
    auto& inputs = signature.inputs;
    switch (SynthesizerKindOf(params)) {
      case SynthesizerKind::kDense:
        signature.sizes.push_back({"m", 64, "hidden width per token"});
        signature.sizes.push_back(
            {"extra", 0, "columns of phi_2 beyond the tokens", 0});
        inputs.push_back(
            {"phi_1", {"D", "m"}, Role::kParameter, Draw::kMixingRows});
        inputs.push_back(
            {"phi_2", {"m", "n+extra"}, Role::kParameter, Draw::kMixingRows});
        break;
      case SynthesizerKind::kRandom:
        inputs.push_back({"logits", {"n", "n"}, Role::kParameter});
        break;
      case SynthesizerKind::kFactorized:
        signature.sizes.push_back({"r", 16, "columns of the factors"});
        inputs.push_back({"factor_q", {"n", "r"}, Role::kParameter, kFactor});
        inputs.push_back({"factor_k", {"n", "r"}, Role::kParameter, kFactor});
        break;
    }
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  void CompleteParams(int64_t, uint64_t, Params& params) const override {
    if (!params.Has("kind")) params.Set("kind", std::string("dense"));
  }

  double RowWork(const Problem& problem, int) const override {
    const Dims& dims = problem.dims;
    const auto inner = dims.contains("m")   ? problem.Dim("m")
                       : dims.contains("r") ? problem.Dim("r")
                                            : 1;
    return static_cast<double>(problem.keys) *
           static_cast<double>(inner + problem.Dim("e"));
  }

 private:
  // The draws are scaled so that sums of r products of two have the size of one
  // draw.
  static constexpr Draw kFactor = {
      Draw::From::kInput, [](double drawn, const Element& element) {
        return drawn / sqrt(sqrt(static_cast<double>(element.shape.back())));
      }};
};

}  // namespace

const Operator& SynthesizerAttention() {
  static const SynthesizerAttentionOperator op;
  return op;
}

}  // namespace subquad
