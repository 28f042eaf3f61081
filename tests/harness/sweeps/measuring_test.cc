// Sampler, memory counter and impossible times, each with a fault that must be
// caught or recovered.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <thread>
#include <vector>

#include "harness/machine/floors.h"
#include "harness/machine/memory_counter.h"
#include "harness/sweeps/sampler.h"
#include "optimized/base/buffer.h"

namespace subquad {
namespace {

// An implementation that does nothing, in constant time: every lower bound of
// time must reject it.
TEST(Measuring, AnImplementationThatDoesNothingHasNoTime) {
  const Floors floors{1e11, 5e10, 1e11};
  const Contestant idle{"idle", [] {}, 1e-9};
  const std::vector<Sampled> results =
      SampleInTurns(std::span(&idle, 1), SamplingRule{.budget_seconds = 0.1});
  const double seconds = *std::ranges::min_element(results[0].samples);
  EXPECT_LT(seconds, 1e-6);
  const Cost cost{.flops = 1e9, .bytes = 1e7};
  for (Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    EXPECT_NE(Impossible(cost, 1, scalar, floors, seconds), "");
  // The time is impossible by its flops alone, and by its bytes alone.
  EXPECT_NE(Impossible({.flops = 1e9}, 1, Scalar::kFloat32, floors, seconds),
            "");
  EXPECT_NE(Impossible({.bytes = 1e7}, 1, Scalar::kFloat32, floors, seconds),
            "");
  // A possible time is accepted, and more threads may be faster.
  EXPECT_EQ(Impossible(cost, 1, Scalar::kFloat32, floors, 0.02), "");
  EXPECT_NE(Impossible(cost, 1, Scalar::kFloat32, floors, 0.002), "");
  EXPECT_EQ(Impossible(cost, 8, Scalar::kFloat32, floors, 0.002), "");
  // Every time is accepted if the lower bounds are unknown.
  EXPECT_EQ(Impossible(cost, 1, Scalar::kFloat32, {}, seconds), "");
  // A time of zero or below, or NaN, is always impossible.
  for (double none : {0.0, -1.0, std::nan("")})
    EXPECT_NE(Impossible(cost, 1, Scalar::kFloat32, floors, none), "") << none;
}

TEST(Floors, TimesThatNoDeviceCouldReachAreRefused) {
  const Cost cost{.flops = 1e12, .bytes = 1e10};
  DeviceInfo device;
  device.peak_flops_per_second = 1e14;
  device.peak_matrix_flops_per_second = 1e15;
  device.peak_bytes_per_second = 1e12;
  device.cache_bytes = 1'000'000'000;
  const auto why = [&](double seconds, Scalar scalar = Scalar::kFloat32) {
    return ImpossibleOnDevice(cost, device, scalar, seconds);
  };
  // Beyond the cache, 9e9 bytes take 9 ms; 1e12 operations take 10 ms, or 1 ms
  // on the tensor cores, which need 16-bit types.
  EXPECT_EQ(why(0.0102), "");
  EXPECT_NE(why(0.009), "");
  EXPECT_EQ(why(0.009, Scalar::kBFloat16), "");
  EXPECT_NE(why(0.008, Scalar::kBFloat16), "");
  device.cache_bytes = 10'000'000'000;
  EXPECT_EQ(why(0.008, Scalar::kFloat16), "");
  EXPECT_NE(why(0.0008, Scalar::kFloat16), "");
  device.peak_flops_per_second = 0;
  EXPECT_EQ(why(1e-9), "");
  EXPECT_NE(why(std::nan("")), "");
  EXPECT_NE(why(0), "");
}

TEST(Measuring, MemoryIsCountedWithinOnePercent) {
  if (!MemoryCounter::Available()) GTEST_SKIP() << "a sanitizer counts";
  for (int64_t bytes : {int64_t{1} << 16, int64_t{3000017}, int64_t{1} << 28}) {
    const PeakOf peak;
    {
      const Buffer<char> planted(bytes);
      EXPECT_NE(planted.data(), nullptr);
    }
    { const std::vector<char> smaller(static_cast<size_t>(bytes / 2)); }
    EXPECT_NEAR(static_cast<double>(peak.bytes()), static_cast<double>(bytes),
                0.01 * static_cast<double>(bytes));
  }
  const int64_t before = MemoryCounter::CurrentBytes();
  { const std::vector<double> gone(1 << 20); }
  EXPECT_NEAR(static_cast<double>(MemoryCounter::CurrentBytes() - before), 0,
              1 << 10);
}

TEST(Measuring, ASleepOfKnownLengthIsRecovered) {
  const auto sleep_for = [](double seconds) {
    return [seconds] {
      std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    };
  };
  const std::vector<Contestant> contestants = {
      {"short", sleep_for(0.004), 0.004}, {"long", sleep_for(0.02), 0.02}};
  const auto results = SampleInTurns(
      contestants, SamplingRule{.relative_width = 0.5, .budget_seconds = 1});
  // The pause is never shorter; it is longer only by the wake-up time of a busy
  // machine.
  const double lengths[] = {0.004, 0.02};
  for (size_t i = 0; i < 2; ++i) {
    EXPECT_GE(*std::ranges::min_element(results[i].samples), lengths[i]);
    EXPECT_LT(results[i].median.median, lengths[i] + 0.01);
    EXPECT_FALSE(results[i].stopped_by.empty());
  }
}

}  // namespace
}  // namespace subquad
