// Numbers beyond the range of their type: a mantissa and a power of two.
// Scaling by powers of two is exact.
#pragma once

#include <cmath>
#include <numbers>
#include <type_traits>

#include "reference/base/functions.h"

namespace subquad {

// Logarithms beyond this are rejected: exp(2^20) keeps no digit in float32.
inline constexpr double kMaxLogarithm = 1e6;

// The exponent of zero: below that of any product of features and a bias.
inline constexpr int kZeroExponent = -(1 << 23);

// The number mantissa * 2^exponent.
template <typename Real>
struct Scaled {
  Real mantissa = 0;
  int exponent = kZeroExponent;
};

template <typename X, typename Y>
auto operator*(const Scaled<X>& x, const Scaled<Y>& y) {
  return Scaled<std::common_type_t<X, Y>>{x.mantissa * y.mantissa,
                                          x.exponent + y.exponent};
}

// Returns `value` with a mantissa in [1/2, 1), or zero.
template <typename Real>
Scaled<Real> Split(Real value) {
  Scaled<Real> split;
  if (value == 0) return split;
  split.mantissa = frexp(value, &split.exponent);
  return split;
}

// Returns exp(y) with a mantissa in [1/sqrt(2), sqrt(2)]. The first part of ln
// 2 has so few bits that its product is exact: y - exponent ln 2 loses nothing
// however large y is.
template <typename Real>
Scaled<Real> SplitExp(Real y) {
  constexpr long double kHigh = 0x1.62e4p-1L;
  constexpr long double kLow = std::numbers::ln2_v<long double> - kHigh;
  const Real steps = nearbyint(y * std::numbers::log2e_v<Real>);
  return {exp((y - steps * static_cast<Real>(kHigh)) -
              steps * static_cast<Real>(kLow)),
          isfinite(steps) ? static_cast<int>(steps) : 0};
}

}  // namespace subquad
