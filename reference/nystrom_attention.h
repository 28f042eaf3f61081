// nystrom_attention: softmax attention through landmarks, the means of pieces
// of the sequence (NPRF's comparison; Nystroemformer, Xiong et al. 2021)
//
//   q, k [n, d], v [n, e], out [n, e]; n = segments times a whole number
//   q~, k~ [segments, d]  means of equal pieces, one after another
//   F = softmax(scale q k~^T)  A = softmax(scale q~ k~^T)
//   S = softmax(scale q~ k^T)
//   out = F Z (S v), Z about the inverse of A: from A^T / (|A|_1 |A|_inf),
//         `iterations` times  Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4
//   scale                 default 1/sqrt(d)
//
// |A|_1 is the largest sum of a column's magnitudes, |A|_inf of a row's.
//
// Test inputs: generated tokens of a segment have a direction in
// common, so that A is far from singular, and not symmetric; a landmark made of
// other tokens, a transposed Z and, until it has converged, an iteration more
// or less change all rows.
//
// Bound: rows of F, A and S v are softmax rows over reduced keys
// (reduced_keys.h), landmarks being sums in parts (Means). Z is what needs a
// derivation. All Z_k have the singular vectors of A^T; let s_i be the singular
// values of A, z_i those of Z_k and w_i = s_i z_i, in [0, 1]. To first order an
// error D of Z_k becomes, in these vectors, c_ij D_ij in Z_{k+1},
//   4 c_ij = 13 - 15 (w_i + w_j) + 7 (w_i^2 + w_i w_j + w_j^2)
//            - (w_i^3 + w_i^2 w_j + w_i w_j^2 + w_j^3),
// at most 13/4 and zero where w = 1: a step forgets the errors before it. An
// error M of A adds z_i z_j a_ij M_ij,
//   4 a_ij = -15 + 7 (w_i + w_j) - (w_i^2 + w_i w_j + w_j^2),
// and gives M_ji / (|A|_1 |A|_inf) in Z_0, besides a relative error of its
// scale. So in the Frobenius norm |dZ| is at most |dA| times the largest sum of
// both, plus for every step the largest product of later c_ij times its own
// roundings. A product X Y is off by (segments + 2) u |X||Y|, entry by entry,
// and each difference by its own size. The error of A Z enters 13 I - A Z (15 I
// - A Z (7 I - A Z)) with a factor of at most
//   15 - 7 (w_i + w_j) + w_i^2 + w_i w_j + w_j^2,
// 15; the others, multiplied by A Z, with one of at most 1. Z enlarges all of
// them by |Z|_2 / 4.
//
// Terms of second order count as one more rounding of their step: 3.75 |A|_2
// |dZ|^2 (half of the second derivative of 13 w - 15 w^2 + 7 w^3 - w^4 over 4
// is at most that), 21 |Z|_2 |dA| |dZ| and 2.5 |Z|_2^3 |dA|^2 (all their terms,
// whatever the signs). Where |A|_2 |dZ| reaches 0.2 the third order, at most a
// tenth of the second below it, counts too, and there is no bound.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/base/operator.h"
#include "reference/base/split_mix.h"
#include "reference/softmax/reduced_keys.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {

// Returns the squares of the singular values of m [size, size], by Jacobi's
// method on m m^T (Golub and Van Loan, section 8.5).
inline std::vector<double> SquaredSingularValues(const std::vector<double>& m,
                                                 int64_t size) {
  std::vector<double> g(static_cast<size_t>(size * size));
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      for (int64_t a = 0; a < size; ++a)
        g[i * size + j] += m[i * size + a] * m[j * size + a];
  double trace = 0;
  for (int64_t i = 0; i < size; ++i) trace += g[i * size + i];
  constexpr int kSweeps = 12;
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (int64_t p = 0; p < size; ++p)
      for (int64_t q = p + 1; q < size; ++q) {
        const double off = g[p * size + q];
        if (std::abs(off) <= 1e-18 * trace) continue;
        const double theta = (g[q * size + q] - g[p * size + p]) / (2 * off);
        const double t = std::copysign(
            1 / (std::abs(theta) + std::sqrt(theta * theta + 1)), theta);
        const double c = 1 / std::sqrt(t * t + 1), s = t * c;
        for (int64_t a = 0; a < size; ++a) {
          const double x = g[a * size + p], y = g[a * size + q];
          g[a * size + p] = c * x - s * y;
          g[a * size + q] = s * x + c * y;
        }
        for (int64_t a = 0; a < size; ++a) {
          const double x = g[p * size + a], y = g[q * size + a];
          g[p * size + a] = c * x - s * y;
          g[q * size + a] = s * x + c * y;
        }
      }
  std::vector<double> squares;
  for (int64_t i = 0; i < size; ++i)
    squares.push_back(std::max(0.0, g[i * size + i]));
  return squares;
}

// Computes Z of a matrix A [size, size], and its error.
template <typename Real>
class NystromInverse {
 public:
  NystromInverse(const std::vector<Real>& matrix, int64_t size,
                 int64_t iterations)
      : size_(size), matrix_(matrix) {
    const auto at = [&](int64_t i, int64_t j) { return i * size + j; };
    Real rows = 0, columns = 0;
    for (int64_t i = 0; i < size; ++i) {
      Real row = 0, column = 0;
      for (int64_t j = 0; j < size; ++j) {
        row += std::abs(matrix[at(i, j)]);
        column += std::abs(matrix[at(j, i)]);
      }
      rows = std::max(rows, row);
      columns = std::max(columns, column);
    }
    scale_ = static_cast<double>(rows * columns);
    z_.resize(matrix.size());
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        z_[at(i, j)] = matrix[at(j, i)] / (rows * columns);
    for (int64_t t = 0; t < iterations; ++t) {
      before_.push_back(z_);
      const std::vector<Real> az = Times(matrix_, z_);
      std::vector<Real> inner = Less(7, az);
      inner = Less(15, Times(az, inner));
      inner = Less(13, Times(az, inner));
      z_ = Times(z_, inner);
      for (Real& value : z_) value /= 4;
    }
  }

  const std::vector<Real>& z() const { return z_; }
  double norm() const { return NormOf(z_); }  // Frobenius

  // Returns |dZ|_F in units of the roundoff if A is off by `matrix_units` in
  // that norm; infinite where there is no bound.
  double Units(double matrix_units, double roundoff) const {
    std::vector<double> exact(matrix_.begin(), matrix_.end());
    const std::vector<double> squares = SquaredSingularValues(exact, size_);
    const auto size = static_cast<size_t>(size_);
    const auto terms = static_cast<double>(size_ + 2);
    const double largest = std::sqrt(*std::ranges::max_element(squares));
    std::vector<double> s, z;
    for (double square : squares) {
      s.push_back(std::sqrt(square));
      z.push_back(std::sqrt(square) / scale_);
    }
    // Products of the factors c_ij that errors of A and of each step are
    // multiplied by, pair by pair.
    std::vector<double> of_a(size * size),
        of_transposed(size * size, 1 / scale_);
    std::vector<std::vector<double>> left;
    std::vector<double> own, of_scale = z;
    // The scale is a product of two sums of `size` numbers, followed by a
    // quotient.
    const double scale_units = 2 * matrix_units * std::sqrt(terms) + 2 * terms;
    const auto units_now = [&] {
      double gain = 0, of_scales = 0;
      for (size_t at = 0; at < of_a.size(); ++at)
        gain = std::max(gain, std::abs(of_a[at]) + std::abs(of_transposed[at]));
      for (double value : of_scale) of_scales += value * value;
      double units = gain * matrix_units + std::sqrt(of_scales) * scale_units;
      for (size_t step = 0; step < own.size(); ++step) {
        double most = 0;
        for (double value : left[step]) most = std::max(most, std::abs(value));
        units += most * own[step];
      }
      return units;
    };
    for (const std::vector<Real>& before : before_) {
      const double z_largest = *std::ranges::max_element(z);
      const double units = units_now();
      if (!(largest * units * roundoff < kFarthest))
        return std::numeric_limits<double>::infinity();
      const double second_order =
          roundoff * (1.1 * 3.75 * largest * units * units +
                      21 * z_largest * matrix_units * units +
                      2.5 * z_largest * z_largest * z_largest * matrix_units *
                          matrix_units);
      std::vector<double> w;
      for (size_t i = 0; i < size; ++i) w.push_back(s[i] * z[i]);
      for (size_t i = 0; i < size; ++i)
        for (size_t j = 0; j < size; ++j) {
          const double x = w[i], y = w[j];
          const double square = x * x + x * y + y * y;
          const double c = (13 - 15 * (x + y) + 7 * square -
                            (x * x * x + x * x * y + x * y * y + y * y * y)) /
                           4;
          const double a = (-15 + 7 * (x + y) - square) / 4;
          const size_t at = i * size + j;
          of_a[at] = c * of_a[at] + a * z[i] * z[j];
          of_transposed[at] *= c;
          if (i == j) of_scale[i] *= c;
          for (auto& earlier : left) earlier[at] *= c;
        }
      own.push_back(
          StepUnits(exact, {before.begin(), before.end()}, z_largest) +
          second_order);
      left.emplace_back(size * size, 1.0);
      for (size_t i = 0; i < size; ++i)
        z[i] *= (13 - w[i] * (15 - w[i] * (7 - w[i]))) / 4;
    }
    const double units = units_now();
    return largest * units * roundoff < kFarthest
               ? units
               : std::numeric_limits<double>::infinity();
  }

 private:
  // Limit of |A|_2 |dZ|_F, beyond which third orders are no longer small.
  static constexpr double kFarthest = 0.2;

  // Returns the rounding errors of one step, z being |Z|_2.
  double StepUnits(const std::vector<double>& a,
                   const std::vector<double>& z_before, double z) const {
    const auto terms = static_cast<double>(size_ + 2);
    const auto rounding = [&](std::vector<double> x, std::vector<double> y) {
      for (auto* m : {&x, &y})
        for (double& value : *m) value = std::abs(value);
      return terms * NormOf(Times(x, y));
    };
    const std::vector<double> az = Times(a, z_before);
    const std::vector<double> seven = Less(7, az),
                              fifteen = Less(15, Times(az, seven)),
                              thirteen = Less(13, Times(az, fifteen));
    const double passed_on = 15 * rounding(a, z_before) + NormOf(seven) +
                             rounding(az, seven) + NormOf(fifteen) +
                             rounding(az, fifteen) + NormOf(thirteen);
    return (z * passed_on + rounding(z_before, thirteen)) / 4;
  }

  template <typename Number>
  std::vector<Number> Times(const std::vector<Number>& a,
                            const std::vector<Number>& b) const {
    std::vector<Number> product(a.size());
    for (int64_t i = 0; i < size_; ++i)
      for (int64_t x = 0; x < size_; ++x)
        for (int64_t j = 0; j < size_; ++j)
          product[i * size_ + j] += a[i * size_ + x] * b[x * size_ + j];
    return product;
  }

  // Returns number I - m.
  template <typename Number>
  std::vector<Number> Less(int number, std::vector<Number> m) const {
    for (Number& value : m) value = -value;
    for (int64_t i = 0; i < size_; ++i)
      m[i * size_ + i] += static_cast<Number>(number);
    return m;
  }

  template <typename Number>
  static double NormOf(const std::vector<Number>& m) {
    double squares = 0;
    for (const Number& value : m)
      squares += static_cast<double>(value) * static_cast<double>(value);
    return std::sqrt(squares);
  }

  const int64_t size_;
  const std::vector<Real> matrix_;
  double scale_ = 0;
  std::vector<Real> z_;
  std::vector<std::vector<Real>> before_;  // Z before each step
};

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
    Weights(id, q_.Head(id.head) + id.row * d_, head.keys, weights.data(),
            weight_units.data());
    double norm = 0;
    for (const Real& weight : weights)
      norm += static_cast<double>(weight) * static_cast<double>(weight);
    norm = std::sqrt(norm);
    for (int64_t c = 0; c < e_; ++c) {
      Real sum = 0;
      double moved = 0;
      for (size_t a = 0; a < size; ++a) {
        const Real mixed = head.mixed[a * static_cast<size_t>(e_) + c];
        sum += weights[a] * mixed;
        moved += weight_units[a] * std::abs(static_cast<double>(mixed));
      }
      value[c] = sum;
      // Three more products follow, bracketed either way.
      const double products = 3 * static_cast<double>(segments_) * head.z_norm *
                              head.value_norms[c];
      if (units)
        units[c] = 1.01 * (moved + norm * (head.z_units * head.value_norms[c] +
                                           head.z_norm * head.value_units[c] +
                                           products));
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
    const double roundings =
        1.01 * static_cast<double>(kPart + length / kPart + 1);
    ReducedRows<Real> means(segments_, d_);
    for (int64_t a = 0; a < segments_; ++a) {
      std::vector<Real> mean(static_cast<size_t>(d_));
      std::vector<double> units(static_cast<size_t>(d_));
      for (int64_t first = 0; first < length; first += kPart) {
        std::vector<Real> part(static_cast<size_t>(d_));
        for (int64_t j = first; j < std::min(first + kPart, length); ++j)
          for (int64_t x = 0; x < d_; ++x) {
            const double number = rows[(a * length + j) * d_ + x];
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
  void Weights(const RowId& id, const Query* query,
               const ReducedRows<Real>& keys, Real* weights, double* units,
               const double* query_units = nullptr) const {
    SoftmaxRow<Real> row(problem_, id.head, id.row);
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
      const RowId id{0, h, a};
      Weights(id, queries.Row(a), head.keys, &matrix[a * segments_],
              &matrix_units[a * segments_], queries.Units(a));
      SoftmaxRow<Real> row(problem_, h, a);
      for (int64_t j = 0; j < n_; ++j)
        row.See(j, ScoreOf(queries.Row(a), queries.Units(a), k + j * d_,
                           static_cast<const double*>(nullptr)));
      row.Write(
          e_, [&](int64_t j) { return v + j * e_; }, &values[a * e_],
          &value_units[a * e_]);
    }
    const NystromInverse<Real> inverse(matrix, segments_,
                                       problem_.params.Integer("iterations"));
    double matrix_norm = 0;
    for (double value : matrix_units) matrix_norm += value * value;
    head.z_norm = inverse.norm();
    head.z_units = inverse.Units(std::sqrt(matrix_norm),
                                 Info(problem_.scalar).unit_roundoff);
    for (size_t c = 0; c < width; ++c) {
      for (size_t a = 0; a < size; ++a) {
        const auto value = static_cast<double>(values[a * width + c]);
        head.value_norms[c] += value * value;
        head.value_units[c] +=
            value_units[a * width + c] * value_units[a * width + c];
        for (size_t b = 0; b < size; ++b)
          head.mixed[a * width + c] +=
              inverse.z()[a * size + b] * values[b * width + c];
      }
      head.value_norms[c] = std::sqrt(head.value_norms[c]);
      head.value_units[c] = std::sqrt(head.value_units[c]);
    }
    return head;
  }

  const Problem& problem_;
  const Tensor& q_;
  const int64_t n_, d_, e_, segments_;
  const Real scale_;
  std::vector<Head> heads_;
};

class NystromAttention final : public OperatorWith<NystromAttentionReference> {
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

  Signature SignatureFor(const Params&, bool) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {{"q", {"n", "d"}, Role::kData, kSegments<0>},
                        {"k", {"n", "d"}, Role::kData, kSegments<1>},
                        {"v", {"n", "e"}}};
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

}  // namespace subquad
