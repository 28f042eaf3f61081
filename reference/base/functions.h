// The functions of a number that the definitions use. A definition calls them
// without `std::`, so that they are found for every type Real: those of
// built-in numbers here, those of Traced numbers beside that type (traced.h).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

#include "reference/base/emulated.h"

namespace subquad {

using std::abs;
using std::cos;
using std::exp;
using std::fma;
using std::frexp;
using std::hypot;
using std::ilogb;
using std::isfinite;
using std::ldexp;
using std::log;
using std::nearbyint;
using std::sin;
using std::sqrt;
using std::tanh;

// Returns the largest change of tanh(x) when x, whose magnitude is `size`, is
// off by at most `units` roundoffs, in the same units.
inline double ErrorOfTanh(double size, double units, double roundoff) {
  const double nearest = std::max(0.0, size - units * roundoff);
  const double tangent = std::tanh(nearest);
  return units * (1 - tangent) * (1 + tangent);
}

// Returns a number whose value does not change the result, such as the largest
// score of a softmax: it has no derivative, and its error does not count.
template <typename Real>
Real AsConstant(const Real& number) {
  return number;
}

// Declares the numbers x [width] a row, once they have their values: then Dot,
// and AddScaledRow are recorded as one operation.
template <typename Real>
void AsRow(Real* /*x*/, int64_t /*width*/) {}

// Returns sum_a x_a y_a.
template <typename Real, typename X, typename Y>
Real Dot(const X* x, const Y* y, int64_t width) {
  if constexpr (requires { Real::Dot(x, y, width); })
    return Real::Dot(x, y, width);
  Real sum = 0;
  for (int64_t a = 0; a < width; ++a)
    sum += static_cast<Real>(x[a]) * static_cast<Real>(y[a]);
  return sum;
}

// Computes sums [width] += factor * row.
template <typename Real, typename Number>
void AddScaledRow(Real* sums, const Real& factor, const Number* row,
                  int64_t width) {
  if constexpr (requires { Real::AddScaledRow(sums, factor, row, width); })
    return Real::AddScaledRow(sums, factor, row, width);
  for (int64_t c = 0; c < width; ++c)
    sums[c] += factor * static_cast<Real>(row[c]);
}

// True for numbers that carry bounds of their errors, so that a definition need
// not compute them.
template <typename Real>
inline constexpr bool kCarriesBounds = requires(Real x) {
  x.Error();
};

// Marks the sum by which a mean divides, so that gradients can be made that
// take it for a constant (Problem::detaches_normalisers).
template <typename Real>
Real Divisor(const Real& sum) {
  return sum;
}

}  // namespace subquad
