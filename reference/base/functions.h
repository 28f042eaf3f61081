// The functions of a number that the definitions use. A definition calls them
// without `std::`, so that they are found for every type Real: those of
// built-in numbers here, those of Traced numbers beside that type (traced.h).
#pragma once

#include <cmath>

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

// Returns a number whose value does not change the result, such as the largest
// score of a softmax: it has no derivative, and its error does not count.
template <typename Real>
Real AsConstant(const Real& number) {
  return number;
}

// Marks the sum by which a mean divides, so that gradients can be made that
// take it for a constant (Problem::detaches_normalisers).
template <typename Real>
Real Divisor(const Real& sum) {
  return sum;
}

}  // namespace subquad
