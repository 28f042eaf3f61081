// Ratios of times and their intervals: compared with enumeration, on noise of
// known factors, and with ties.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "reference/base/invalid_input.h"
#include "tests/harness/base/noise.h"

namespace subquad {
namespace {

// Computes the ratio as a textbook does: all ratios in a list, and all orders
// counted one by one.
Ratio RatioByEnumeration(const Samples& a, const Samples& b,
                         double confidence) {
  Samples differences;
  for (const double x : a) {
    for (const double y : b) differences.push_back(std::log(y) - std::log(x));
  }
  std::sort(differences.begin(), differences.end());
  const size_t pairs = differences.size();
  std::vector<double> orders(pairs + 1, 0.0);
  const size_t all = a.size() + b.size();
  double total = 0;
  for (unsigned subset = 0; subset < (1u << all); ++subset) {
    if (static_cast<size_t>(__builtin_popcount(subset)) != a.size()) continue;
    size_t u = 0, seen_b = 0;
    for (size_t i = 0; i < all; ++i) {
      if (subset >> i & 1) {
        u += seen_b;
      } else {
        ++seen_b;
      }
    }
    orders[u] += 1;
    total += 1;
  }
  size_t drop = 0;
  for (double below = 0; drop < pairs && (below += orders[drop]) <=
                                             total * (1 - confidence) / 2;) {
    ++drop;
  }
  Ratio result;
  result.ratio =
      std::exp((differences[(pairs - 1) / 2] + differences[pairs / 2]) / 2);
  result.interval_known = drop > 0;
  if (drop == 0) drop = 1;
  result.interval = {std::exp(differences[drop - 1]),
                     std::exp(differences[pairs - drop])};
  return result;
}

TEST(RatioTest, AgreesWithEnumeration) {
  Random random(9);
  for (const Noise& noise : AllNoise()) {
    if (noise.name == "normal") continue;  // may be negative
    for (const auto& [m, n] : std::vector<std::pair<size_t, size_t>>{
             {1, 1}, {1, 5}, {3, 4}, {4, 4}, {5, 3}, {6, 7}, {8, 8}, {12, 4}}) {
      const Samples a = Draw(noise, m, random);
      const Samples b = Draw(noise, n, random);
      for (const double confidence : {0.5, 0.8, 0.95, 0.99}) {
        const Ratio expected = RatioByEnumeration(a, b, confidence);
        const Ratio actual = RatioOfMedians(a, b, confidence);
        EXPECT_NEAR(actual.ratio / expected.ratio, 1, 1e-14);
        EXPECT_EQ(actual.interval_known, expected.interval_known);
        EXPECT_NEAR(actual.interval.low / expected.interval.low, 1, 1e-14);
        EXPECT_NEAR(actual.interval.high / expected.interval.high, 1, 1e-14);
      }
    }
  }
}

TEST(RatioTest, KnownValues) {
  const Samples a = {1, 2, 4, 8, 16, 32, 64, 128};
  Samples b = a;
  for (double& value : b) value *= 3;
  const Ratio ratio = RatioOfMedians(a, b);
  EXPECT_NEAR(ratio.ratio, 3, 1e-14);
  EXPECT_TRUE(ratio.interval_known);
  EXPECT_TRUE(Covers(ratio.interval, 3));
  const Ratio inverse = RatioOfMedians(b, a);
  EXPECT_NEAR(inverse.ratio, 1 / ratio.ratio, 1e-14);
  EXPECT_NEAR(inverse.interval.low, 1 / ratio.interval.high, 1e-14);
  EXPECT_NEAR(inverse.interval.high, 1 / ratio.interval.low, 1e-14);
  // All samples equal: a clock that is coarser than the noise.
  const Ratio same = RatioOfMedians(Samples(10, 2.0), Samples(10, 2.0));
  EXPECT_EQ(same.ratio, 1);
  EXPECT_EQ(same.interval.low, 1);
  EXPECT_EQ(same.interval.high, 1);
}

TEST(RatioTest, TooFewSamples) {
  for (size_t n = 1; n <= 12; ++n) {
    const Samples samples(n, 1.0);
    EXPECT_EQ(RatioOfMedians(samples, samples, 0.95).interval_known, n >= 4);
    EXPECT_EQ(RatioOfMedians(samples, samples, 0.9999).interval_known, n >= 9);
  }
}

// The interval contains the factor by which distributions differ, and
// differences between equals are not claimed too often. The test is discrete,
// so for few samples the coverage is a little higher than requested.
TEST(RatioTest, CoversTheFactor) {
  for (const Noise& noise : AllNoise()) {
    if (noise.name == "normal") continue;
    for (const auto& [m, n] : std::vector<std::pair<size_t, size_t>>{
             {8, 8}, {10, 10}, {10, 25}, {20, 20}, {50, 50}}) {
      for (const double factor : {1.0, 1.3}) {
        Random random(m * 100 + n);
        int covered = 0;
        constexpr int kPairs = 4000;  // standard error 0.34 %
        for (int trial = 0; trial < kPairs; ++trial) {
          const Samples a = Draw(noise, m, random);
          Samples b = Draw(noise, n, random);
          for (double& value : b) value *= factor;
          covered += Covers(RatioOfMedians(a, b).interval, factor);
        }
        const double coverage = covered / static_cast<double>(kPairs);
        EXPECT_GT(coverage, 0.94) << noise.name << " " << m << " " << n;
        EXPECT_LT(coverage, 0.975) << noise.name << " " << m << " " << n;
      }
    }
  }
}

TEST(RatioTest, FalseAlarmsWithTiesAndNarrowNoise) {
  Random random(17);
  int alarms = 0, alarms_corrected = 0;
  constexpr int kPairs = 4000;
  std::lognormal_distribution<double> lognormal(0.0, 0.02);
  for (int trial = 0; trial < kPairs; ++trial) {
    const auto draw = [&] {
      Samples samples(15);
      // A clock with ticks of 1 %.
      for (double& s : samples) s = std::round(lognormal(random) * 100) / 100;
      return samples;
    };
    const Samples a = draw();
    const Samples b = draw();
    alarms += !Covers(RatioOfMedians(a, b).interval, 1);
    alarms_corrected += !Covers(RatioOfMedians(a, b, 0.9999).interval, 1);
  }
  EXPECT_LE(alarms, kPairs * 0.06);
  EXPECT_LE(alarms_corrected, 4);
}

TEST(RatioTest, FindsARealRegression) {
  Random random(23);
  std::lognormal_distribution<double> lognormal(0.0, 0.02);
  int count = 0;
  for (int trial = 0; trial < 500; ++trial) {
    Samples a(15), b(15);
    for (double& value : a) value = lognormal(random);
    for (double& value : b) value = 1.1 * lognormal(random);
    count += RatioOfMedians(a, b, 0.9999).interval.low > 1;
  }
  EXPECT_GT(count, 490);
}

// The exact counts and the normal approximation agree where one replaces the
// other.
TEST(RatioTest, ExactAndApproximateAgree) {
  Random random(29);
  const Noise noise = AllNoise()[1];
  const Samples a = Draw(noise, 100, random);
  Samples b = Draw(noise, 101, random);
  for (const double confidence : {0.9, 0.95, 0.999}) {
    const Ratio approximate = RatioOfMedians(a, b, confidence);
    // The counts are exact without the last sample.
    const Ratio exact =
        RatioOfMedians(a, std::span<const double>(b).first(100), confidence);
    EXPECT_NEAR(approximate.interval.low / exact.interval.low, 1, 0.03);
    EXPECT_NEAR(approximate.interval.high / exact.interval.high, 1, 0.03);
  }
  int covered = 0;
  for (int trial = 0; trial < 1000; ++trial) {
    const Samples c = Draw(noise, 110, random);
    const Samples d = Draw(noise, 110, random);
    covered += Covers(RatioOfMedians(c, d).interval, 1);
  }
  EXPECT_NEAR(covered / 1000.0, 0.95, 0.02);
}

TEST(RatioTest, Refuses) {
  const Samples good = {1, 2};
  EXPECT_THROW(RatioOfMedians({}, good), InvalidInput);
  EXPECT_THROW(RatioOfMedians(good, {}), InvalidInput);
  EXPECT_THROW(RatioOfMedians(good, Samples{1, 0}), InvalidInput);
  EXPECT_THROW(RatioOfMedians(Samples{-1, 1}, good), InvalidInput);
  EXPECT_THROW(RatioOfMedians(good, Samples{1, std::nan("")}), InvalidInput);
  EXPECT_THROW(RatioOfMedians(good, good, 1.0), InvalidInput);
}

TEST(RatioTest, AlternatingCancelsCommonSlowdowns) {
  // The machine slows down more and more, for both by the same factor.
  const Samples a = {1, 2, 4, 8, 16, 32, 64};
  Samples b = a;
  for (double& value : b) value *= 3;
  const Ratio turns = RatioInTurns(a, b), apart = RatioOfMedians(a, b);
  for (double value : {turns.ratio, turns.interval.low, turns.interval.high})
    EXPECT_NEAR(value, 3, 1e-12);
  EXPECT_TRUE(turns.interval_known);
  EXPECT_GT(apart.interval.high / apart.interval.low, 10);
  EXPECT_THROW(RatioInTurns(a, Samples{1, 2}), InvalidInput);
  EXPECT_THROW(RatioInTurns(Samples{1, -1}, Samples{1, 2}), InvalidInput);
  EXPECT_THROW(RatioInTurns(Samples{}, Samples{}), InvalidInput);
}

}  // namespace
}  // namespace subquad
