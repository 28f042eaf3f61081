#include "reference/clustered_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/base/operator_with.h"
#include "reference/base/split_mix.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {
namespace {

// Returns the clusters that a row may belong to: first that of the largest
// product, then those whose product might be larger without rounding.
template <typename Real>
std::vector<int64_t> PossibleClusters(const double* y, int64_t d,
                                      const double* vectors, int64_t c,
                                      bool hash, double roundoff) {
  std::vector<Score<Real>> scores;
  for (int64_t x = 0; x < c; ++x) {
    Score<Real> score;
    double magnitude = 0;
    for (int64_t a = 0; a < d; ++a) {
      // These are copies, as the choice has no derivative.
      const double number = y[a],
                   factor = hash ? vectors[a * c + x] : vectors[x * d + a];
      const Real product =
          static_cast<Real>(number) * static_cast<Real>(factor);
      score.value += product;
      magnitude += std::abs(static_cast<double>(product));
    }
    score.units = 1.01 * static_cast<double>(d) * magnitude;
    scores.push_back(score);
  }
  if (hash)
    for (int64_t x = 0; x < c; ++x)
      scores.push_back({-scores[x].value, scores[x].units});
  size_t best = 0;
  for (size_t x = 1; x < scores.size(); ++x)
    if (scores[x].value > scores[best].value) best = x;
  std::vector<int64_t> possible = {static_cast<int64_t>(best)};
  for (size_t x = 0; x < scores.size(); ++x) {
    const double gap =
        static_cast<double>(scores[best].value - scores[x].value);
    const double error = roundoff * (scores[best].units + scores[x].units);
    // Products that are equal without any error are equal in every
    // implementation.
    if (x != best && error > 0 && gap <= error)
      possible.push_back(static_cast<int64_t>(x));
  }
  return possible;
}

template <typename Real>
class ClusteredAttentionReference : public Reference<Real> {
 public:
  ClusteredAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        k_(inputs["k"]),
        v_(inputs["v"]),
        n_(problem.Dim("n")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        causal_(problem.params.Flag("causal")),
        scale_(SoftmaxScale<Real>(problem)) {
    const bool hash = problem.params.Text("kind") == "lsh";
    const Tensor& vectors = inputs[hash ? "rotations" : "centroids"];
    const double roundoff = ArithmeticRoundoff(problem.scalar);
    for (const Tensor* rows : {&q_, &k_})
      for (int64_t h = 0; h < problem.heads; ++h)
        for (int64_t i = 0; i < n_; ++i)
          (rows == &q_ ? query_clusters_ : key_clusters_)
              .push_back(PossibleClusters<Real>(
                  rows->Head(h) + i * d_, d_, vectors.Head(h), problem.Dim("c"),
                  hash, roundoff));
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const double* q = q_.Head(id.head) + id.row * d_;
    const auto& own = query_clusters_[id.head * n_ + id.row];
    bool certain = own.size() == 1;
    SoftmaxRow<Real> row(problem_);
    for (int64_t j = 0; j < (causal_ ? id.row + 1 : n_); ++j) {
      const auto& others = key_clusters_[id.head * n_ + j];
      if (j == id.row || others.front() == own.front())
        row.See(j, ScaledDot<Real>(q, k_.Head(id.head) + j * d_, d_, scale_));
      certain = certain && (j == id.row || others.size() == 1 ||
                            std::ranges::count(others, own.front()) == 0);
    }
    row.Write(
        e_, [&](int64_t j) { return v_.Head(id.head) + j * e_; }, value, units);
    if (certain) return;
    if (units) std::fill_n(units, e_, std::numeric_limits<double>::infinity());
    if constexpr (kCarriesBounds<Real>) AddPossibleKeys(id, value);
  }

 private:
  // Lets the output depend on the keys that a program may see in place of those
  // that it does: nothing is promised of their gradients either.
  void AddPossibleKeys(const RowId& id, Real* value) const {
    const double* q = q_.Head(id.head) + id.row * d_;
    const auto& own = query_clusters_[id.head * n_ + id.row];
    for (int64_t j = 0; j < (causal_ ? id.row + 1 : n_); ++j) {
      const auto& others = key_clusters_[id.head * n_ + j];
      if (std::ranges::find_first_of(own, others) == own.end()) continue;
      const Real score =
          ScaledDot<Real>(q, k_.Head(id.head) + j * d_, d_, scale_).value;
      const double* v = v_.Head(id.head) + j * e_;
      for (int64_t c = 0; c < e_; ++c)
        value[c] += Real{0} * score + Real{0} * static_cast<Real>(v[c]);
    }
  }

  const Problem& problem_;
  const Tensor &q_, &k_, &v_;
  const int64_t n_, d_, e_;
  const bool causal_;
  const Real scale_;
  std::vector<std::vector<int64_t>> query_clusters_, key_clusters_;
};

class ClusteredAttentionOperator final
    : public OperatorWith<ClusteredAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "clustered_attention",
        "out_i = softmax over the keys of i's cluster of scale q_i.k_j, times "
        "v",
        "Transformers II, \"Making the attention matrix sparse\""};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return {ParamRule::Choice("kind", "how clusters are formed",
                              {"lsh", "centroids"}),
            ParamRule::Flag("causal", "query i sees keys j <= i only"),
            ParamRule::Scale("1/sqrt(d)")};
  }

  Signature ForwardSignature(const Params& params) const override {
    Signature signature;
    const bool hash = !params.Has("kind") || params.Text("kind") == "lsh";
    signature.sizes = {
        SizeRule::Length("n", "tokens"),
        {"d", 64, "width of a query and a key"},
        {"e", 64, "width of a value"},
        {"c", hash ? 8 : 16, hash ? "rotations, for 2c clusters" : "clusters"}};
    signature.inputs = {{"q",
                         {"n", "d"},
                         Role::kData,
                         hash ? kTokens<true, 1> : kTokens<false, 1>},
                        {"k",
                         {"n", "d"},
                         Role::kData,
                         hash ? kTokens<true, 2> : kTokens<false, 2>},
                        TensorRule::Linear("v", {"n", "e"})};
    // They decide on clusters only, which has no derivative.
    TensorRule vectors{
        "rotations", {"d", "c"}, Role::kParameter, kVectors<true>};
    if (!hash)
      vectors = {"centroids", {"c", "d"}, Role::kParameter, kVectors<false>};
    vectors.fixed = true;
    signature.inputs.push_back(vectors);
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  void CompleteParams(int64_t, uint64_t, Params& params) const override {
    if (!params.Has("kind")) params.Set("kind", std::string("lsh"));
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.keys) *
               static_cast<double>(problem.Dim("e") + problem.Dim("d")) /
               static_cast<double>(problem.Dim("c")) +
           2 * static_cast<double>(problem.Dim("c") * problem.Dim("d"));
  }

 private:
  // Vector x has ones in every c-th place from x on. A token is half or a
  // quarter of a random draw plus one of these vectors (with hashes, or its
  // negative): clusters are even, and few tokens are between two.
  template <bool kHash>
  static constexpr Draw kVectors = {
      Draw::From::kInput, [](double drawn, const Element& element) {
        const int64_t c = element.dims.at("c"), d = element.dims.at("d");
        const int64_t number = kHash ? element.index / c : element.index % d;
        const int64_t vector = kHash ? element.index % c : element.index / d;
        return drawn / 4 + (number % c == vector ? 1 : 0);
      }};
  template <bool kHash, uint64_t kSeed>
  static constexpr Draw kTokens = {
      Draw::From::kInput, [](double drawn, const Element& element) {
        const int64_t c = element.dims.at("c"), d = element.dims.at("d");
        const uint64_t bits =
            SplitMix64(static_cast<uint64_t>(element.index / d), kSeed);
        const auto vector = static_cast<int64_t>(
            bits / 2 % static_cast<uint64_t>(std::min(c, d)));
        if (element.index % d % c != vector) return drawn / 2;
        return drawn / 2 + (kHash && bits % 2 != 0 ? -2 : 2);
      }};
};

}  // namespace

const Operator& ClusteredAttention() {
  static const ClusteredAttentionOperator op;
  return op;
}

}  // namespace subquad
