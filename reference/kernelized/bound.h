// The bound of the rounding error of a row of kernelized attention (value.h) as
// the plain dense program computes it, in units of the unit roundoff u.
//
// Products and sums. A weight w_ij = c_ij sum_a phi_a(q) phi_a(k) is off by
//   (f + 12) u m_ij,  m_ij = c_ij sum_a |phi_a(q) phi_a(k)|
// to first order, and each of the two sums over n keys adds n u times the sum
// of magnitudes; the quotient N / D turns this into (dN + |out| dD) / |D|.
//
// Features and c. Each is computed once and used in both numerator and
// normaliser, so that an error e_ij of a weight moves the quotient by e_ij (v_j
// - out) / D only. Relative errors of features (feature_errors.h) and of exp(b)
// are mostly those of exponents,
//   r = rel_q + rel_k + BiasUnits(b),
// and multiply the weight by up to exp(u r). That is 1 + u r unless exponents
// are in the millions; and there one key usually outweighs all others, so that
// v_j = out, except with eps or unnormalised. e_ij is the sum of
//   (exp(u r) - 1) / u m_ij
//   exp(u r) c_ij (abs_q |phi(k)|_1 + abs_k |phi(q)|_1)   absolute (trf only)
// and, where q and k are themselves computed (SPE), of
//   exp(u r) c_ij
//       sum_a |phi_a(q)| m_a(k) + m_a(q) |phi_a(k)| + u m_a(q) m_a(k)
// for features that are off by u m_a. Angles y and z of trf that are off by u t
// and u s count together: sine and cosine of one projection add F cos(y - z) to
// a pair, which moves by at most
//   F (|sin(y - z)| (t + s) + u (t + s)^2 / 2) u,
// and not by F (t + s) u, so that angles near each other, the heaviest weights,
// are good to the second order.
//
// Underflow. Implementations store features and weights relative to the largest
// that a query sees, at a scale that may be off by 2^42, and may flush values
// below the normal range: each of f products of a weight may be off by 2^42
// times the smallest normal number, relative to the largest.
//
// All together, with dD the whole error of D:
//   |error| <= (sum_j (f + n + 12) u m_ij (|v_j| + |out|)
//               + sum_j e_ij |v_j - out|) / (|D| - dD).
//
// With eps, and unnormalised, the scale matters: nothing is promised where a
// weight may be off by exp(kNoDigit), or where an entry of the bias is beyond
// the range of logarithms that value.h keeps.
//
// With eps, D + eps replaces D: N / (D + eps) moves by e_ij of a weight as
// above, and the sum D + eps, the larger scale of both, the constant of the
// features and a shift of the bias add 6 u |out|. Unnormalised, the error of
// out is that of N,
//   |error| <= sum_j ((f + n + 12) u m_ij + e_ij) |v_j|,
// and by the same 6 u |out|. Such outputs may have any size, so that values
// below the smallest normal number may be lost in both.
#pragma once

#include <limits>
#include <vector>

#include "reference/base/functions.h"
#include "reference/kernelized/feature_errors.h"
#include "reference/kernelized/value.h"

namespace subquad {

// Returns how much the size of a bias adds to the error of its exponential, in
// units of the roundoff. If the bias is shifted, the difference to the shift is
// rounded too.
inline double BiasUnits(double bias, double shift, const Normaliser& form) {
  const double shifted = ShiftedBias(bias, shift);
  if (!form.is_plain() && (std::abs(bias) > kMaxLogarithm ||
                           std::abs(bias - shift) > kMaxLogarithm))
    return std::numeric_limits<double>::infinity();
  return (shift == 0 ? 0 : std::abs(shifted)) + LargeExpUnits(shifted);
}

template <typename Real>
class KernelizedBound {
 public:
  KernelizedBound(const Problem& problem, const Inputs& inputs,
                  const KernelizedValue<Real>& value)
      : value_(value),
        spec_(FeatureMapOf(problem)),
        v_(inputs["v"]),
        e_(problem.Dim("e")),
        f_(spec_.features()),
        roundoff_(ArithmeticRoundoff(problem.scalar)),
        smallest_(SmallestNormal(ArithmeticOf(problem.scalar))) {
    for (int64_t head = 0; head < problem.heads; ++head) {
      errors_.emplace_back(
          spec_, spec_.projects() ? inputs["omega"].Head(head) : nullptr,
          roundoff_);
      keys_.emplace_back();
      for (int64_t j = 0; j < value.KeyCount(head); ++j)
        keys_.back().push_back(
            ErrorsOf(value.keys(), head, j, value.Key(head, j)));
    }
    if (!problem.HasInput("bias")) return;
    const Tensor& bias = inputs["bias"];
    for (int64_t slice = 0; slice < bias.slices.count(); ++slice) {
      const double* b = bias.Slice(slice);
      for (const SequenceBias& part :
           SequenceBiases(problem, value.visible(),
                          {b, static_cast<size_t>(bias.SliceSize())})) {
        bias_units_.push_back({part.first, {}});
        for (int64_t t = part.first; t < part.first + part.count; ++t)
          bias_units_.back().units.push_back(
              isfinite(b[t]) ? BiasUnits(b[t], part.shift, value.normaliser())
                             : 0);
      }
    }
  }

  // Writes the bound of out_i [e], given out_i and its normaliser.
  void Row(int64_t head, int64_t i, const Real* out,
           const Scaled<Real>& normaliser, double* units) const {
    if (value_.SeesNothing(head, i)) {
      std::fill_n(units, e_, 0.0);
      return;
    }
    const FeatureRow<Real> phi_q = value_.Query(head, i);
    const RowErrors q = ErrorsOf(value_.queries(), head, i, phi_q);
    // Converts a number to the normaliser's scale.
    const auto at = [&](const Scaled<Real>& x) {
      return static_cast<double>(
          ldexp(x.mantissa, x.exponent - normaliser.exponent));
    };
    const auto first = static_cast<size_t>(value_.First(head, i)),
               end = static_cast<size_t>(value_.End(head, i));
    std::vector<double> m(end), moved(end);  // m_ij and e_ij
    double largest = 0;
    for (size_t j = first; j < end; ++j) {
      const int64_t key = static_cast<int64_t>(j);
      const Scaled<Real> c = value_.C(head, i, key);
      if (c.mantissa == 0) continue;
      const RowErrors& k = keys_[static_cast<size_t>(head)][j];
      const FeatureRow<Real>& phi_k = value_.Key(head, key);
      m[j] = at(c * SumOverFeatures(phi_q, phi_k, Magnitude));
      const double exponents =
          q.relative + k.relative + BiasUnitsOf(head, i, key);
      const double relative = RelativeUnits(exponents, roundoff_);
      moved[j] = at(c * k.absolute * q.norm) + at(c * q.absolute * k.norm);
      if (!q.moved.values.empty())
        moved[j] +=
            at(c * SumOverFeatures(phi_q, k.moved, Magnitude)) +
            at(c * SumOverFeatures(q.moved, phi_k, Magnitude)) +
            roundoff_ * at(c * SumOverFeatures(q.moved, k.moved, Magnitude));
      if (!q.angles.empty())
        moved[j] += at(c * MovedByAngles(q, phi_q, k, phi_k));
      moved[j] += relative * (m[j] + roundoff_ * moved[j]);
      if (!value_.normaliser().is_plain() && HasNoDigit(exponents, roundoff_))
        moved[j] = std::numeric_limits<double>::infinity();
      largest = std::max(largest, m[j]);
    }

    const double terms =
        static_cast<double>(f_) + static_cast<double>(end) + 12;
    const double lost =
        static_cast<double>(f_) * largest * smallest_ * 0x1p42 / roundoff_;
    const double* v = v_.Head(head);
    const Normaliser& form = value_.normaliser();
    std::vector<double> numerator(static_cast<size_t>(e_));
    double sums = 0, all = 0;  // errors of D: from products and sums, and from
                               // all sources
    for (size_t j = first; j < end; ++j) {
      if (value_.C(head, i, static_cast<int64_t>(j)).mantissa == 0) continue;
      sums += terms * m[j];
      all += terms * m[j] + moved[j] + lost;
      for (size_t x = 0; x < numerator.size(); ++x) {
        const double v_j = v[j * numerator.size() + x];
        const double common = form.normalized ? static_cast<double>(out[x]) : 0;
        numerator[x] += terms * m[j] * std::abs(v_j);
        if (v_j != common)
          numerator[x] += (moved[j] + lost) * std::abs(v_j - common);
      }
    }
    if (!form.normalized) sums = all = 0;
    const double size = std::abs(static_cast<double>(normaliser.mantissa)) -
                        1.02 * roundoff_ * all;
    const double scaling = form.is_plain() ? 2 : 8;
    const double below = form.is_plain() ? 0 : smallest_ / roundoff_;
    for (size_t x = 0; x < numerator.size(); ++x) {
      const double value = std::abs(static_cast<double>(out[x]));
      units[x] = size > 0 ? 1.02 * (numerator[x] + value * sums) / size +
                                scaling * value + below
                          : std::numeric_limits<double>::infinity();
    }
  }

 private:
  // FeatureError with the values derived from it: |phi|_1, and m_a as features.
  struct RowErrors {
    double relative;
    Scaled<Real> absolute, norm;
    FeatureRow<Real> moved;
    std::vector<double> angles;
  };

  // The errors of exp(bias) for the entries of one sequence from `first` on.
  struct UnitsOfPart {
    int64_t first;
    std::vector<double> units;
  };

  static Real Magnitude(Real x, Real y) { return abs(x * y); }

  RowErrors ErrorsOf(const typename KernelizedValue<Real>::Source& from,
                     int64_t head, int64_t row,
                     const FeatureRow<Real>& phi) const {
    const FeatureErrors<Real>& errors = errors_[static_cast<size_t>(head)];
    FeatureError error;
    if (from.tensor) {
      error = errors.Row(from.tensor->Head(head) + row * spec_.d, nullptr);
    } else {
      std::vector<Real> x(static_cast<size_t>(spec_.d));
      std::vector<double> units(x.size());
      from.compute(head, row, x.data(), units.data());
      error = errors.Row(x.data(), units.data());
    }
    RowErrors row_errors = {
        error.relative,
        {static_cast<Real>(error.absolute.mantissa), error.absolute.exponent},
        {0, phi.top},
        FeatureRow<Real>(error.moved),
        std::move(error.angles)};
    for (size_t a = 0; a < phi.values.size(); ++a)
      row_errors.norm.mantissa += ldexp(abs(phi.values[a]), phi.Power(a));
    return row_errors;
  }

  // The features of trf have one common exponent, so that no row has powers.
  Scaled<Real> MovedByAngles(const RowErrors& q, const FeatureRow<Real>& phi_q,
                             const RowErrors& k,
                             const FeatureRow<Real>& phi_k) const {
    const size_t p = q.angles.size();
    const std::vector<Real>&x = phi_q.values, &y = phi_k.values;
    const double factor =
        static_cast<double>(hypot(x[0], x[p]) * hypot(y[0], y[p]));
    double moved = 0;
    for (size_t a = 0; a < p; ++a) {
      const double angle = q.angles[a] + k.angles[a];
      const double sine =
          std::abs(static_cast<double>(x[a] * y[a + p] - x[a + p] * y[a]));
      moved += angle * (sine + factor * roundoff_ * angle / 2);
    }
    return {static_cast<Real>(moved), phi_q.top + phi_k.top};
  }

  double BiasUnitsOf(int64_t head, int64_t i, int64_t j) const {
    if (bias_units_.empty()) return 0;
    const UnitsOfPart& part = bias_units_[value_.BiasPart(head, i)];
    return part.units[static_cast<size_t>(value_.BiasIndex(i, j) - part.first)];
  }

  const KernelizedValue<Real>& value_;
  const FeatureMapSpec spec_;
  const Tensor& v_;
  const int64_t e_, f_;
  const double roundoff_, smallest_;
  std::vector<FeatureErrors<Real>> errors_;
  std::vector<std::vector<RowErrors>> keys_;  // [heads][keys]
  std::vector<UnitsOfPart> bias_units_;       // [slices][sequences], or empty
};

}  // namespace subquad
