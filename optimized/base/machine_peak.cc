// The multiply-adds are compiled once per instruction set, and the best that
// the processor has is measured: programs choose theirs in the same way.
#include "optimized/base/machine_peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "optimized/base/buffer.h"
#include "optimized/base/highway_targets.h"
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "optimized/base/machine_peak.cc"
#include <hwy/foreach_target.h>
#include <hwy/highway.h>

#ifndef SUBQUAD_MACHINE_PEAK_ONCE
#define SUBQUAD_MACHINE_PEAK_ONCE
namespace subquad::machine_peak {

inline double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace subquad::machine_peak
#endif  // SUBQUAD_MACHINE_PEAK_ONCE

HWY_BEFORE_NAMESPACE();
namespace subquad::machine_peak::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Twelve independent sums hide the latency of a multiply-add, and fit into
// sixteen registers.
template <typename T>
double Flops() {
  const hn::ScalableTag<T> d;
  constexpr int64_t kChains = 12, kRounds = 200000;
  const auto factor = hn::Set(d, static_cast<T>(0.999999));
  double best = 1e30;
  volatile T sink = 0;
  for (int trial = 0; trial < 12; ++trial) {
    auto a = hn::Set(d, static_cast<T>(0.1 * trial)), b = hn::Add(a, factor),
         c = hn::Add(b, factor), e = hn::Add(c, factor), f = hn::Add(e, factor),
         g = hn::Add(f, factor), h = hn::Add(g, factor), i = hn::Add(h, factor),
         j = hn::Add(i, factor), k = hn::Add(j, factor), l = hn::Add(k, factor),
         m = hn::Add(l, factor);
    const double start = Seconds();
    for (int64_t round = 0; round < kRounds; ++round) {
      a = hn::MulAdd(a, factor, factor);
      b = hn::MulAdd(b, factor, factor);
      c = hn::MulAdd(c, factor, factor);
      e = hn::MulAdd(e, factor, factor);
      f = hn::MulAdd(f, factor, factor);
      g = hn::MulAdd(g, factor, factor);
      h = hn::MulAdd(h, factor, factor);
      i = hn::MulAdd(i, factor, factor);
      j = hn::MulAdd(j, factor, factor);
      k = hn::MulAdd(k, factor, factor);
      l = hn::MulAdd(l, factor, factor);
      m = hn::MulAdd(m, factor, factor);
    }
    const auto sum = hn::Add(hn::Add(hn::Add(hn::Add(a, b), hn::Add(c, e)),
                                     hn::Add(hn::Add(f, g), hn::Add(h, i))),
                             hn::Add(hn::Add(j, k), hn::Add(l, m)));
    sink = sink + hn::GetLane(sum);
    best = std::min(best, Seconds() - start);
  }
  return static_cast<double>(2 * kChains * kRounds * hn::Lanes(d)) / best;
}

double FlopsFloat() { return Flops<float>(); }
double FlopsDouble() { return Flops<double>(); }
const char* Target() { return hwy::TargetName(HWY_TARGET); }

}  // namespace subquad::machine_peak::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace subquad {
namespace machine_peak {
HWY_EXPORT(FlopsFloat);
HWY_EXPORT(FlopsDouble);
HWY_EXPORT(Target);
}  // namespace machine_peak

double MeasureFlopsPerSecond(bool float64) {
  using namespace machine_peak;  // NOLINT: what Highway declares
  return float64 ? HWY_DYNAMIC_DISPATCH(FlopsDouble)()
                 : HWY_DYNAMIC_DISPATCH(FlopsFloat)();
}

const char* InstructionsOfPeak() {
  using namespace machine_peak;  // NOLINT: what Highway declares
  return HWY_DYNAMIC_DISPATCH(Target)();
}

double MeasureCopyBandwidth(int64_t bytes) {
  Buffer<char> from(bytes), to(bytes);
  std::memset(from.data(), 1, static_cast<size_t>(bytes));
  std::memset(to.data(), 2, static_cast<size_t>(bytes));
  const int64_t rounds = std::max<int64_t>(1, (int64_t{1} << 25) / bytes);
  double best = 1e30;
  for (int trial = 0; trial < 8; ++trial) {
    const double start = machine_peak::Seconds();
    for (int64_t round = 0; round < rounds; ++round) {
      std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes));
      asm volatile("" : : "r"(to.data()) : "memory");
    }
    best = std::min(best, machine_peak::Seconds() - start);
  }
  return 2.0 * static_cast<double>(bytes * rounds) / best;
}

}  // namespace subquad
#endif  // HWY_ONCE
