#include "optimized/kernelized/waves.h"

#include <hwy/highway.h>

#include <algorithm>
#include <cmath>
// Must follow highway.h, which it needs.
#include <hwy/contrib/math/math-inl.h>

namespace subquad {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
inline constexpr int64_t kLanes = HWY_LANES(T);

// The largest argument of highway's functions.
constexpr double kLargest = 39000;

template <typename T>
HWY_INLINE void WriteVector(const T* angles, const T* weights, T* waves) {
  const hn::ScalableTag<T> d;
  const auto x = hn::LoadU(d, angles), w = hn::LoadU(d, weights);
  const auto limit = hn::Set(d, static_cast<T>(kLargest));
  if (hn::AllTrue(d, hn::Le(hn::Abs(x), limit))) {
    hn::StoreInterleaved2(hn::Mul(w, hn::Cos(d, x)), hn::Mul(w, hn::Sin(d, x)),
                          d, waves);
    return;
  }
  for (int64_t lane = 0; lane < kLanes<T>; ++lane) {
    waves[2 * lane] = weights[lane] * std::cos(angles[lane]);
    waves[2 * lane + 1] = weights[lane] * std::sin(angles[lane]);
  }
}

}  // namespace

template <typename T>
void WriteWaves(const T* angles, const T* weights, int64_t count, T* waves) {
  int64_t x = 0;
  for (; x + kLanes<T> <= count; x += kLanes<T>)
    WriteVector(angles + x, weights + x, waves + 2 * x);
  if (x == count) return;
  HWY_ALIGN T last[4 * kLanes<T>] = {};  // angles, weights, waves
  std::copy_n(angles + x, count - x, last);
  std::copy_n(weights + x, count - x, last + kLanes<T>);
  WriteVector(last, last + kLanes<T>, last + 2 * kLanes<T>);
  std::copy_n(last + 2 * kLanes<T>, 2 * (count - x), waves + 2 * x);
}

template void WriteWaves(const float*, const float*, int64_t, float*);
template void WriteWaves(const double*, const double*, int64_t, double*);

}  // namespace subquad
