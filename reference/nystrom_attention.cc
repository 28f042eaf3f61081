#include "reference/nystrom_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/operator_with.h"
#include "reference/base/split_mix.h"
#include "reference/softmax/nystrom_inverse.h"
#include "reference/softmax/reduced_keys.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {
namespace {

template <typename Real>
class NystromAttentionReference : public Reference<Real> {
 public:
  NystromAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        n_(problem.Dim("n")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        segments_(problem.Dim("segments")),
        scale_(SoftmaxScale<Real>(problem)) {
    for (int64_t h = 0; h < problem.heads; ++h)
      heads_.push_back(MakeHead(h, inputs["k"].Head(h), inputs["v"].Head(h)));
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const Head& head = heads_[static_cast<size_t>(id.head)];
    const auto size = static_cast<size_t>(segments_);
    std::vector<Real> weights(size);
    std::vector<double> weight_units(size);
    Weights(q_.Head(id.head) + id.row * d_, head.keys, weights.data(),
            weight_units.data());
    double norm = 0;
    for (const Real& weight : weights)
      norm += static_cast<double>(weight) * static_cast<double>(weight);
    norm = sqrt(norm);
    std::fill_n(value, e_, Real{0});
    for (int64_t a = 0; a < segments_; ++a)
      AddScaledRow(value, weights[a], &head.mixed[a * e_], e_);
    if (!units) return;
    for (int64_t c = 0; c < e_; ++c) {
      double moved = 0;
      for (size_t a = 0; a < size; ++a)
        moved +=
            weight_units[a] * std::abs(static_cast<double>(
                                  head.mixed[a * static_cast<size_t>(e_) + c]));
      // Three more products follow, bracketed either way.
      const double products = 3 * static_cast<double>(segments_) * head.z_norm *
                              head.value_norms[c];
      units[c] = 1.01 * (moved +
                         norm * (head.z_units * head.value_norms[c] +
                                 head.z_norm * head.value_units[c] + products));
    }
  }

 private:
  struct Head {
    ReducedRows<Real> keys;                        // k~
    std::vector<Real> mixed;                       // Z (S v), [segments, e]
    double z_norm, z_units;                        // |Z|_F and |dZ|_F
    std::vector<double> value_norms, value_units;  // columns of S v, and errors
  };

  // Averages segments in parts of 16 rows, whose sums are added: off by (16 +
  // length / 16 + 1) u.
  ReducedRows<Real> Means(const double* rows) const {
    constexpr int64_t kPart = 16;
    const int64_t length = n_ / segments_;
    const int64_t parts = length / kPart;
    const double roundings = 1.01 * static_cast<double>(kPart + parts + 1);
    ReducedRows<Real> means(segments_, d_);
    for (int64_t a = 0; a < segments_; ++a) {
      std::vector<Real> mean(static_cast<size_t>(d_));
      std::vector<double> units(static_cast<size_t>(d_));
      for (int64_t first = 0; first < length; first += kPart) {
        std::vector<Real> part(static_cast<size_t>(d_));
        for (int64_t j = first; j < std::min(first + kPart, length); ++j)
          for (int64_t x = 0; x < d_; ++x) {
            const double& number = rows[(a * length + j) * d_ + x];
            part[x] += static_cast<Real>(number);
            units[x] += roundings * std::abs(number);
          }
        for (int64_t x = 0; x < d_; ++x) mean[x] += part[x];
      }
      for (int64_t x = 0; x < d_; ++x) {
        mean[x] /= static_cast<Real>(length);
        units[x] /= static_cast<double>(length);
      }
      means.Set(a, mean.data(), units.data());
    }
    return means;
  }

  // Computes a query's weights over the landmarks, [segments].
  template <typename Query>
  void Weights(const Query* query, const ReducedRows<Real>& keys, Real* weights,
               double* units, const double* query_units = nullptr) const {
    SoftmaxRow<Real> row(problem_);
    for (int64_t a = 0; a < segments_; ++a)
      row.See(a, ScoreOf(query, query_units, keys.Row(a), keys.Units(a)));
    std::vector<double> identity(static_cast<size_t>(segments_ * segments_));
    for (int64_t a = 0; a < segments_; ++a) identity[a * (segments_ + 1)] = 1;
    row.Write(
        segments_, [&](int64_t a) { return &identity[a * segments_]; }, weights,
        units);
  }

  template <typename Query, typename Key>
  Score<Real> ScoreOf(const Query* query, const double* query_units,
                      const Key* key, const double* key_units) const {
    Score<Real> score = ScaledDot<Real>(query, key, d_, scale_);
    const auto scale = static_cast<double>(scale_);
    for (int64_t x = 0; x < d_; ++x) {
      if (query_units)
        score.units +=
            scale * query_units[x] * std::abs(static_cast<double>(key[x]));
      if (key_units)
        score.units +=
            scale * key_units[x] * std::abs(static_cast<double>(query[x]));
    }
    return score;
  }

  Head MakeHead(int64_t h, const double* k, const double* v) const {
    const auto size = static_cast<size_t>(segments_);
    const auto width = static_cast<size_t>(e_);
    const ReducedRows<Real> queries = Means(q_.Head(h));
    Head head{
        Means(k), std::vector<Real>(size * width), 0,
        0,        std::vector<double>(width),      std::vector<double>(width)};
    std::vector<Real> matrix(size * size), values(size * width);
    std::vector<double> matrix_units(size * size), value_units(size * width);
    for (int64_t a = 0; a < segments_; ++a) {
      Weights(queries.Row(a), head.keys, &matrix[a * segments_],
              &matrix_units[a * segments_], queries.Units(a));
      SoftmaxRow<Real> row(problem_);
      for (int64_t j = 0; j < n_; ++j)
        row.See(j, ScoreOf(queries.Row(a), queries.Units(a), k + j * d_,
                           static_cast<const double*>(nullptr)));
      row.Write(
          e_, [&](int64_t j) { return v + j * e_; }, &values[a * e_],
          &value_units[a * e_]);
      AsRow(&values[a * e_], e_);
    }
    const NystromInverse<Real> inverse(matrix, segments_,
                                       problem_.params.Integer("iterations"));
    // In the problem's own type, rounding may make steps diverge that converge.
    if (!std::isfinite(inverse.norm()) &&
        static_cast<int64_t>(sizeof(Real)) >
            Info(ArithmeticOf(problem_.scalar)).bytes)
      throw InvalidInput("parameter iterations",
                         "fewer, so that rounding does not make Z diverge",
                         std::to_string(problem_.params.Integer("iterations")));
    double matrix_norm = 0;
    for (double value : matrix_units) matrix_norm += value * value;
    for (int64_t a = 0; a < segments_; ++a) {
      Real* const mixed = &head.mixed[a * e_];
      for (int64_t b = 0; b < segments_; ++b)
        AddScaledRow(mixed, inverse.z()[a * segments_ + b], &values[b * e_],
                     e_);
      AsRow(mixed, e_);
    }
    if constexpr (kCarriesBounds<Real>) return head;
    head.z_norm = inverse.norm();
    head.z_units =
        inverse.Units(sqrt(matrix_norm), ArithmeticRoundoff(problem_.scalar));
    for (size_t c = 0; c < width; ++c) {
      for (size_t a = 0; a < size; ++a) {
        const auto value = static_cast<double>(values[a * width + c]);
        head.value_norms[c] += value * value;
        head.value_units[c] +=
            value_units[a * width + c] * value_units[a * width + c];
      }
      head.value_norms[c] = sqrt(head.value_norms[c]);
      head.value_units[c] = sqrt(head.value_units[c]);
    }
    return head;
  }

  const Problem& problem_;
  const Tensor& q_;
  const int64_t n_, d_, e_, segments_;
  const Real scale_;
  std::vector<Head> heads_;
};

class NystromAttentionOperator final
    : public OperatorWith<NystromAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "nystrom_attention",
        "out = softmax(scale q k~^T) Z softmax(scale q~ k^T) v, Z about the "
        "inverse of softmax(scale q~ k~^T)",
        "NPRF section 5, [49]; Xiong et al. 2021"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    ParamRule iterations =
        ParamRule::Integer("iterations", "iterations towards the inverse", 0);
    iterations.max = 100;  // each iteration doubles the digits
    return {
        ParamRule::Integer(
            "segments", "number of landmarks, the means of equal segments", 1),
        iterations, ParamRule::Scale("1/sqrt(d)")};
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {{"q", {"n", "d"}, Role::kData, kSegments<0>},
                        {"k", {"n", "d"}, Role::kData, kSegments<1>},
                        TensorRule::Linear("v", {"n", "e"})};
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    const int64_t n = problem.Dim("n"), segments = problem.Dim("segments");
    if (n % segments != 0)
      throw InvalidInput("n",
                         "a multiple of segments " + std::to_string(segments),
                         std::to_string(n));
  }

  // The defaults are 64 landmarks, or as many as a divisor of n allows, and six
  // iterations, as in the paper.
  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    if (!params.Has("iterations")) params.Set("iterations", int64_t{6});
    if (params.Has("segments")) return;
    int64_t segments = std::clamp<int64_t>(n / 2, 1, 64);
    while (n % segments != 0) --segments;
    params.Set("segments", segments);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("segments")) *
           static_cast<double>(2 * problem.Dim("d") + 3 * problem.Dim("e") +
                               problem.Dim("segments"));
  }

 private:
  // Adds a direction of signs for each segment to half of a random draw. Keys
  // have the direction of the next segment: A is near a matrix that is not
  // symmetric.
  template <int64_t kBehind>
  static constexpr Draw kSegments = {
      Draw::From::kInput, [](double drawn, const Element& element) {
        const int64_t width = element.shape.back();
        const int64_t segments = element.dims.at("segments");
        const int64_t length =
            std::max<int64_t>(1, element.shape.front() / segments);
        const int64_t segment =
            (element.index / width / length + kBehind) % segments;
        const uint64_t bits = SplitMix64(
            static_cast<uint64_t>(segment * width + element.index % width));
        return drawn / 2 + (bits % 2 == 0 ? 1 : -1);
      }};
};

}  // namespace

const Operator& NystromAttention() {
  static const NystromAttentionOperator op;
  return op;
}

}  // namespace subquad
