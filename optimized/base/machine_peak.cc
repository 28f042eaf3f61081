#include "optimized/base/machine_peak.h"

#include <algorithm>
#include <chrono>
#include <cstring>

#include "optimized/base/buffer.h"

namespace subquad {
namespace {

double Seconds() {
  return std::chrono::duration<double>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

#if defined(__AVX512F__)
constexpr int kVectorBytes = 64;
#elif defined(__AVX__)
constexpr int kVectorBytes = 32;
#else
constexpr int kVectorBytes = 16;
#endif

// Enough independent chains to hide the latency of a multiply-add.
template <typename T>
double Flops() {
  typedef T Vector __attribute__((vector_size(kVectorBytes)));
  constexpr int kChains = 12;
  constexpr int64_t kRounds = 200000;
  const Vector factor = Vector{} + static_cast<T>(0.999999);
  Vector sums[kChains] = {};
  double best = 1e30;
  for (int trial = 0; trial < 12; ++trial) {
    const double start = Seconds();
    Vector local[kChains];
    for (int c = 0; c < kChains; ++c)
      local[c] = sums[c] + static_cast<T>(0.1 * c);
    for (int64_t round = 0; round < kRounds; ++round)
#pragma GCC unroll 12
      for (int c = 0; c < kChains; ++c) local[c] = local[c] * factor + factor;
    for (int c = 0; c < kChains; ++c) sums[c] += local[c];
    best = std::min(best, Seconds() - start);
  }
  volatile T sink = 0;
  for (const Vector& sum : sums) sink = sink + sum[0];
  return 2.0 * kChains * (kVectorBytes / static_cast<double>(sizeof(T))) *
         kRounds / best;
}

}  // namespace

double MeasureFlopsPerSecond(bool float64) {
  return float64 ? Flops<double>() : Flops<float>();
}

double MeasureCopyBandwidth(int64_t bytes) {
  Buffer<char> from(bytes), to(bytes);
  std::memset(from.data(), 1, static_cast<size_t>(bytes));
  std::memset(to.data(), 2, static_cast<size_t>(bytes));
  const int64_t rounds = std::max<int64_t>(1, (int64_t{1} << 25) / bytes);
  double best = 1e30;
  for (int trial = 0; trial < 8; ++trial) {
    const double start = Seconds();
    for (int64_t round = 0; round < rounds; ++round) {
      std::memcpy(to.data(), from.data(), static_cast<size_t>(bytes));
      asm volatile("" : : "r"(to.data()) : "memory");
    }
    best = std::min(best, Seconds() - start);
  }
  return 2.0 * static_cast<double>(bytes * rounds) / best;
}

}  // namespace subquad
