// Bounds of the rounding errors of features, for feature_map.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/base/functions.h"
#include "reference/kernelized/feature_map.h"

namespace subquad {

// Returns how much a large |y| adds to the error of SplitExp(y), in units of
// the roundoff: the number of steps then has so many bits that its product with
// the first part of ln 2 is rounded in float32.
inline double LargeExpUnits(double y) {
  return std::abs(y) > 350 ? 1.1 * std::abs(y) : 0;
}

// The error of an exponent from which on the exponential has no correct digit.
// exp(600) is still in the range of a double.
inline constexpr double kNoDigit = 600;

// Returns the relative error, in units of the roundoff, of an exponential whose
// exponent is off by `exponent_units`; limited to the range of a double.
inline double RelativeUnits(double exponent_units, double roundoff) {
  return std::expm1(std::min(roundoff * exponent_units, kNoDigit)) / roundoff;
}

// True if the exponential may have any value.
inline bool HasNoDigit(double exponent_units, double roundoff) {
  return !(roundoff * exponent_units < kNoDigit);
}

// Rounding errors of the features of a row, in units of the unit roundoff:
//   |computed - exact| <= u (relative |feature| + absolute + moved[a]),
// and the sine and cosine of projection a are those of an angle that is off by
// u angles[a]. The last two describe errors of x itself, feature by feature:
// near a kink a feature is as far off as its argument, and elsewhere not at
// all. They are empty if x is exact, and for maps without such errors.
struct FeatureError {
  double relative = 0;
  Scaled<double> absolute;
  std::vector<Scaled<double>> moved;
  std::vector<double> angles;
};

template <typename Real>
class FeatureErrors {
 public:
  // `omega` is [projections, d] or null. `roundoff` is only used for rows that
  // are not exact.
  FeatureErrors(const FeatureMapSpec& spec, const double* omega,
                double roundoff = 0)
      : spec_(spec), omega_(omega), roundoff_(roundoff), map_(spec, omega) {
    if (!omega) return;
    for (int64_t c = 0; c < spec.d; ++c)
      for (int64_t a = 0; a < spec.projections; ++a)
        columns_.push_back(static_cast<Real>(omega[a * spec.d + c]));
  }

  // Returns the error of a row x [d] whose features exist.
  //
  // x' = root_scale * x / |x|: sqrt, norm (d products), quotient and product
  // are off by at most (d/2 + 4) u when normalised, by 2 u when only scaled. A
  // product of d terms adds (d + 1) u sum |omega||x'|, and |x'|^2/2 likewise.
  // An absolute error of an exponent is a relative error of its exponential,
  // and exp itself adds 3 u. sin and cos have that error absolutely. If x
  // itself is off by x_units u (null: x is exact): see Widen.
  template <typename Number>
  FeatureError Row(const Number* x, const double* x_units) const {
    std::vector<Real> row;
    map_.Scale(x, row);
    const double scaling = spec_.normalize
                               ? 0.5 * static_cast<double>(spec_.d) + 4
                               : (spec_.root_scale == 1 ? 0 : 2);
    double largest = 0, lowest = 0;
    for (const Real value : row) {
      largest = std::max(largest, std::abs(static_cast<double>(value)));
      lowest = std::min(lowest, static_cast<double>(value));
    }
    lowest = std::max(lowest, -kMaxLogarithm);
    FeatureError error;
    switch (spec_.id) {
      case FeatureMapId::kElu1:
        error.relative =
            scaling * std::max(1.0, largest) + 4 + LargeExpUnits(lowest);
        break;
      case FeatureMapId::kRelu:
      case FeatureMapId::kIdentity:
        error.relative = scaling;
        break;
      case FeatureMapId::kSikf:
        error.relative = scaling * largest + 4 + LargeExpUnits(largest);
        break;
      case FeatureMapId::kDpfp:
        error.relative = 2 * scaling + 1;
        break;
      default:
        Random(row, scaling, error);
    }
    if (x_units) Widen(row, x_units, error);
    return error;
  }

 private:
  // Partial sums of omega . x', in any order, lie between the sum of the
  // negative terms and that of the positive terms. An entry of x' is rounded
  // twice; the error of its norm is common to all entries, and so to the
  // product.
  void Random(const std::vector<Real>& row, double scaling,
              FeatureError& error) const {
    const double d = static_cast<double>(spec_.d);
    // Computes all projections side by side: their signs are unpredictable, and
    // a branch on each would take most of the time of a bound.
    const auto projections = static_cast<size_t>(spec_.projections);
    std::vector<double> positive(projections), negative(projections);
    const Real* column = columns_.data();
    for (const Real value : row) {
      for (size_t a = 0; a < projections; ++a) {
        const double term = static_cast<double>(column[a] * value);
        positive[a] += std::max(term, 0.0);
        negative[a] += std::max(-term, 0.0);
      }
      column += projections;
    }
    double largest = 0;  // error of omega . x' over the projections
    for (size_t a = 0; a < projections; ++a)
      largest =
          std::max(largest, (d + 1) * std::max(positive[a], negative[a]) +
                                4 * (positive[a] + negative[a]) +
                                scaling * std::abs(positive[a] - negative[a]));
    const Real half_square = map_.HalfSquare(row);
    const double square =
        (d + 2 + 2 * scaling) * static_cast<double>(half_square);
    if (spec_.id != FeatureMapId::kTrf) {
      error.relative = largest + square + 4;
      return;
    }
    error.relative = square + 5;
    error.absolute = {1.5 * (largest + 1), SplitExp(half_square).exponent};
  }

  // Adds the errors of x to those of the features. x'_c is off by at most u
  // t_c, and a feature g(x') by the largest change of g over [x'_c - u t_c,
  // x'_c + u t_c], for any t:
  //   relu   t_c where x'_c >= 0, otherwise the part of the interval above 0:
  //          min(t_c, max(0, t_c + x'_c / u)), which is 0 where x' is clearly
  //          negative.
  //   elu1   t_c times the largest slope, exp(min(0, x'_c + u t_c)).
  //   identity  t_c.
  //   dpfp   u_i m_k + m_i u_k + u m_i m_k, m the errors of relu in u.
  //   sikf, prf: an exponent's error y makes a relative one of expm1(u y) / u;
  //          y is t_c, or sum_c |omega_ac| t_c plus sum_c |x'_c| t_c + u t_c^2
  //          / 2 for |x'|^2/2. The largest of all features is used.
  //   trf    the same for |x'|^2/2, and angles that are off by sum_c |omega_ac|
  //          t_c.
  void Widen(const std::vector<Real>& row, const double* x_units,
             FeatureError& error) const {
    const size_t d = row.size();
    std::vector<double> off(d);  // t
    double largest = 0, square = 0;
    for (size_t c = 0; c < d; ++c) {
      off[c] = 1.01 * spec_.root_scale * x_units[c];
      largest = std::max(largest, off[c]);
      square += off[c] * (std::abs(static_cast<double>(row[c])) +
                          roundoff_ * off[c] / 2);
    }
    std::vector<double> angles(static_cast<size_t>(spec_.projections));
    for (size_t a = 0; a < angles.size(); ++a)
      for (size_t c = 0; c < d; ++c)
        angles[a] += std::abs(omega_[a * d + c]) * off[c];
    const auto relu = [&](size_t c, int sign) {
      const double x = sign * static_cast<double>(row[c]);
      return std::min(off[c], std::max(0.0, off[c] + x / roundoff_));
    };
    switch (spec_.id) {
      case FeatureMapId::kElu1:
        for (size_t c = 0; c < d; ++c) {
          const double nearest =
              static_cast<double>(row[c]) + roundoff_ * off[c];
          error.moved.push_back(
              Split(off[c]) *
              SplitExp(std::clamp(nearest, -kMaxLogarithm, 0.0)));
        }
        break;
      case FeatureMapId::kRelu:
        for (size_t c = 0; c < d; ++c) error.moved.push_back(Split(relu(c, 1)));
        break;
      case FeatureMapId::kIdentity:
        for (size_t c = 0; c < d; ++c) error.moved.push_back(Split(off[c]));
        break;
      case FeatureMapId::kDpfp: {
        // Products of u could leave the range of a double, so 2^top is factored
        // out.
        double largest_x = largest;
        for (const Real x : row)
          largest_x = std::max(largest_x, std::abs(static_cast<double>(x)));
        const int top = largest_x > 0 ? ilogb(largest_x) : 0;
        std::vector<double> value(2 * d), moved(2 * d);
        for (size_t i = 0; i < 2 * d; ++i) {
          const int sign = i < d ? 1 : -1;
          const double x = sign * static_cast<double>(row[i % d]);
          value[i] = ldexp(std::max(0.0, x), -top);
          moved[i] = ldexp(relu(i % d, sign), -top);
        }
        for (int64_t v = 1; v <= spec_.nu; ++v)
          for (size_t i = 0; i < 2 * d; ++i) {
            const size_t k = (i + static_cast<size_t>(v)) % (2 * d);
            const double size = value[i] * moved[k] + moved[i] * value[k] +
                                roundoff_ * moved[i] * moved[k];
            error.moved.push_back(Split(size) * Scaled<double>{1, 2 * top});
          }
        break;
      }
      case FeatureMapId::kSikf:
        error.relative += RelativeOf(largest);
        break;
      case FeatureMapId::kTrf:
        error.relative += RelativeOf(square);
        error.angles = std::move(angles);
        break;
      default:
        error.relative += RelativeOf(
            *std::max_element(angles.begin(), angles.end()) + square);
    }
  }

  double RelativeOf(double exponent_units) const {
    return RelativeUnits(exponent_units, roundoff_);
  }

  const FeatureMapSpec spec_;
  const double* omega_;
  const double roundoff_;
  const FeatureMap<Real> map_;
  std::vector<Real> columns_;  // omega [d, projections]
};

}  // namespace subquad
