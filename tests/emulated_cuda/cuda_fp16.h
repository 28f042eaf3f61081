// float16 of the emulated device: storage and conversions.
#pragma once

#include "cuda_runtime.h"

#ifdef __aarch64__  // where GCC 12 supports _Float16 in C only
using EmulatedFloat16 = __fp16;
#else
using EmulatedFloat16 = _Float16;
#endif

struct __half {
  EmulatedFloat16 value;
};

inline float __half2float(__half value) {
  return static_cast<float>(value.value);
}
inline __half __float2half(float value) {
  return {static_cast<EmulatedFloat16>(value)};
}
