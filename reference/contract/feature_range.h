// The range of features and of exp(bias) in fast programs, on CPU and GPU: they
// are mantissas and powers of two, as those of the definition are, but nothing
// here is taken from it, so that no mistake is in both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace subquad {

// Exponents of e are held within this: they are counted in float32 too, where
// whole numbers end at 2^24, and exp(2^20) keeps no digit.
inline constexpr double kLogarithmLimit = 1e6;

// The exponent of two of a feature that is zero. Others are at least -1.45e6,
// so that a sum of three (query, key, bias) of which none is zero is above
// kLeastExponentSum, and any with a zero in it below. Sums of three are whole
// numbers below 2^24 where they count, exact in float32.
inline constexpr int kExponentOfZero = -(1 << 23);
inline constexpr int kLeastExponentSum = -4900000;

// The first part of ln 2. It has so few bits that its product with a number of
// steps is exact; the second part is ln 2 less this.
inline constexpr double kLn2High = 0x1.62e4p-1;

// A bias is taken relative to its largest entry where that is farther off than
// kFarBias, which changes nothing in a normalised attention: float32 counts in
// steps of 64 at 1e9. Elsewhere nothing is taken out, so that nothing is
// rounded.
inline constexpr float kFarBias = 1e5f;

// What is taken from every entry of a bias.
template <typename T>
T CommonBias(const T* bias, int64_t count) {
  const T largest = *std::max_element(bias, bias + count);
  return std::abs(largest) > T{kFarBias} && std::isfinite(largest) ? largest
                                                                   : T{0};
}

}  // namespace subquad
