// The parts that all operators with a softmax over scores share: the scaled dot
// product and the softmax-weighted sum of a row, each with its bound.
//
// Bound of the plain dense program, u the unit roundoff. A score that is a sum
// of d products times the scale is off by at most (d+2) u scale sum|q||k|: d
// roundings of the sum (Higham 2002, eq. 3.5), one of the scale and one of the
// product with it. Let a score be off by E_j u in all, and m the largest one. m
// itself is part of every weight of a row and cancels, whatever its error.
// exp(s_j - m) then has the relative error
//   eta_j u,  eta_j = E_j + 3 |m - s_j| + 4:
// for the difference (times log2(e) with a base-two exponential, and in several
// steps where m grows with each tile of keys: the steps add up to m - s_j) and
// the exponential's own error. With weights w_j(1+x_j), |x_j| <= exp(eta_j u) -
// 1, the quotient moves by sum w_j x_j (v_j - out) / sum w_j (1+x_j), and so by
// at most
//   sum w_j (exp(eta_j u) - 1) (|v_j| + |out|) / sum w_j exp(-eta_j u).
// Nothing is linearised, so that scores of 1e6, where the exponent alone has an
// error of order one, are still bounded; the whole error is also bounded by the
// largest |v_j|, as every computed answer lies between the values. The sums
// over n keys and the division add (n + 16) u (sum w_j |v_j| + |out|); 16 are
// for the rescaling of partial sums, once per tile of keys. A weight below the
// smallest normal number may be lost.
//
// A sink is one more weight, of a value of zero. The logarithm of the sum of
// the weights moves by at most -ln(1 - sum w_j (exp(eta_j u) - 1)), and by the
// largest eta_j u; it and the largest score, to which it is added, are rounded,
// also to base two and back.
//
// Gradients, which derivative.h derives and fast programs compute by: with g =
// dL/dout and the weights P_ij of query i,
//   dL/dv_j  = sum_i P_ij g_i
//   dL/ds_ij = P_ij (g_i.v_j - D_i),   D_i = sum_l P_il g_i.v_l = g_i.out_i
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/long_sums.h"
#include "reference/base/problem.h"
#include "reference/base/term_order.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {

// A score and the bound of its error, in units of the roundoff.
template <typename Real>
struct Score {
  Real value = 0;
  double units = 0;

  // Adds an exact term.
  Score Plus(Real term) const { return Plus(Score{term}); }

  Score Plus(const Score& other) const {
    const Real sum = value + other.value;
    return {sum, units + other.units + std::abs(static_cast<double>(sum))};
  }

  // Adds another score, and an exact term, in any order.
  Score Plus(const Score& other, Real term) const {
    const Real sum = value + other.value + term;
    if constexpr (kCarriesBounds<Real>) return {sum, 0};
    const auto size = [](Real x) { return std::abs(static_cast<double>(x)); };
    const double partial =
        std::max({size(value + other.value), size(value + term),
                  size(other.value + term)});
    return {sum, units + other.units + partial + size(sum)};
  }

  // Returns cap tanh(score / cap). The quotient is rounded, tanh is off by at
  // most 4 units in the last place, and the product is rounded.
  Score Capped(Real cap, double roundoff) const {
    const Real tangent = tanh(value / cap);
    if constexpr (kCarriesBounds<Real>) return {cap * tangent, 0};
    const auto limit = static_cast<double>(cap);
    const double size = std::abs(static_cast<double>(value)) / limit;
    const double tangent_units =
        ErrorOfTanh(size, units / limit + size, roundoff);
    return {cap * tangent,
            1.01 * limit * tangent_units +
                9.1 * limit * std::abs(static_cast<double>(tangent))};
  }
};

// Returns scale * sum_a q[a] k[a], for values of any type.
template <typename Real, typename Query, typename Key>
Score<Real> ScaledDot(const Query* q, const Key* k, int64_t d, Real scale) {
  if constexpr (kCarriesBounds<Real>) return {scale * Dot<Real>(q, k, d), 0};
  Real sum = 0;
  double magnitude = 0;
  for (int64_t a = 0; a < d; ++a) {
    const Real product = static_cast<Real>(q[a]) * static_cast<Real>(k[a]);
    sum += product;
    magnitude += std::abs(static_cast<double>(product));
  }
  return {scale * sum, 1.01 * static_cast<double>(d + 2) *
                           static_cast<double>(scale) * magnitude};
}

// The keys that one query sees. A new object is made for each row.
template <typename Real>
class SoftmaxRow {
 public:
  explicit SoftmaxRow(const Problem& problem) : problem_(problem) {}

  void See(int64_t key, Score<Real> score) { seen_.push_back({key, score}); }
  // Adds a weight exp(logit) to the normaliser, without a value.
  void AddSink(Real logit) {
    has_sink_ = true;
    sink_ = logit;
  }

  bool SeesAny() const { return !seen_.empty(); }

  // Returns the largest score or sink, as a constant.
  Real Largest() const {
    Real largest = has_sink_ ? sink_ : seen_[0].score.value;
    for (const Seen& seen : seen_)
      largest = std::max(largest, seen.score.value);
    return AsConstant(largest);
  }

  // Computes value = softmax(scores) V, where values(j) points to row j of V
  // and value_units(j) to bounds of the errors of its e values, or is null. The
  // value is zero if the query sees no key.
  template <typename Values, typename ValueUnits>
  void Write(int64_t e, const Values& values, const ValueUnits& value_units,
             Real* value, double* units) const {
    if (seen_.empty()) {
      std::fill_n(value, e, Real{0});
      if (units) std::fill_n(units, e, 0.0);
      return;
    }
    const Real largest = Largest();
    std::vector<Real> weights(seen_.size());
    const auto width = static_cast<size_t>(e);
    LongSums<Real> sums(width + 1);  // the last sum is that of the weights
    ForTerms(seen_.size(), [&](size_t at) {
      const Real weight = exp(seen_[at].score.value - largest);
      weights[at] = weight;
      sums.Add(width, weight);
      sums.AddRow(weight, values(seen_[at].key), width);
      sums.Next();
    });
    if (has_sink_) sums.Add(width, exp(sink_ - largest));
    const Real sum = Divisor(sums.Total(width));
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c) / sum;
    if (units)
      WriteUnits(e, largest, sum, weights, values, value_units, value, units);
  }

  template <typename Values>
  void Write(int64_t e, const Values& values, Real* value,
             double* units) const {
    Write(
        e, values, [](int64_t) -> const double* { return nullptr; }, value,
        units);
  }

  // Computes the logarithm of the normaliser: -inf if it has no term.
  void WriteLogSum(Real* value, double* units) const {
    if (seen_.empty() && !has_sink_) {
      *value = static_cast<Real>(-std::numeric_limits<double>::infinity());
      if (units) *units = 0;
      return;
    }
    const Real largest = Largest();
    LongSums<Real> sums(1);
    ForTerms(seen_.size(), [&](size_t at) {
      sums.Add(0, exp(seen_[at].score.value - largest));
      sums.Next();
    });
    if (has_sink_) sums.Add(0, exp(sink_ - largest));
    const Real sum = sums.Total(0);
    const Real logarithm = log(sum);
    *value = largest + logarithm;
    if (!units) return;
    WeightErrors errors(problem_.scalar);
    for (const Seen& seen : seen_)
      errors.Add(static_cast<double>(exp(seen.score.value - largest) / sum),
                 static_cast<double>(largest - seen.score.value),
                 seen.score.units);
    if (has_sink_)
      errors.Add(static_cast<double>(exp(sink_ - largest) / sum),
                 static_cast<double>(largest - sink_), 0);
    const double size = std::abs(static_cast<double>(largest)) +
                        std::abs(static_cast<double>(logarithm));
    *units = 1.01 * errors.OfLogarithm(Terms()) + 4 * size;
  }

 private:
  struct Seen {
    int64_t key;
    Score<Real> score;
  };

  // The errors of the weights of a row, in units of the roundoff.
  class WeightErrors {
   public:
    explicit WeightErrors(Scalar scalar)
        : u_(ArithmeticRoundoff(scalar)),
          lost_(scalar == Scalar::kFloat64 ? 0x1p-1021 : 0x1p-125) {}

    // Adds the weight of a score that is `gap` below the largest; returns how
    // much the weight may change.
    double Add(double weight, double gap, double score_units) {
      const double eta = score_units + 3 * gap + 4;
      const bool small = eta * u_ < 1e-3;
      double change = small ? eta * (1 + eta * u_) : std::expm1(eta * u_) / u_;
      change = weight > 0 ? weight * change : 0;
      if (gap > -std::log(lost_) - 3) change += 20 * lost_ / u_;
      moved_ += change;
      smallest_ += weight * (small ? 1 - eta * u_ : std::exp(-eta * u_));
      if (weight > 0) most_ = std::max(most_, eta);
      return change;
    }

    double moved() const { return moved_; }        // sum w (exp(eta u) - 1) / u
    double smallest() const { return smallest_; }  // sum w exp(-eta u)

    // Returns the error of the logarithm of the sum of the weights, which are
    // added in `terms` operations.
    double OfLogarithm(double terms) const {
      const double relative = (moved_ + terms) * u_;
      const double most = most_ + 2 * terms;
      return relative < 0.5 ? std::min(most, -std::log1p(-relative) / u_)
                            : most;
    }

   private:
    const double u_;
    const double lost_;  // a smaller weight may be zero
    double moved_ = 0, smallest_ = 0, most_ = 0;
  };

  // Returns the operations that add up the weights, and a few more.
  double Terms() const { return static_cast<double>(seen_.size()) + 17; }

  template <typename Values, typename ValueUnits>
  void WriteUnits(int64_t e, Real largest, Real sum,
                  const std::vector<Real>& weights, const Values& values,
                  const ValueUnits& value_units, const Real* value,
                  double* units) const {
    const double u = ArithmeticRoundoff(problem_.scalar);
    WeightErrors errors(problem_.scalar);
    if (has_sink_)
      errors.Add(static_cast<double>(exp(sink_ - largest) / sum),
                 static_cast<double>(largest - sink_), 0);
    std::vector<double> moved_values(e), sizes(e), tops(e), inherited(e);
    for (size_t s = 0; s < seen_.size(); ++s) {
      const double weight = static_cast<double>(weights[s] / sum);
      const double change = errors.Add(
          weight, static_cast<double>(largest - seen_[s].score.value),
          seen_[s].score.units);
      const auto* v = values(seen_[s].key);
      const double* v_units = value_units(seen_[s].key);
      for (int64_t c = 0; c < e; ++c) {
        const double size = std::abs(static_cast<double>(v[c]));
        moved_values[c] += change * size;
        sizes[c] += weight * size;
        tops[c] = std::max(tops[c], size + (v_units ? u * v_units[c] : 0));
        if (v_units) inherited[c] += weight * v_units[c];
      }
    }
    for (int64_t c = 0; c < e; ++c) {
      const double out = std::abs(static_cast<double>(value[c]));
      const double bound =
          (moved_values[c] + out * errors.moved()) / errors.smallest() +
          Terms() * (sizes[c] + out);
      // Both may be infinite if scores have no digit left.
      const double own =
          inherited[c] == 0 ? 0 : inherited[c] * (1 + errors.moved() * u);
      const double most = 2.1 * tops[c] / u;
      units[c] = own + bound < most ? own + 1.01 * bound : most;
    }
  }

  const Problem& problem_;
  std::vector<Seen> seen_;
  bool has_sink_ = false;
  Real sink_ = 0;
};

}  // namespace subquad
