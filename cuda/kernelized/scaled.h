// Numbers as mantissas and powers of two on a device (see
// reference/contract/feature_range.h): features and weights may leave float32's
// range although the attention made of them does not.
#pragma once

#include <numbers>

#include "cuda/base/storage.h"
#include "reference/contract/feature_range.h"

namespace subquad::device {

// The number mantissa 2^exponent, |mantissa| < 2. Exponents add and compare as
// integers, and scaling by powers of two is exact.
struct alignas(8) Scaled {
  float mantissa;
  int exponent;
};

// Returns 2^t for t <= 127; zero below the normal range.
__device__ inline float PowerOfTwo(int t) {
  return __int_as_float((max(t, -127) + 127) << 23);
}

// Returns value 2^t, where the result is below 2, or value is zero and t may be
// anything.
__device__ inline float TimesPowerOfTwo(float value, int t) {
  return value * PowerOfTwo(min(t, 127));
}

// Returns exp(y). The first part of ln 2 is short, so that y - exponent ln 2
// loses nothing; the polynomial is accurate to less than u / 10.
__device__ inline Scaled ScaledExp(float y) {
  constexpr float kLimit = static_cast<float>(kLogarithmLimit);
  constexpr float kHigh = static_cast<float>(kLn2High);
  constexpr float kLow = static_cast<float>(std::numbers::ln2 - kLn2High);
  // Comparisons that let NaN pass: it must not turn into a small number.
  y = y < -kLimit ? -kLimit : y;
  y = y > kLimit ? kLimit : y;
  const float steps = rintf(y * std::numbers::log2e_v<float>);
  const float r = fmaf(steps, -kLow, fmaf(steps, -kHigh, y));
  float sum = 1.0f / 5040;
  sum = fmaf(sum, r, 1.0f / 720);
  sum = fmaf(sum, r, 1.0f / 120);
  sum = fmaf(sum, r, 1.0f / 24);
  sum = fmaf(sum, r, 1.0f / 6);
  sum = fmaf(sum, r, 0.5f);
  sum = fmaf(sum, r, 1.0f);
  sum = fmaf(sum, r, 1.0f);
  return {sum, static_cast<int>(steps)};
}

// Converts a value in float32's range; values below the normal range become
// zero.
__device__ inline Scaled ScaledValue(float value) {
  constexpr int kField = 0xFF << 23;
  const int bits = __float_as_int(value);
  if ((bits & kField) == 0) return {0.0f, kExponentOfZero};
  return {__int_as_float((bits & ~kField) | 127 << 23),
          ((bits & kField) >> 23) - 127};
}

}  // namespace subquad::device
