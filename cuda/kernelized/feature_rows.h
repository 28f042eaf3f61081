// Features of single rows of q or k in kernels (feature_map_spec.h), each with
// an exponent of its own.
#pragma once

#include <type_traits>

#include "cuda/base/warp.h"
#include "cuda/kernelized/scaled.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad::device {

constexpr bool Projects(FeatureMapId map) { return map >= FeatureMapId::kPrf; }

// Returns how many features come from each argument, an entry of the row or of
// its projection: one or two.
constexpr int FeaturesOfArgument(FeatureMapId map) {
  return map == FeatureMapId::kPrfHyperbolic || map == FeatureMapId::kTrf ? 2
                                                                          : 1;
}

// Calls f.operator()<id>() with the map as a constant; in a kernel too.
#pragma nv_exec_check_disable
template <typename Function>
__host__ __device__ void WithMap(FeatureMapId id, Function&& f) {
  switch (id) {
    case FeatureMapId::kElu1:
      return f.template operator()<FeatureMapId::kElu1>();
    case FeatureMapId::kRelu:
      return f.template operator()<FeatureMapId::kRelu>();
    case FeatureMapId::kIdentity:
      return;  // no kernel supports it (reference/contract/table.cc)
    case FeatureMapId::kSikf:
      return f.template operator()<FeatureMapId::kSikf>();
    case FeatureMapId::kDpfp:
      return f.template operator()<FeatureMapId::kDpfp>();
    case FeatureMapId::kPrf:
      return f.template operator()<FeatureMapId::kPrf>();
    case FeatureMapId::kPrfHyperbolic:
      return f.template operator()<FeatureMapId::kPrfHyperbolic>();
    case FeatureMapId::kTrf:
      return f.template operator()<FeatureMapId::kTrf>();
  }
}

struct RowScale {
  float factor;       // x' = factor x; factor is root_scale, or root_scale /
                      // |x|
  float half_square;  // |x'|^2 / 2
};

// Computes the scale of a row in every lane; executed by a warp. The largest
// entry's power of two is factored out, so that no square over- or underflows.
template <typename X>
__device__ inline RowScale ScaleOfRow(const X* x, int d, float root_scale,
                                      bool normalize) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  float power = 1.0f;
  if (normalize) {
    float largest = 0.0f;
    for (int c = lane; c < d; c += kWarp)
      largest = fmaxf(largest, fabsf(ToFloat(x[c])));
    power =
        PowerOfTwo(-max(ScaledValue(LargestOfLanes(largest)).exponent, -127));
  }
  float sum = 0.0f;
  for (int c = lane; c < d; c += kWarp) {
    const float value = ToFloat(x[c]) * power;
    sum = fmaf(value, value, sum);
  }
  sum = SumOfLanes(sum);
  const float square = root_scale * root_scale;
  if (normalize) return {root_scale / sqrtf(sum) * power, square / 2};
  return {root_scale, square * sum / 2};
}

// Computes features a and, if there are two, a + arguments of the argument y;
// for all maps except dpfp, whose features use two entries.
template <FeatureMapId kMap>
__device__ inline void MapArgument(
    float y, float half_square, Scaled (&features)[FeaturesOfArgument(kMap)]) {
  static_assert(kMap != FeatureMapId::kDpfp);
  if constexpr (kMap == FeatureMapId::kElu1)
    features[0] = y > 0 ? ScaledValue(y + 1) : ScaledExp(y);
  if constexpr (kMap == FeatureMapId::kRelu)
    features[0] = ScaledValue(y > 0 ? y : 0.0f);
  if constexpr (kMap == FeatureMapId::kSikf) features[0] = ScaledExp(y);
  if constexpr (kMap == FeatureMapId::kPrf ||
                kMap == FeatureMapId::kPrfHyperbolic)
    features[0] = ScaledExp(y - half_square);
  if constexpr (kMap == FeatureMapId::kPrfHyperbolic)
    features[1] = ScaledExp(-y - half_square);
  if constexpr (kMap == FeatureMapId::kTrf) {
    const Scaled size = ScaledExp(half_square);
    features[0] = {sinf(y) * size.mantissa, size.exponent};
    features[1] = {cosf(y) * size.mantissa, size.exponent};
  }
}

// A row under a map: x has its entries, or its projections omega x.
template <FeatureMapId kMap, typename X>
class MappedRow {
 public:
  static constexpr int kEach = FeaturesOfArgument(kMap);

  __device__ MappedRow(const X* x, int d, RowScale scale)
      : x_(x), d_(d), scale_(scale) {}

  __device__ void Of(int a, Scaled (&features)[kEach]) const {
    if constexpr (kMap == FeatureMapId::kDpfp) {
      const int turn = a / (2 * d_) + 1, i = a % (2 * d_);
      const Scaled first = ScaledValue(Half(i));
      const Scaled second = ScaledValue(Half((i + turn) % (2 * d_)));
      const float product = first.mantissa * second.mantissa;
      features[0] = {product, product == 0.0f
                                  ? kExponentOfZero
                                  : first.exponent + second.exponent};
    } else {
      MapArgument<kMap>(scale_.factor * ToFloat(x_[a]), scale_.half_square,
                        features);
    }
  }

 private:
  // Returns entry i of relu([x', -x']).
  __device__ float Half(int i) const {
    const float y = scale_.factor * ToFloat(x_[i < d_ ? i : i - d_]);
    return fmaxf(i < d_ ? y : -y, 0.0f);
  }

  const X* x_;
  const int d_;
  const RowScale scale_;
};

}  // namespace subquad::device
