#include "reference/graph_attention.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"
#include "reference/base/split_mix.h"
#include "reference/base/term_order.h"
#include "reference/softmax/reduced_keys.h"

namespace subquad {
namespace {

// Lists the keys of every query, ascending.
class GraphKeys {
 public:
  GraphKeys(const double* edges, int64_t count, int64_t n)
      : keys_(static_cast<size_t>(n)) {
    for (int64_t i = 0; i < n; ++i) keys_[i].push_back(i);
    for (int64_t r = 0; r < count; ++r)
      keys_[std::llround(edges[2 * r])].push_back(
          std::llround(edges[2 * r + 1]));
    for (auto& keys : keys_) {
      std::ranges::sort(keys);
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    }
  }

  const std::vector<int64_t>& Of(int64_t query) const { return keys_[query]; }
  bool Has(int64_t query, int64_t key) const {
    return std::ranges::binary_search(Of(query), key);
  }

 private:
  std::vector<std::vector<int64_t>> keys_;
};

template <typename Real>
class GraphAttentionReference : public Reference<Real> {
 public:
  GraphAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        convolution_(problem.params.Text("kind") == "convolution"),
        n_(problem.Dim("n")),
        token_(problem.Dim("D")),
        e_(problem.Dim("e")),
        slope_(problem.params.Has("slope")
                   ? static_cast<Real>(problem.params.Number("slope"))
                   : static_cast<Real>(0.2)) {
    if (problem.HasInput("edges")) {
      const Tensor& edges = inputs["edges"];
      slices_ = edges.slices;
      for (int64_t s = 0; s < slices_.count(); ++s)
        graphs_.emplace_back(edges.Slice(s), problem.Dim("m"), n_);
    } else {
      everything_.resize(static_cast<size_t>(n_));
      std::iota(everything_.begin(), everything_.end(), 0);
    }
    for (int64_t h = 0; h < problem.heads; ++h) {
      numbers_.push_back(Numbers(inputs["x"].Head(h), inputs["phi"].Head(h)));
      if (convolution_) continue;
      of_queries_.push_back(Parts(numbers_.back(), inputs["a_q"].Head(h)));
      of_keys_.push_back(Parts(numbers_.back(), inputs["a_k"].Head(h)));
    }
  }

  void Row(const RowId& id, Real* value, double* units) override {
    if (convolution_)
      Convolve(id, value, units);
    else
      Attend(id, value, units);
  }

 private:
  const std::vector<int64_t>& KeysOf(int64_t head, int64_t query) const {
    return graphs_.empty() ? everything_ : graphs_[slices_.Of(head)].Of(query);
  }

  ReducedRows<Real> Numbers(const double* x, const double* phi) const {
    ReducedRows<Real> numbers(n_, e_);
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t a = 0; a < token_; ++a)
        numbers.Add(i, x[i * token_ + a], phi + a * e_, token_);
    numbers.Finish();
    return numbers;
  }

  // Returns u_i . a for every token.
  std::vector<Score<Real>> Parts(const ReducedRows<Real>& u,
                                 const double* a) const {
    std::vector<Score<Real>> parts;
    for (int64_t i = 0; i < n_; ++i) {
      Score<Real> part = ScaledDot<Real>(u.Row(i), a, e_, Real{1});
      for (int64_t c = 0; c < e_; ++c)
        part.units += u.Units(i)[c] * std::abs(a[c]);
      parts.push_back(part);
    }
    return parts;
  }

  void Convolve(const RowId& id, Real* value, double* units) const {
    const ReducedRows<Real>& u = numbers_[static_cast<size_t>(id.head)];
    const std::vector<int64_t>& keys = KeysOf(id.head, id.row);
    const auto count = static_cast<double>(keys.size());
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> sums(width);
    std::vector<double> bound(width);
    ForTerms(keys.size(), [&](size_t at) {
      const int64_t j = keys[at];
      const Real weight = 1 / sqrt(static_cast<Real>(keys.size())) /
                          sqrt(static_cast<Real>(KeysOf(id.head, j).size()));
      sums.AddRow(weight, u.Row(j), width);
      sums.Next();
      for (size_t c = 0; c < width; ++c)
        bound[c] +=
            static_cast<double>(weight) *
            (1.01 * (count + 5) * std::abs(static_cast<double>(u.Row(j)[c])) +
             u.Units(j)[c]);
    });
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c);
    if (units) std::ranges::copy(bound, units);
  }

  void Attend(const RowId& id, Real* value, double* units) const {
    const auto head = static_cast<size_t>(id.head);
    const ReducedRows<Real>& u = numbers_[head];
    const Score<Real>& own = of_queries_[head][static_cast<size_t>(id.row)];
    SoftmaxRow<Real> row(problem_);
    for (int64_t j : KeysOf(id.head, id.row)) {
      Score<Real> score =
          own.Plus(of_keys_[head][static_cast<size_t>(j)].value);
      score.units += of_keys_[head][static_cast<size_t>(j)].units;
      if (!(score.value > 0)) score.value = slope_ * score.value;
      score.units = std::max(1.0, static_cast<double>(slope_)) * score.units +
                    std::abs(static_cast<double>(score.value));
      row.See(j, score);
    }
    row.Write(
        e_, [&](int64_t j) { return u.Row(j); },
        [&](int64_t j) { return u.Units(j); }, value, units);
  }

  const Problem& problem_;
  const bool convolution_;
  const int64_t n_, token_, e_;
  const Real slope_;
  Slices slices_;                    // slices of edges
  std::vector<GraphKeys> graphs_;    // by slice; empty: the complete graph
  std::vector<int64_t> everything_;  // keys in the complete graph
  std::vector<ReducedRows<Real>> numbers_;  // u of each head
  std::vector<std::vector<Score<Real>>> of_queries_, of_keys_;
};

class GraphAttentionOperator final
    : public OperatorWith<GraphAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "graph_attention",
        "out_i = sum_j w_ij (x phi)_j over the edges (i, j) and j = i",
        "Transformers II, fig. 13b, c"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    std::vector<ParamRule> rules = {ParamRule::Choice(
        "kind", "how the weights are computed", {"convolution", "attention"})};
    if (Kind(params) == "convolution") return rules;
    ParamRule slope{"slope", ParamType::kNumber, "factor for negative scores",
                    false};
    slope.default_value = "0.2";
    slope.may_be_zero = true;
    rules.push_back(slope);
    return rules;
  }

  Signature ForwardSignature(const Params& params) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       SizeRule::Length("m", "edges"),
                       {"D", 64, "width of a token"},
                       {"e", 64, "width of a value"}};
    TensorRule edges{"edges", {"m", "2"}, Role::kParameter, kEdges};
    edges.optional = true;
    edges.fixed = true;
    signature.inputs = {
        {"x", {"n", "D"}},
        {"phi", {"D", "e"}, Role::kParameter, Draw::kMixingRows},
        edges};
    if (Kind(params) == "attention")
      for (const char* name : {"a_q", "a_k"})
        signature.inputs.push_back(
            {name, {"e"}, Role::kParameter, Draw::kMixing});
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  void CompleteParams(int64_t, uint64_t, Params& params) const override {
    if (!params.Has("kind")) params.Set("kind", std::string("attention"));
  }

  void CheckNumbers(const Problem& problem,
                    const Inputs& inputs) const override {
    if (!problem.HasInput("edges")) return;
    const Tensor& edges = inputs["edges"];
    const int64_t n = problem.Dim("n"), m = problem.Dim("m");
    for (size_t i = 0; i < edges.values.size(); ++i) {
      const double value = edges.values[i];
      if (value >= 0 && value < static_cast<double>(n) &&
          value == std::floor(value))
        continue;
      throw InvalidInput(
          "edges", "whole numbers from 0 to " + std::to_string(n - 1),
          std::to_string(value) + " in edge " +
              std::to_string(static_cast<int64_t>(i) % (2 * m) / 2));
    }
    if (problem.params.Text("kind") != "convolution") return;
    for (int64_t s = 0; s < edges.slices.count(); ++s) {
      const GraphKeys keys(edges.Slice(s), m, n);
      for (int64_t i = 0; i < n; ++i)
        for (int64_t j : keys.Of(i))
          if (!keys.Has(j, i))
            throw InvalidInput(
                "edges of a convolution", "each in both directions",
                "(" + std::to_string(i) + ", " + std::to_string(j) +
                    ") without (" + std::to_string(j) + ", " +
                    std::to_string(i) + ")");
    }
  }

  double RowWork(const Problem& problem, int) const override {
    const double keys = problem.HasInput("edges")
                            ? 1 + static_cast<double>(problem.Dim("m")) /
                                      static_cast<double>(problem.keys)
                            : static_cast<double>(problem.keys);
    return static_cast<double>(problem.Dim("e")) *
           (keys + static_cast<double>(problem.Dim("D")));
  }

 private:
  static std::string Kind(const Params& params) {
    if (!params.Has("kind")) return "";
    const auto* text = std::get_if<std::string>(&params.values().at("kind"));
    return text ? *text : "";
  }

  // Every second edge is the one before it reversed; a last edge without such a
  // partner goes from a token to itself.
  static constexpr Draw kEdges = {
      Draw::From::kUniform, [](double, const Element& element) {
        const int64_t n = element.dims.at("n"), m = element.shape.front();
        const int64_t edge = element.index / 2;
        int64_t end = element.index % 2 != edge % 2;
        if (edge == m - 1 && m % 2 != 0) end = 0;
        return static_cast<double>(
            SplitMix64(static_cast<uint64_t>(edge / 2 * 2 + end)) %
            static_cast<uint64_t>(n));
      }};
};

}  // namespace

const Operator& GraphAttention() {
  static const GraphAttentionOperator op;
  return op;
}

}  // namespace subquad
