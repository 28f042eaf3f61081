// Feature maps phi : R^d -> R^f of kernelized attention (Katharopoulos 2020;
// FastRPB eq. 4-6 and section 3.1; NPRF eq. 4-5), applied to sqrt(scale) * x.
//
//   elu1            x+1 where x > 0, else exp(x)
//   relu            max(x, 0)
//   sikf            exp(x)
//   dpfp            u = relu([x, -x]); u[i] * u[(i + v) mod 2d], v = 1..nu
//   prf             exp(-|x|^2/2) exp(omega x)
//   prf_hyperbolic  exp(-|x|^2/2) [exp(omega x), exp(-omega x)]
//   trf             exp(+|x|^2/2) [sin(omega x), cos(omega x)]
//
// The constants 1/sqrt(f) and 1/sqrt(2p) are left out: a normalised attention
// is a quotient of two sums that are both linear in the key features and both
// linear in the query features, so a constant common to all features cancels.
//
// Range. Features reach exp(95) and exp(-2000) where the attention is an
// ordinary number. So a feature is a mantissa and an integer exponent of two,
//   feature = mantissa * 2^exponent,  |mantissa| < 2,
// and all scaling is by powers of two, which is exact.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <string>
#include <vector>

#include "reference/base/operator.h"

namespace subquad {

enum class FeatureMapId {
  kElu1,
  kRelu,
  kSikf,
  kDpfp,
  kPrf,
  kPrfHyperbolic,
  kTrf
};

// Logarithms of features beyond this are not taken: they are exponents in
// float32 too, where whole numbers end at 2^24 and exp(2^20) has no digit left.
inline constexpr double kMaxLogarithm = 1e6;

// The exponent of a feature that is zero. Others are at least -1.45e6 (see
// above), so that a sum of three (query, key, bias) of which none is zero is
// above kLeastFeatureExponent, and any with a zero in it below. Sums of three
// that count are whole numbers below 2^24, exact in float32.
inline constexpr int kZeroExponent = -(1 << 23);
inline constexpr int kLeastFeatureExponent = -4900000;

// What an operator says about its feature map.
struct FeatureMapSpec {
  FeatureMapId id = FeatureMapId::kElu1;
  int64_t d = 1;            // width of a row
  int64_t projections = 0;  // rows of omega
  int64_t nu = 0;
  double root_scale = 1;   // sqrt(scale)
  bool normalize = false;  // divide each row by its 2-norm first

  int64_t features() const {
    switch (id) {
      case FeatureMapId::kDpfp:
        return 2 * d * nu;
      case FeatureMapId::kPrf:
        return projections;
      case FeatureMapId::kPrfHyperbolic:
      case FeatureMapId::kTrf:
        return 2 * projections;
      default:
        return d;
    }
  }
  bool projects() const { return projections > 0; }
};

inline const std::vector<std::string>& FeatureMapNames() {
  static const std::vector<std::string> names = {
      "elu1", "relu", "sikf", "dpfp", "prf", "prf_hyperbolic", "trf"};
  return names;
}

inline FeatureMapId ParseFeatureMap(const std::string& name) {
  const auto& names = FeatureMapNames();
  const auto found = std::find(names.begin(), names.end(), name);
  if (found == names.end())
    throw InvalidInput("feature_map", "a feature map", "'" + name + "'");
  return static_cast<FeatureMapId>(found - names.begin());
}

// Beyond 2d the shifts of dpfp repeat themselves; the limit keeps the number of
// features in proportion to the inputs.
inline constexpr int64_t kMaxNu = 256;

inline std::vector<ParamRule> FeatureMapParams(const Params& given) {
  std::vector<ParamRule> rules = {ParamRule::Choice(
      "feature_map", "map of queries and keys", FeatureMapNames())};
  if (given.Has("feature_map") && given.Text("feature_map") == "dpfp") {
    rules.push_back(ParamRule::Integer("nu", "shifts of dpfp", 1));
    rules.back().max = kMaxNu;
  }
  return rules;
}

// Fills in what a generated case needs.
inline void CompleteFeatureMap(Params& params) {
  if (!params.Has("feature_map"))
    params.Set("feature_map", std::string("elu1"));
  if (params.Text("feature_map") == "dpfp" && !params.Has("nu"))
    params.Set("nu", int64_t{1});
  // The features of trf cancel: with rows of norm 8, as N(0, 1) draws of width
  // 64 have, the normaliser keeps no digit in float32, and with norm 1 few.
  if (params.Text("feature_map") == "trf" && !params.Has("scale"))
    params.Set("scale", 1.0 / 1024);
}

// Adds `omega` and its number of rows where the map needs it.
inline void AddOmega(const Params& params, Signature& signature) {
  const FeatureMapId id = ParseFeatureMap(params.Text("feature_map"));
  if (id < FeatureMapId::kPrf) return;
  const bool all = id == FeatureMapId::kPrf;
  signature.sizes.push_back(all ? SizeRule{"f", 64, "features"}
                                : SizeRule{"p", 32, "projections, f = 2p"});
  TensorRule omega{"omega", {all ? "f" : "p", "d"}, Role::kParameter};
  omega.draw = Draw::kProjection;
  signature.inputs.push_back(omega);
}

inline FeatureMapSpec FeatureMapOf(const Problem& problem) {
  const Params& params = problem.params;
  FeatureMapSpec spec;
  spec.id = ParseFeatureMap(params.Text("feature_map"));
  spec.d = problem.Dim("d");
  if (spec.id == FeatureMapId::kDpfp) spec.nu = params.Integer("nu");
  if (spec.id == FeatureMapId::kPrf) spec.projections = problem.Dim("f");
  if (spec.id > FeatureMapId::kPrf) spec.projections = problem.Dim("p");
  spec.root_scale =
      params.Has("scale") ? std::sqrt(params.Number("scale")) : 1.0;
  spec.normalize = params.Flag("normalize");
  return spec;
}

// exp(y) = mantissa * 2^exponent with mantissa in [1/sqrt(2), sqrt(2)]. The
// first part of ln 2 has so few bits that its product is exact: y - exponent ln
// 2 loses nothing however large y is. NaN where y is not finite.
template <typename Real>
Real SplitExp(Real y, int* exponent) {
  constexpr long double kHigh = 0x1.62e4p-1L;
  constexpr long double kLow = std::numbers::ln2_v<long double> - kHigh;
  const Real steps = std::nearbyint(y * std::numbers::log2e_v<Real>);
  *exponent = std::isfinite(steps) ? static_cast<int>(steps) : 0;
  return std::exp((y - steps * static_cast<Real>(kHigh)) -
                  steps * static_cast<Real>(kLow));
}

// What a large |y| adds to the error of SplitExp(y), in units of the roundoff:
// `steps` then has so many bits that its product with kHigh is rounded in
// float32.
inline double LargeExpUnits(double y) {
  return std::abs(y) > 350 ? 1.1 * std::abs(y) : 0;
}

// Taken from a bias before its exponential, which changes nothing in a
// normalised attention: nothing, so that nothing is rounded, unless the largest
// entry is far off.
template <typename T>
T BiasShift(const T* bias, int64_t count) {
  T largest = -std::numeric_limits<T>::infinity();
  for (int64_t t = 0; t < count; ++t) largest = std::max(largest, bias[t]);
  return std::abs(largest) > T(1e5) && std::isfinite(largest) ? largest : T{0};
}

// Entries 1e6 below are as good as equal: at 1e9 float32 counts in steps of 64.
template <typename T>
T ShiftedBias(T bias, T shift) {
  return std::clamp(bias - shift, static_cast<T>(-kMaxLogarithm),
                    static_cast<T>(kMaxLogarithm));
}

// What the size of a bias adds to the error of its exponential, in units of the
// roundoff: the difference to the shift, where there is one, is rounded too.
inline double BiasUnits(double bias, double shift) {
  const double shifted = ShiftedBias(bias, shift);
  return (shift == 0 ? 0 : std::abs(shifted)) + LargeExpUnits(shifted);
}

// What rounding does to the features of a row, in units of the unit roundoff:
//   |computed - exact| <= u (relative |feature| + absolute 2^exponent
//                            + moved[a].size 2^moved[a].exponent),
// and sine and cosine of projection a are those of an angle that is off by
// u angles[a]. The last two are what errors of x itself do, feature by feature:
// near a kink a feature is as far off as its argument, and elsewhere not at
// all. They are empty where x is exact, and for maps that have none.
struct FeatureError {
  struct Moved {
    double size = 0;
    int exponent = kZeroExponent;
  };
  double relative = 0;
  double absolute = 0;
  int exponent = kZeroExponent;
  std::vector<Moved> moved;
  std::vector<double> angles;
};

template <typename Real>
class FeatureMap {
 public:
  // omega [projections, d], or null. `roundoff` counts only for rows that are
  // not exact.
  FeatureMap(const FeatureMapSpec& spec, const double* omega,
             double roundoff = 0)
      : spec_(spec), omega_(omega), roundoff_(roundoff) {}

  // Features of one row x [d]. Returns false where the row must be normalised
  // and has no length.
  //
  // Errors. x' = root_scale * x / |x|: sqrt, norm (d products), quotient and
  // product are off by at most (d/2 + 4) u when normalised, by 2 u when only
  // scaled. A product of d terms by (d + 1) u sum |omega||x'| beside that, and
  // |x'|^2/2 likewise. An absolute error of an exponent is a relative one of
  // its exponential, and exp itself adds 3 u. sin and cos have it absolutely.
  // Where x itself is off by x_units u (null: it is exact): see Widen.
  template <typename Number>
  bool Row(const Number* x, const double* x_units, Real* mantissa,
           int* exponent, FeatureError* error) const {
    const int64_t d = spec_.d;
    std::vector<Real> row(static_cast<size_t>(d));
    if (!ScaleRow(x, row.data())) return false;
    const double scaling = spec_.normalize ? 0.5 * static_cast<double>(d) + 4
                                           : (spec_.root_scale == 1 ? 0 : 2);
    *error = FeatureError();
    double largest = 0, lowest = 0;
    for (const Real value : row) {
      largest = std::max(largest, std::abs(static_cast<double>(value)));
      lowest = std::min(lowest, static_cast<double>(value));
    }
    lowest = std::max(lowest, -kMaxLogarithm);
    switch (spec_.id) {
      case FeatureMapId::kElu1:
        for (int64_t c = 0; c < d; ++c)
          mantissa[c] =
              row[c] > 0 ? Split(row[c] + 1, &exponent[c])
                         : SplitExp(std::max(row[c],
                                             static_cast<Real>(-kMaxLogarithm)),
                                    &exponent[c]);
        error->relative =
            scaling * std::max(1.0, largest) + 4 + LargeExpUnits(lowest);
        break;
      case FeatureMapId::kRelu:
        for (int64_t c = 0; c < d; ++c)
          mantissa[c] = Split(std::max(row[c], Real{0}), &exponent[c]);
        error->relative = scaling;
        break;
      case FeatureMapId::kSikf:
        for (int64_t c = 0; c < d; ++c)
          mantissa[c] = SplitExp(Checked(row[c]), &exponent[c]);
        error->relative = scaling * largest + 4 + LargeExpUnits(largest);
        break;
      case FeatureMapId::kDpfp:
        Dpfp(row, mantissa, exponent);
        error->relative = 2 * scaling + 1;
        break;
      default:
        Random(row, scaling, mantissa, exponent, error);
    }
    if (x_units) Widen(row, x_units, error);
    return true;
  }

 private:
  static Real Split(Real value, int* exponent) {
    *exponent = value == 0 ? kZeroExponent : 0;
    return value == 0 || !std::isfinite(value) ? value
                                               : std::frexp(value, exponent);
  }

  Real Checked(Real logarithm) const {
    if (std::abs(logarithm) <= static_cast<Real>(kMaxLogarithm))
      return logarithm;
    throw InvalidInput(
        "feature_map " + FeatureMapNames()[static_cast<size_t>(spec_.id)],
        "logarithms of features of at most 1e6 in size",
        std::to_string(static_cast<double>(logarithm)));
  }

  // What errors of x add to those of the features. x'_c is off by at most u
  // t_c, and a feature g(x') by the largest change of g over [x'_c - u t_c,
  // x'_c + u t_c], whatever the size of t:
  //   relu   t_c where x'_c >= 0, what of the interval lies above 0 where not:
  //          min(t_c, max(0, t_c + x'_c / u)). Nothing where x' is firmly
  //          negative.
  //   elu1   t_c times the largest slope, exp(min(0, x'_c + u t_c)).
  //   dpfp   u_i m_k + m_i u_k + u m_i m_k, m the errors of relu in u.
  //   sikf, prf: an exponent's error y makes a relative one of expm1(u y) / u;
  //          y is t_c, or sum_c |omega_ac| t_c plus sum_c |x'_c| t_c + u t_c^2
  //          / 2 for |x'|^2/2. The largest of all features is taken.
  //   trf    the same for |x'|^2/2, and angles that are off by sum_c |omega_ac|
  //          t_c.
  void Widen(const std::vector<Real>& row, const double* x_units,
             FeatureError* error) const {
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
          int power = 0;
          const double slope =
              SplitExp(std::clamp(nearest, -kMaxLogarithm, 0.0), &power);
          error->moved.push_back(MovedBy(off[c] * slope, power));
        }
        break;
      case FeatureMapId::kRelu:
        for (size_t c = 0; c < d; ++c)
          error->moved.push_back(MovedBy(relu(c, 1), 0));
        break;
      case FeatureMapId::kDpfp: {
        // Products of u could leave the range of a double; 2^top is taken out.
        double most = largest;
        for (const Real x : row)
          most = std::max(most, std::abs(static_cast<double>(x)));
        const int top = most > 0 ? std::ilogb(most) : 0;
        std::vector<double> value(2 * d), moved(2 * d);
        for (size_t i = 0; i < 2 * d; ++i) {
          const int sign = i < d ? 1 : -1;
          const double x = sign * static_cast<double>(row[i % d]);
          value[i] = std::ldexp(std::max(0.0, x), -top);
          moved[i] = std::ldexp(relu(i % d, sign), -top);
        }
        for (int64_t v = 1; v <= spec_.nu; ++v)
          for (size_t i = 0; i < 2 * d; ++i) {
            const size_t k = (i + static_cast<size_t>(v)) % (2 * d);
            const double size = value[i] * moved[k] + moved[i] * value[k] +
                                roundoff_ * moved[i] * moved[k];
            error->moved.push_back(MovedBy(size, 2 * top));
          }
        break;
      }
      case FeatureMapId::kSikf:
        error->relative += RelativeOf(largest);
        break;
      case FeatureMapId::kTrf:
        error->relative += RelativeOf(square);
        error->angles = std::move(angles);
        break;
      default:
        error->relative += RelativeOf(
            *std::max_element(angles.begin(), angles.end()) + square);
    }
  }

  double RelativeOf(double exponent_units) const {
    return std::expm1(roundoff_ * exponent_units) / roundoff_;
  }

  // size 2^power
  static FeatureError::Moved MovedBy(double size, int power) {
    FeatureError::Moved moved;
    if (size == 0) return moved;
    moved.size = std::frexp(size, &moved.exponent);
    moved.exponent += power;
    return moved;
  }

  // The norm cannot overflow: the largest entry is taken out as a power of two.
  template <typename Number>
  bool ScaleRow(const Number* x, Real* row) const {
    Real factor = static_cast<Real>(spec_.root_scale);
    int top = 0;
    if (spec_.normalize) {
      double largest = 0;
      for (int64_t c = 0; c < spec_.d; ++c)
        largest = std::max(largest, std::abs(static_cast<double>(x[c])));
      if (largest == 0) return false;
      top = std::ilogb(largest);
      Real sum = 0;
      for (int64_t c = 0; c < spec_.d; ++c) {
        const Real value = std::ldexp(static_cast<Real>(x[c]), -top);
        sum += value * value;
      }
      factor /= std::sqrt(sum);
    }
    for (int64_t c = 0; c < spec_.d; ++c)
      row[c] = factor * std::ldexp(static_cast<Real>(x[c]), -top);
    return true;
  }

  void Dpfp(const std::vector<Real>& row, Real* mantissa, int* exponent) const {
    const int64_t twice = 2 * spec_.d;
    const auto u = [&](int64_t i, int* power) {
      return Split(std::max(i < spec_.d ? row[i] : -row[i - spec_.d], Real{0}),
                   power);
    };
    for (int64_t v = 1; v <= spec_.nu; ++v)
      for (int64_t i = 0; i < twice; ++i) {
        int first = 0, second = 0;
        const Real product = u(i, &first) * u((i + v) % twice, &second);
        mantissa[(v - 1) * twice + i] = product;
        exponent[(v - 1) * twice + i] =
            product == 0 ? kZeroExponent : first + second;
      }
  }

  void Random(const std::vector<Real>& row, double scaling, Real* mantissa,
              int* exponent, FeatureError* error) const {
    const int64_t d = spec_.d, p = spec_.projections;
    Real half_square = 0;
    for (const Real value : row) half_square += value * value / 2;
    // Partial sums of omega . x', in whatever order, lie between that of the
    // negative terms and that of the positive ones. An entry of x' is rounded
    // twice; the error of its norm is common to all, and so to the product.
    double largest = 0;  // error of omega . x' over the projections
    for (int64_t a = 0; a < p; ++a) {
      Real product = 0;
      double positive = 0, negative = 0;
      for (int64_t c = 0; c < d; ++c) {
        const Real term = static_cast<Real>(omega_[a * d + c]) * row[c];
        product += term;
        (term > 0 ? positive : negative) += std::abs(static_cast<double>(term));
      }
      largest = std::max(
          largest, (static_cast<double>(d) + 1) * std::max(positive, negative) +
                       4 * (positive + negative) +
                       scaling * std::abs(positive - negative));
      if (spec_.id == FeatureMapId::kTrf) {
        mantissa[a] = std::sin(product);
        mantissa[a + p] = std::cos(product);
      } else {
        mantissa[a] = SplitExp(Checked(product - half_square), &exponent[a]);
        if (spec_.id == FeatureMapId::kPrfHyperbolic)
          mantissa[a + p] =
              SplitExp(Checked(-product - half_square), &exponent[a + p]);
      }
    }
    const double square = (static_cast<double>(d) + 2 + 2 * scaling) *
                          static_cast<double>(half_square);
    if (spec_.id != FeatureMapId::kTrf) {
      error->relative = largest + square + 4;
      return;
    }
    int power = 0;
    const Real factor = SplitExp(Checked(half_square), &power);
    for (int64_t a = 0; a < 2 * p; ++a) {
      mantissa[a] *= factor;
      exponent[a] = power;
    }
    error->relative = square + 5;
    error->absolute = 1.5 * (largest + 1);
    error->exponent = power;
  }

  const FeatureMapSpec spec_;
  const double* omega_;
  const double roundoff_;
};

}  // namespace subquad
