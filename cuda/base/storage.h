// Types that tensors are stored in on a device. All arithmetic is in float32.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <vector>

#include "cuda/base/check.h"
#include "reference/base/scalar.h"

namespace subquad {

template <>
constexpr Scalar ScalarOf<__nv_bfloat16>() {
  return Scalar::kBFloat16;
}
template <>
constexpr Scalar ScalarOf<__half>() {
  return Scalar::kFloat16;
}

}  // namespace subquad

namespace subquad::device {

inline const std::vector<Scalar> kDeviceScalars = {
    Scalar::kFloat32, Scalar::kBFloat16, Scalar::kFloat16};

__device__ inline float ToFloat(float value) { return value; }
__device__ inline float ToFloat(__nv_bfloat16 value) {
  return __bfloat162float(value);
}
__device__ inline float ToFloat(__half value) { return __half2float(value); }

// Rounds to nearest, ties to even.
__device__ inline void Store(float value, float* to) { *to = value; }
__device__ inline void Store(float value, __nv_bfloat16* to) {
  *to = __float2bfloat16(value);
}
__device__ inline void Store(float value, __half* to) {
  *to = __float2half(value);
}

// Returns x / sum, or zero where the sum is zero: that of a query that sees no
// key.
__device__ inline float QuotientOrZero(float x, float sum) {
  return sum == 0 ? 0.0f : x / sum;
}

// Calls f.operator()<S>() with the storage type of the scalar.
template <typename Function>
auto WithStorage(Scalar scalar, Function&& f) {
  switch (scalar) {
    case Scalar::kBFloat16:
      return f.template operator()<__nv_bfloat16>();
    case Scalar::kFloat16:
      return f.template operator()<__half>();
    case Scalar::kFloat32:
      return f.template operator()<float>();
    case Scalar::kFloat64:
      break;
  }
  throw InvalidInput("scalar", "float32, bfloat16 or float16 on a device",
                     std::string(Info(scalar).name));
}

}  // namespace subquad::device
