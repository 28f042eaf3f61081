// The range of features and of exp(bias) in fast implementations, on CPU and
// GPU. Like the definition they use mantissas and powers of two, but share no
// code with it, so that no mistake can be in both.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>

namespace subquad {

// Limits exponents of e: they are counted in float32 too, where integers are
// exact up to 2^24, and exp(2^20) keeps no digit.
inline constexpr double kLogarithmLimit = 1e6;

// The power of two that marks a feature of zero. Other exponents are at least
// -1.45e6, so that a sum of three (query, key, bias), none of them zero, is
// above kLeastExponentSum, and a sum with a zero in it is below. Sums of three
// that matter are integers below 2^24, exact in float32.
inline constexpr int kExponentOfZero = -(1 << 23);
inline constexpr int kLeastExponentSum = -4900000;

// The first part of ln 2, with so few bits that its product with a number of
// steps is exact; the second part is ln 2 minus the first.
inline constexpr double kLn2High = 0x1.62e4p-1;

// A bias is shifted by its largest entry if that exceeds kFarBias, which
// changes nothing in a normalised attention: near 1e9, float32 values are 64
// apart. Smaller biases are not shifted, so that nothing is rounded.
inline constexpr float kFarBias = 1e5f;

// Returns the shift that is subtracted from every entry of a bias.
template <typename T>
T CommonBias(const T* bias, int64_t count) {
  const T largest = *std::max_element(bias, bias + count);
  return std::abs(largest) > T{kFarBias} && std::isfinite(largest) ? largest
                                                                   : T{0};
}

}  // namespace subquad
