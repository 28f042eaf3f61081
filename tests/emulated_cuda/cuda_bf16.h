// bfloat16 of the emulated device: storage and conversions.
#pragma once

#include <bit>

#include "cuda_runtime.h"

struct __nv_bfloat16 {
  uint16_t bits;
};

inline float __bfloat162float(__nv_bfloat16 value) {
  return std::bit_cast<float>(uint32_t{value.bits} << 16);
}

inline __nv_bfloat16 __float2bfloat16(float value) {
  const auto bits = std::bit_cast<uint32_t>(value);
  if (value != value) return {0x7FFF};
  // Adds half of the discarded part, and one less where that makes the tie
  // even.
  return {static_cast<uint16_t>((bits + 0x7FFF + (bits >> 16 & 1)) >> 16)};
}
