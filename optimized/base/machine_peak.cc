#include "optimized/base/machine_peak.h"

#include <hwy/highway.h>

#include <algorithm>
#include <chrono>

namespace subquad {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Twelve independent sums hide the latency of a multiply-add and fit into
// sixteen registers.
template <typename T>
double FlopsPerSecond() {
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

}  // namespace

double MeasureFlopsPerSecond(bool float64) {
  return float64 ? FlopsPerSecond<double>() : FlopsPerSecond<float>();
}

}  // namespace subquad
