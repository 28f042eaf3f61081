#include "optimized/base/copy_bandwidth.h"

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

}  // namespace

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
