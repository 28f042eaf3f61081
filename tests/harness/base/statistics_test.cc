#include "harness/base/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numbers>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "reference/base/invalid_input.h"
#include "tests/harness/base/noise.h"

namespace subquad {
namespace {

// --- median ---------------------------------------------------------------

TEST(MedianTest, KnownValues) {
  EXPECT_EQ(MedianWithInterval(Samples{3, 1, 2}).median, 2);
  EXPECT_EQ(MedianWithInterval(Samples{4, 1, 3, 2}).median, 2.5);
  EXPECT_EQ(MedianWithInterval(Samples{7}).median, 7);

  // Ten samples: depth 2 covers 1 - 2 * 11/1024 = 97.85 %, depth 3 covers
  // 1 - 2 * 56/1024 = 89.06 %; by hand share = 0.3244, weight = 0.6577.
  Samples ten(10);
  for (size_t i = 0; i < 10; ++i) ten[i] = static_cast<double>(i + 1);
  const Median result = MedianWithInterval(ten, 0.95);
  EXPECT_TRUE(result.interval_known);
  EXPECT_NEAR(result.interval.low, 2 + 0.6577, 5e-4);
  EXPECT_NEAR(result.interval.high, 9 - 0.6577, 5e-4);

  // If the confidence level is exactly the coverage of an interval between two
  // samples, these samples are its ends, without interpolation.
  const Median exact = MedianWithInterval(ten, 1 - 2 * 11.0 / 1024);
  EXPECT_NEAR(exact.interval.low, 2, 1e-9);
  EXPECT_NEAR(exact.interval.high, 9, 1e-9);
}

TEST(MedianTest, TooFewSamplesForAnInterval) {
  for (size_t n = 1; n <= 20; ++n) {
    Samples samples(n);
    for (size_t i = 0; i < n; ++i) samples[i] = static_cast<double>(n - i);
    const Median at95 = MedianWithInterval(samples, 0.95);
    EXPECT_EQ(at95.interval_known, n >= 6) << n;
    EXPECT_EQ(MedianWithInterval(samples, 0.9999).interval_known, n >= 15);
    if (n < 6) {
      EXPECT_EQ(at95.interval.low, 1);
      EXPECT_EQ(at95.interval.high, static_cast<double>(n));
    }
  }
}

TEST(MedianTest, NestedAroundTheMedian) {
  Random random(1);
  for (const Noise& noise : AllNoise()) {
    for (size_t n = 1; n <= 40; ++n) {
      const Samples samples = Draw(noise, n, random);
      Interval outer = {-1e300, 1e300};
      for (double confidence = 0.9999; confidence > 0.001; confidence *= 0.9) {
        const Median result = MedianWithInterval(samples, confidence);
        EXPECT_LE(result.interval.low, result.median);
        EXPECT_GE(result.interval.high, result.median);
        EXPECT_GE(result.interval.low, outer.low) << n << " " << confidence;
        EXPECT_LE(result.interval.high, outer.high) << n << " " << confidence;
        outer = result.interval;
      }
    }
  }
}

TEST(MedianTest, CoversTheMedianAsOftenAsPromised) {
  for (const Noise& noise : AllNoise()) {
    for (const size_t n : {8, 9, 10, 11, 12, 13, 15, 20, 25, 31, 40, 50}) {
      Random random(42 + n);
      int covered = 0;
      for (int trial = 0; trial < kTrials; ++trial) {
        const Median result = MedianWithInterval(Draw(noise, n, random));
        covered += Covers(result.interval, noise.median);
      }
      const double coverage = covered / static_cast<double>(kTrials);
      EXPECT_GT(coverage, 0.93) << noise.name << " " << n;
      EXPECT_LT(coverage, 0.97) << noise.name << " " << n;
    }
  }
}

TEST(MedianTest, LargeCountsAgreeWithTheNormalApproximation) {
  Samples samples(100001);
  for (size_t i = 0; i < samples.size(); ++i) {
    samples[i] = static_cast<double>(i);
  }
  const Median result = MedianWithInterval(samples);
  EXPECT_EQ(result.median, 50000);
  EXPECT_NEAR(result.interval.high - 50000, 1.96 * std::sqrt(100001) / 2, 1.5);
  EXPECT_NEAR(50000 - result.interval.low, 1.96 * std::sqrt(100001) / 2, 1.5);
}

TEST(MedianTest, Refuses) {
  EXPECT_THROW(MedianWithInterval(Samples{}), InvalidInput);
  EXPECT_THROW(MedianWithInterval(Samples{1, std::nan("")}), InvalidInput);
  EXPECT_THROW(
      MedianWithInterval(Samples{1, std::numeric_limits<double>::infinity()}),
      InvalidInput);
  EXPECT_THROW(MedianWithInterval(Samples{1}, 1.0), InvalidInput);
  EXPECT_THROW(MedianWithInterval(Samples{1}, 0.0), InvalidInput);
  EXPECT_THROW(MedianWithInterval(Samples{1}, std::nan("")), InvalidInput);
}

// --- exponent -------------------------------------------------------------

struct Points {
  Samples n, value, low, high;
};

// Makes value(n) times lognormal noise of the given relative sizes, with
// intervals that match the noise.
template <typename Value, typename Sigma>
Points MakePoints(size_t count, Value value, Sigma sigma, Random& random) {
  Points points;
  std::normal_distribution<double> normal;
  for (size_t i = 0; i < count; ++i) {
    const double n = std::exp2(8.0 + static_cast<double>(i));
    const double deviation = sigma(i);
    const double measured = value(n) * std::exp(deviation * normal(random));
    points.n.push_back(n);
    points.value.push_back(measured);
    points.low.push_back(measured * std::exp(-1.96 * deviation));
    points.high.push_back(measured * std::exp(1.96 * deviation));
  }
  return points;
}

std::optional<ExponentFit> Fit(const Points& points, double n_min = 0) {
  return FitExponent(points.n, points.value, points.low, points.high, n_min);
}

TEST(ExponentTest, ExactPowersOfN) {
  for (const double exponent : {0.0, 0.5, 1.0, 2.0, 3.0}) {
    const Samples n = {256, 512, 1024, 2048};
    Samples value;
    for (const double size : n)
      value.push_back(3e-9 * std::pow(size, exponent));
    const auto fit = FitExponent(n, value, {}, {});
    ASSERT_TRUE(fit);
    EXPECT_NEAR(fit->exponent, exponent, 1e-12);
    EXPECT_LT(fit->interval.high - fit->interval.low, 1e-10);
    EXPECT_EQ(fit->n_min, 256);
    EXPECT_EQ(fit->n_max, 2048);
    EXPECT_EQ(fit->points, 4u);
  }
}

// Equal intervals make this ordinary least squares; by hand, for x = 0, 1, 2
// and y = 0, 1, 3 (logarithms to base 2): slope 1.5, residuals 1/6, -1/3, 1/6,
// standard error sqrt((1/6) / 1 / 2), and t = 12.706 for one degree of freedom.
TEST(ExponentTest, ByHand) {
  const auto fit = FitExponent(Samples{1, 2, 4}, Samples{1, 2, 8}, {}, {});
  ASSERT_TRUE(fit);
  EXPECT_NEAR(fit->exponent, 1.5, 1e-9);
  EXPECT_NEAR(fit->interval.high - 1.5, 12.7062047 * std::sqrt(1.0 / 12), 1e-6);
  EXPECT_NEAR(1.5 - fit->interval.low, 12.7062047 * std::sqrt(1.0 / 12), 1e-6);
}

// Compares tabulated quantiles of t with the half width.
TEST(ExponentTest, StudentQuantiles) {
  const std::pair<size_t, double> kTable[] = {
      {1, 12.7062047362}, {2, 4.30265272991}, {3, 3.18244630528},
      {4, 2.7764451052},  {7, 2.36462425101}, {10, 2.22813885196},
      {30, 2.0422724563}};
  for (const auto& [freedom, quantile] : kTable) {
    Samples n, value;
    double mean_x = 0, mean_y = 0, spread = 0, product = 0, misfit = 0;
    const size_t count = freedom + 2;
    for (size_t i = 0; i < count; ++i) {
      n.push_back(std::exp2(static_cast<double>(i) / 4));
      value.push_back(n[i] * (i % 2 ? 1.1 : 1.0));
      mean_x += std::log(n[i]) / static_cast<double>(count);
      mean_y += std::log(value[i]) / static_cast<double>(count);
    }
    for (size_t i = 0; i < count; ++i) {
      const double x = std::log(n[i]) - mean_x;
      spread += x * x;
      product += x * (std::log(value[i]) - mean_y);
    }
    const double slope = product / spread;
    for (size_t i = 0; i < count; ++i) {
      const double residual =
          std::log(value[i]) - mean_y - slope * (std::log(n[i]) - mean_x);
      misfit += residual * residual;
    }
    const double error =
        std::sqrt(misfit / static_cast<double>(freedom) / spread);
    const auto fit = FitExponent(n, value, {}, {});
    ASSERT_TRUE(fit);
    EXPECT_NEAR((fit->interval.high - fit->exponent) / error, quantile, 1e-6);
  }
}

TEST(ExponentTest, IntervalCoversPowerLaws) {
  struct Setting {
    std::string name;
    std::function<double(size_t)> sigma;
  };
  const Setting kSettings[] = {
      {"equal", [](size_t) { return 0.03; }},
      {"noisy start", [](size_t i) { return i < 3 ? 0.2 : 0.01; }},
      {"noisy end",
       [](size_t i) {
         return 0.005 * std::exp2(0.5 * static_cast<double>(i));
       }},
  };
  for (const Setting& setting : kSettings) {
    for (const size_t count : {3, 4, 6, 9, 13}) {
      for (const double exponent : {1.0, 2.0}) {
        Random random(7 + count);
        int covered = 0;
        constexpr int kFits = 3000;
        for (int trial = 0; trial < kFits; ++trial) {
          const Points points = MakePoints(
              count, [&](double n) { return std::pow(n, exponent); },
              setting.sigma, random);
          covered += Covers(Fit(points)->interval, exponent);
        }
        const double coverage = covered / static_cast<double>(kFits);
        EXPECT_GT(coverage, 0.92) << setting.name << " " << count;
        EXPECT_LT(coverage, 0.98) << setting.name << " " << count;
      }
    }
  }
}

// The machine adds steps far larger than the intervals allow for, and one point
// has an interval of zero width.
TEST(ExponentTest, IntervalCoversDespiteOverconfidentPoints) {
  Random random(11);
  std::normal_distribution<double> normal;
  std::uniform_real_distribution<double> uniform(0.0005, 0.005);
  for (const size_t count : {4, 8, 12}) {
    int covered = 0;
    constexpr int kFits = 3000;
    for (int trial = 0; trial < kFits; ++trial) {
      Points points = MakePoints(
          count, [&](double n) { return n * std::exp(0.1 * normal(random)); },
          [&](size_t i) { return i == 1 ? 1e-7 : uniform(random); }, random);
      covered += Covers(Fit(points)->interval, 1.0);
    }
    EXPECT_NEAR(covered / static_cast<double>(kFits), 0.95, 0.03) << count;
  }
}

TEST(ExponentTest, NoisyPointsCountLess) {
  Points points = {{1, 2, 4, 8, 16, 32},
                   {1, 2, 4, 8, 16, 320},
                   {0.99, 1.98, 3.96, 7.92, 15.84, 3.2},
                   {1.01, 2.02, 4.04, 8.08, 16.16, 32000}};
  EXPECT_NEAR(Fit(points)->exponent, 1.0, 0.01);
  EXPECT_GT(FitExponent(points.n, points.value, {}, {})->exponent, 1.3);
}

// The function n log n is not a power of n: over sizes around n its exponent is
// about 1 + 1 / ln(n), and no interval can name the class.
TEST(ExponentTest, NLogN) {
  Random random(3);
  const auto n_log_n = [](double n) { return n * std::log(n); };
  const Points exact = MakePoints(
      10, n_log_n, [](size_t) { return 0.0; }, random);
  const auto expected = Fit(exact);
  EXPECT_NEAR(expected->exponent, 1 + 1 / std::log(std::exp2(12.5)), 0.01);
  EXPECT_TRUE(expected->interval.low > 1.05 && expected->interval.high < 1.2);

  // The bend adds to the residuals, so the interval is wider than the noise
  // requires: 95 % or more.
  int covered = 0;
  constexpr int kFits = 2000;
  for (int trial = 0; trial < kFits; ++trial) {
    const Points points = MakePoints(
        10, n_log_n, [](size_t) { return 0.03; }, random);
    covered += Covers(Fit(points)->interval, expected->exponent);
  }
  EXPECT_GT(covered / static_cast<double>(kFits), 0.94);
}

TEST(ExponentTest, FixedCostsAreLeftOut) {
  Samples n, value;
  for (int power = 6; power <= 20; ++power) {
    n.push_back(std::exp2(power));
    value.push_back(1e-5 + 1e-9 * std::exp2(power));  // a call of 10 us
  }
  const double start = UpperRange(n);
  EXPECT_EQ(start, std::exp2(16));  // 2^20 / 31.6 = 2^15.02
  EXPECT_LT(FitExponent(n, value, {}, {})->exponent, 0.6);
  const auto fit = FitExponent(n, value, {}, {}, start);
  EXPECT_NEAR(fit->exponent, 1.0, 0.06);
  EXPECT_EQ(fit->n_min, start);
  EXPECT_EQ(fit->n_max, std::exp2(20));
  EXPECT_EQ(fit->points, 5u);
}

TEST(ExponentTest, UpperRange) {
  EXPECT_EQ(UpperRange(Samples{1, 10, 100, 1000, 10000}), 10);
  EXPECT_EQ(UpperRange(Samples{1000, 10, 100, 1}), 1);
  EXPECT_EQ(UpperRange(Samples{8, 8, 16}), 8);
  EXPECT_EQ(UpperRange(Samples{5}), 5);
  // Exactly a decade and a half counts.
  const double bottom = 1e6 / std::pow(10.0, 1.5);
  EXPECT_EQ(UpperRange(Samples{1e2, bottom, 1e5, 2e5, 5e5, 1e6}), bottom);
  EXPECT_THROW(UpperRange(Samples{}), InvalidInput);
}

TEST(ExponentTest, TooFewSizesOrNoValue) {
  EXPECT_FALSE(FitExponent({}, {}, {}, {}));
  EXPECT_FALSE(FitExponent(Samples{1, 2}, Samples{1, 2}, {}, {}));
  EXPECT_FALSE(FitExponent(Samples{1, 1, 2, 2}, Samples{1, 1, 2, 2}, {}, {}));
  EXPECT_FALSE(FitExponent(Samples{1, 2, 4}, Samples{1, 2, 4}, {}, {}, 2));
  EXPECT_FALSE(FitExponent(Samples{1, 2, 4}, Samples{0, 0, 0}, {}, {}));
  EXPECT_TRUE(FitExponent(Samples{1, 2, 4, 4}, Samples{1, 2, 4, 5}, {}, {}));
  EXPECT_TRUE(FitExponent(Samples{1, 2, 4, 8}, Samples{0, 2, 4, 8}, {}, {}, 2));
}

TEST(ExponentTest, Refuses) {
  const Samples n = {1, 2, 4};
  EXPECT_THROW(FitExponent(n, Samples{1, 2}, {}, {}), InvalidInput);
  EXPECT_THROW(FitExponent(n, n, n, {}), InvalidInput);
  EXPECT_THROW(FitExponent(n, n, Samples{1, 2}, n), InvalidInput);
  EXPECT_THROW(FitExponent(Samples{0, 1, 2}, n, {}, {}), InvalidInput);
  EXPECT_THROW(FitExponent(n, Samples{1, -2, 3}, {}, {}), InvalidInput);
  EXPECT_THROW(FitExponent(n, Samples{1, std::nan(""), 3}, {}, {}),
               InvalidInput);
  EXPECT_THROW(FitExponent(n, n, Samples{2, 2, 4}, n), InvalidInput);
  EXPECT_THROW(FitExponent(n, n, {}, {}, 0, 1.5), InvalidInput);
}

// --- crossover ------------------------------------------------------------

struct CurveData {
  Samples n, median, low, high;
  operator Curve() const { return {n, median, low, high}; }
};

template <typename Value>
CurveData MakeCurve(const Samples& n, Value value, double band = 0) {
  CurveData curve;
  for (const double size : n) {
    curve.n.push_back(size);
    curve.median.push_back(value(size));
    curve.low.push_back(value(size) * (1 - band));
    curve.high.push_back(value(size) * (1 + band));
  }
  return curve;
}

const Samples kSizes = {64, 128, 256, 512, 1024, 2048, 4096};

double Square(double n) { return n * n; }

TEST(CrossoverTest, PowerLawsCrossWhereCalculated) {
  // The curves 700 n and n^2 cross at 700, which is not a measured size;
  // log-log interpolation is exact for powers.
  for (const double where : {700.0, 65.0, 4000.0, 1024.0}) {
    const CurveData fast = MakeCurve(
        kSizes, [&](double n) { return where * n; }, 0.1);
    const CurveData dense = MakeCurve(kSizes, Square, 0.1);
    const Crossover crossover = FindCrossover(fast, dense);
    EXPECT_EQ(crossover.kind, CrossoverKind::kCrosses);
    ASSERT_TRUE(crossover.n);
    EXPECT_NEAR(*crossover.n / where, 1, 1e-12);
    const double earliest = where * 0.9 / 1.1;
    const double latest = where * 1.1 / 0.9;
    EXPECT_EQ(crossover.low.has_value(), earliest > 64);
    EXPECT_EQ(crossover.high.has_value(), latest < 4096);
    EXPECT_NEAR(crossover.low.value_or(earliest) / earliest, 1, 1e-12);
    EXPECT_NEAR(crossover.high.value_or(latest) / latest, 1, 1e-12);
  }
}

TEST(CrossoverTest, OpenEndsAreReported) {
  const CurveData dense = MakeCurve(kSizes, Square, 0.1);
  EXPECT_EQ(FindCrossover(MakeCurve(
                              kSizes, [](double n) { return 65 * n; }, 0.1),
                          dense)
                .reason,
            "the curves cross once; within the intervals it may lie below n = "
            "64");
  EXPECT_EQ(FindCrossover(MakeCurve(
                              kSizes, [](double n) { return 4000 * n; }, 0.1),
                          dense)
                .reason,
            "the curves cross once; within the intervals it may lie above n = "
            "4096");
}

// The ratio bends between the sizes: the line misses the crossing, though the
// values have no noise at all; the interval allowed for interpolation contains
// it.
TEST(CrossoverTest, CoversTheErrorOfInterpolation) {
  const auto bent = [](double n) {
    const double x = std::log(n);
    return std::exp(0.5 * (std::log(900.0) - x) +
                    0.08 * (std::log(900.0) - x) * std::abs(x - 3));
  };
  const Samples sizes = {64, 256, 1024, 4096};
  const CurveData fast = MakeCurve(sizes, bent);
  const CurveData dense = MakeCurve(sizes, [](double) { return 1.0; });
  const Crossover crossover = FindCrossover(fast, dense);
  ASSERT_TRUE(crossover.n && crossover.low && crossover.high);
  EXPECT_GT(std::abs(*crossover.n - 900), 1);
  EXPECT_LT(*crossover.low, 900.5);
  EXPECT_GT(*crossover.high, 899.5);
  EXPECT_LT(*crossover.high / *crossover.low, 1.5);
  // Two sizes tell only that the crossing is between them.
  const CurveData two = MakeCurve({256, 4096}, bent);
  const Crossover open =
      FindCrossover(two, MakeCurve({256, 4096}, [](double) { return 1.0; }));
  EXPECT_EQ(open.low, 256);
  EXPECT_EQ(open.high, 4096);
}

TEST(CrossoverTest, OrderAndSizesOfOneCurveOnly) {
  CurveData fast =
      MakeCurve({4096, 64, 300, 512, 1024}, [](double n) { return 700 * n; });
  const CurveData dense = MakeCurve({512, 64, 1024, 2048, 700}, Square);
  EXPECT_NEAR(*FindCrossover(fast, dense).n, 700, 1e-9);
}

TEST(CrossoverTest, Never) {
  const CurveData dense = MakeCurve(kSizes, Square, 0.1);
  const Crossover crossover =
      FindCrossover(MakeCurve(
                        kSizes, [](double n) { return 5000 * n; }, 0.1),
                    dense);
  EXPECT_EQ(crossover.kind, CrossoverKind::kNever);
  EXPECT_FALSE(crossover.n);
  EXPECT_FALSE(crossover.high);
  // At its best the fast curve just crosses: 5000 * 0.9 / 1.1 = 4091.
  ASSERT_TRUE(crossover.low);
  EXPECT_NEAR(*crossover.low, 4090.909, 0.01);
  EXPECT_EQ(crossover.reason,
            "not better at the largest size, n = 4096; within the intervals "
            "perhaps from n = 4091 on");

  const Crossover surely =
      FindCrossover(MakeCurve(
                        kSizes, [](double n) { return 50000 * n; }, 0.1),
                    dense);
  EXPECT_EQ(surely.kind, CrossoverKind::kNever);
  EXPECT_FALSE(surely.n || surely.low || surely.high);
  EXPECT_EQ(surely.reason, "not better at the largest size, n = 4096");

  // Equal is not faster.
  EXPECT_EQ(FindCrossover(dense, dense).kind, CrossoverKind::kNever);
  EXPECT_EQ(FindCrossover(dense, dense).reason,
            "not better at the largest size, n = 4096; within the intervals "
            "perhaps everywhere");
}

TEST(CrossoverTest, Always) {
  const CurveData dense = MakeCurve(kSizes, Square, 0.1);
  const Crossover surely =
      FindCrossover(MakeCurve(
                        kSizes, [](double n) { return n; }, 0.1),
                    dense);
  EXPECT_EQ(surely.kind, CrossoverKind::kAlwaysFaster);
  EXPECT_FALSE(surely.n || surely.low || surely.high);
  EXPECT_EQ(surely.reason, "better at every size from n = 64 on");

  const Crossover perhaps =
      FindCrossover(MakeCurve(
                        kSizes, [](double n) { return 60 * n; }, 0.1),
                    dense);
  EXPECT_EQ(perhaps.kind, CrossoverKind::kAlwaysFaster);
  EXPECT_FALSE(perhaps.n || perhaps.low);
  ASSERT_TRUE(perhaps.high);
  EXPECT_NEAR(*perhaps.high, 60 * 1.1 / 0.9, 1e-9);
}

TEST(CrossoverTest, MultipleCrossingsTakeTheLast) {
  const Samples n = {1, 2, 4, 8, 16};
  const CurveData dense = MakeCurve(n, [](double) { return 1.0; });
  CurveData fast = dense;
  fast.median = fast.low = fast.high = {2, 0.5, 2, 0.5, 0.25};
  const Crossover crossover = FindCrossover(fast, dense);
  EXPECT_EQ(crossover.kind, CrossoverKind::kCrosses);
  EXPECT_NEAR(*crossover.n, std::sqrt(32.0), 1e-12);
  EXPECT_EQ(crossover.reason, "the curves cross 2 times, this is the last");

  fast.median = fast.low = fast.high = {2, 0.5, 0.5, 0.5, 2};
  EXPECT_EQ(FindCrossover(fast, dense).reason,
            "not better at the largest size, n = 16, but at smaller ones");
}

TEST(CrossoverTest, TooFewPoints) {
  const CurveData single_point = MakeCurve({64}, Square);
  const CurveData other = MakeCurve({128}, Square);
  const CurveData none;
  EXPECT_EQ(FindCrossover(single_point, single_point).kind,
            CrossoverKind::kTooFewPoints);
  EXPECT_EQ(FindCrossover(single_point, single_point).reason,
            "sizes in common: 1, a crossover needs at least 2");
  EXPECT_EQ(FindCrossover(single_point, other).kind,
            CrossoverKind::kTooFewPoints);
  EXPECT_EQ(FindCrossover(none, none).kind, CrossoverKind::kTooFewPoints);
}

// Workspaces may be zero.
TEST(CrossoverTest, ZeroValues) {
  const Samples n = {1, 2, 4};
  const auto curve = [&](const Samples& values) {
    return CurveData{n, values, values, values};
  };
  EXPECT_EQ(FindCrossover(curve({0, 0, 0}), curve({1, 4, 16})).kind,
            CrossoverKind::kAlwaysFaster);
  EXPECT_EQ(FindCrossover(curve({0, 0, 0}), curve({0, 0, 0})).kind,
            CrossoverKind::kNever);
  EXPECT_EQ(*FindCrossover(curve({1, 1, 1}), curve({0, 0, 2})).n, 4);
  EXPECT_EQ(*FindCrossover(curve({1, 0, 0}), curve({1, 1, 1})).n, 1);
  EXPECT_NEAR(*FindCrossover(curve({1, 1, 0}), curve({0, 0, 1})).n,
              std::sqrt(8.0), 1e-12);
}

TEST(CrossoverTest, Refuses) {
  const CurveData good = MakeCurve(kSizes, Square);
  CurveData bad = good;
  bad.low.pop_back();
  EXPECT_THROW(FindCrossover(bad, good), InvalidInput);
  bad = good;
  bad.n[1] = bad.n[0];
  EXPECT_THROW(FindCrossover(good, bad), InvalidInput);
  bad = good;
  bad.median[2] = std::nan("");
  EXPECT_THROW(FindCrossover(bad, good), InvalidInput);
  bad = good;
  bad.high[2] = 0;
  EXPECT_THROW(FindCrossover(bad, good), InvalidInput);
  bad = good;
  bad.n[0] = 0;
  EXPECT_THROW(FindCrossover(bad, good), InvalidInput);
}

// The interval holds the true crossing at least as often as the curves' own
// intervals hold the true values.
TEST(CrossoverTest, IntervalCoversTheTruth) {
  Random random(5);
  int covered = 0;
  constexpr int kCurves = 2000;
  std::normal_distribution<double> normal;
  const auto noisy = [&](CurveData curve) {
    for (size_t i = 0; i < curve.n.size(); ++i) {
      curve.median[i] *= std::exp(0.05 * normal(random));
      curve.low[i] = curve.median[i] * std::exp(-1.96 * 0.05);
      curve.high[i] = curve.median[i] * std::exp(1.96 * 0.05);
    }
    return curve;
  };
  const CurveData fast = MakeCurve(kSizes, [](double n) { return 700 * n; });
  const CurveData dense = MakeCurve(kSizes, Square);
  for (int trial = 0; trial < kCurves; ++trial) {
    const Crossover crossover = FindCrossover(noisy(fast), noisy(dense));
    covered += crossover.low && crossover.high && *crossover.low <= 700 &&
               *crossover.high >= 700;
  }
  EXPECT_GT(covered / static_cast<double>(kCurves), 0.95);
}

}  // namespace
}  // namespace subquad
