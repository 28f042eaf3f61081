#include "reference/stochastic_position_attention.h"

#include <memory>
#include <vector>

#include "reference/base/operator_with.h"
#include "reference/inner_attention.h"
#include "reference/kernelized/kernelized.h"
#include "reference/kernelized/stochastic_positions.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {
namespace {

// Computes rows of softmax attention on q^ and k^.
template <typename Real>
class SoftmaxOnNoise : public Reference<Real> {
 public:
  SoftmaxOnNoise(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        v_(inputs["v"]),
        positions_(problem, inputs),
        n_k_(v_.shape[v_.shape.size() - 2]),
        e_(problem.Dim("e")),
        draws_(positions_.draws()),
        causal_(problem.params.Flag("causal")),
        scale_(SoftmaxScale<Real>(problem)),
        roundoff_(ArithmeticRoundoff(problem.scalar)),
        keys_(static_cast<size_t>(problem.heads * n_k_ * draws_)),
        key_units_(keys_.size()) {
    for (int64_t h = 0; h < problem.heads; ++h)
      for (int64_t j = 0; j < n_k_; ++j)
        positions_.Key(h, j, keys_.data() + (h * n_k_ + j) * draws_,
                       key_units_.data() + (h * n_k_ + j) * draws_);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    std::vector<Real> query(static_cast<size_t>(draws_));
    std::vector<double> query_units(query.size());
    positions_.Query(id.head, id.row, query.data(), query_units.data());
    SoftmaxRow<Real> row(problem_);
    for (int64_t j = 0; j < n_k_ && (!causal_ || j <= id.row); ++j) {
      const int64_t at = (id.head * n_k_ + j) * draws_;
      Score<Real> score =
          ScaledDot<Real>(query.data(), keys_.data() + at, draws_, scale_);
      for (int64_t r = 0; r < draws_; ++r)
        score.units +=
            1.01 * static_cast<double>(scale_) *
            (std::abs(static_cast<double>(query[r])) * key_units_[at + r] +
             std::abs(static_cast<double>(keys_[at + r])) * query_units[r] +
             roundoff_ * key_units_[at + r] * query_units[r]);
      row.See(j, score);
    }
    const double* v = v_.Head(id.head);
    row.Write(
        e_, [&](int64_t j) { return v + j * e_; }, value, units);
  }

 private:
  const Problem& problem_;
  const Tensor& v_;
  const StochasticPositions<Real> positions_;
  const int64_t n_k_, e_, draws_;
  const bool causal_;
  const Real scale_;
  const double roundoff_;
  std::vector<Real> keys_;
  std::vector<double> key_units_;
};

// Computes rows of linear attention on q^ and k^.
template <typename Real>
class LinearOnNoise : public Reference<Real> {
 public:
  LinearOnNoise(const Problem& problem, const Inputs& inputs)
      : positions_(problem, inputs),
        attention_(AttentionOnNoise(problem, SoftmaxScale<double>(problem))),
        rows_(
            attention_, inputs,
            [this](int64_t head, int64_t i, Real* row, double* units) {
              positions_.Query(head, i, row, units);
            },
            [this](int64_t head, int64_t j, Real* row, double* units) {
              positions_.Key(head, j, row, units);
            }) {}

  void Row(const RowId& id, Real* value, double* units) override {
    rows_.Row(id.head, id.row, value, units);
  }

 private:
  const StochasticPositions<Real> positions_;
  const Problem attention_;
  const KernelizedRows<Real> rows_;
};

template <typename Real>
class StochasticPositionReference : public Reference<Real> {
 public:
  StochasticPositionReference(const Problem& problem, const Inputs& inputs) {
    if (IsSoftmax(problem))
      attention_ = std::make_unique<SoftmaxOnNoise<Real>>(problem, inputs);
    else
      attention_ = std::make_unique<LinearOnNoise<Real>>(problem, inputs);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    attention_->Row(id, value, units);
  }

 private:
  std::unique_ptr<Reference<Real>> attention_;
};

// Returns the rule of the noise, which is drawn and not trained.
TensorRule Noise(const char* places) {
  TensorRule noise{"z", {"d", places, "draws"}, Role::kParameter};
  noise.fixed = true;
  return noise;
}

class StochasticPositionAttentionOperator final
    : public OperatorWith<StochasticPositionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "stochastic_position_attention",
        "out = attention(q^, k^, v), q^_i[r] = sum_a q_i[a] qbar_a(i,r) / "
        "sqrt(R)",
        "SPE; FastRPB eq. 8"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    std::vector<ParamRule> rules = {
        ParamRule::Choice("kind", "kind of positional noise", {"sine", "conv"}),
        ParamRule::Choice("attention", "attention that uses q^ and k^",
                          {"softmax", "linear"})};
    const bool linear =
        params.Has("attention") && params.Text("attention") == "linear";
    if (linear)
      for (ParamRule& rule : FeatureMapParams(params, false))
        rules.push_back(std::move(rule));
    rules.push_back(
        ParamRule::Flag("causal", "query i sees positions j <= i only"));
    rules.push_back(ParamRule::Scale(linear ? "1" : "1/sqrt(d)"));
    return rules;
  }

  Signature ForwardSignature(const Params& params) const override {
    const bool sine = params.Text("kind") == "sine";
    const std::string n_q = sine ? "n_q" : "n", n_k = sine ? "n_k" : "n";
    Signature signature;
    if (sine)
      signature.sizes = {SizeRule::Length("n_q", "queries"),
                         SizeRule::Length("n_k", "keys")};
    else
      signature.sizes = {SizeRule::Length("n", "positions")};
    signature.sizes.push_back({"d", 64, "width of a query and a key"});
    signature.sizes.push_back({"e", 64, "width of a value"});
    signature.sizes.push_back({"draws", 64, "number of draws of the noise, R"});
    signature.inputs = {{"q", {n_q, "d"}},
                        {"k", {n_k, "d"}},
                        TensorRule::Linear("v", {n_k, "e"})};
    if (sine) {
      signature.sizes.push_back(
          {"components", 4, "number of sines per channel"});
      const std::vector<std::string> shape = {"d", "components"};
      signature.inputs.push_back(
          {"freqs", shape, Role::kParameter, Draw::kPositive});
      signature.inputs.push_back({"phases", shape, Role::kParameter});
      signature.inputs.push_back(
          {"gains", shape, Role::kParameter, Draw::kMixing});
      signature.inputs.push_back(Noise("2*components"));
    } else {
      signature.sizes.push_back({"taps", 16, "length of a filter, P"});
      for (const char* name : {"filters_q", "filters_k"})
        signature.inputs.push_back(
            {name, {"d", "taps"}, Role::kParameter, Draw::kMixing});
      signature.inputs.push_back(Noise("n+taps-1"));
    }
    if (params.Text("attention") == "linear") {
      const size_t before = signature.inputs.size();
      AddOmega(params, signature);
      if (signature.inputs.size() > before)
        signature.inputs.back().shape.back() = "draws";
    }
    signature.outputs = {{"out", {n_q, "e"}}};
    signature.queries = n_q;
    signature.keys = n_k;
    return signature;
  }

  void CompleteParams(int64_t, uint64_t, Params& params) const override {
    if (!params.Has("kind")) params.Set("kind", std::string("sine"));
    if (!params.Has("attention"))
      params.Set("attention", std::string("linear"));
    if (params.Text("attention") == "linear") CompleteFeatureMap(params);
  }

  double RowWork(const Problem& problem, int) const override {
    const int64_t steps =
        IsSine(problem) ? 2 * problem.Dim("components") : problem.Dim("taps");
    const int64_t keys = problem.Dim(IsSine(problem) ? "n_k" : "n");
    return static_cast<double>(keys) *
               static_cast<double>(problem.Dim("draws") + problem.Dim("e")) +
           static_cast<double>(problem.Dim("d") * steps * problem.Dim("draws"));
  }
};

}  // namespace

const Operator& StochasticPositionAttention() {
  static const StochasticPositionAttentionOperator op;
  return op;
}

}  // namespace subquad
