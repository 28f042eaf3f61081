// `compare` on result files: how often it reports a false difference between
// two runs of one build, and whether it finds a real slowdown.
#include "harness/results/compare.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <random>

namespace subquad {
namespace {

using Random = std::mt19937_64;

constexpr int kPoints = 30;   // records of a file
constexpr int kSamples = 25;  // samples of each record
constexpr int kFiles = 400;   // pairs of files; standard error of 5 %: 1.1 %

// Times of one run relative to the median: symmetric, skewed as on a busy
// machine, and from a clock of coarse ticks.
const std::vector<std::pair<std::string, std::function<double(Random&)>>>&
Noises() {
  static const std::vector<
      std::pair<std::string, std::function<double(Random&)>>>
      noises = {
          {"lognormal",
           [](Random& random) {
             return std::lognormal_distribution<double>(0, 0.02)(random);
           }},
          {"skewed",
           [](Random& random) {
             return 1 + std::exponential_distribution<double>(40)(random);
           }},
          {"ticks",
           [](Random& random) {
             return std::round(50 * std::lognormal_distribution<double>(
                                        0, 0.03)(random)) /
                    50;
           }},
      };
  return noises;
}

std::vector<Record> FileWith(const std::function<double(Random&)>& noise,
                             Random& random, int slow_point = -1,
                             double factor = 1) {
  std::vector<Record> records;
  for (int point = 0; point < kPoints; ++point) {
    const double median =
        1e-3 * (point + 1) * (point == slow_point ? factor : 1);
    Record& record = records.emplace_back();
    record.case_id = fmt::format("toeplitz_1d:n={}", point + 1);
    record.implementation = "fft";
    record.check.verdict = Outcome::kPassed;
    record.seconds.emplace();
    for (int i = 0; i < kSamples; ++i)
      record.seconds->samples.push_back(median * noise(random));
  }
  return records;
}

int64_t Count(const FileComparison& comparison, Change change) {
  return std::ranges::count(comparison.points, change, &PointChange::change);
}

// The threshold is zero, so that the intervals alone decide: at most one pair
// of files in twenty has any point called slower or faster. Without the
// correction for the number of points nearly every pair would.
TEST(Compare, RaisesFalseAlarmsInAtMostOneOfTwentyPairsOfFiles) {
  Random random(41);
  for (const auto& [name, noise] : Noises()) {
    int alarms = 0, uncorrected = 0;
    for (int pair = 0; pair < kFiles; ++pair) {
      const auto before = FileWith(noise, random);
      const auto after = FileWith(noise, random);
      const FileComparison comparison = CompareFiles(before, after, 0);
      ASSERT_EQ(comparison.points.size(), size_t{kPoints});
      alarms += Count(comparison, Change::kRegression) +
                    Count(comparison, Change::kFaster) >
                0;
      bool any = false;
      for (int point = 0; point < kPoints; ++point) {
        const auto samples = [&](const std::vector<Record>& records) {
          return records[static_cast<size_t>(point)].seconds->samples;
        };
        const Interval interval =
            RatioOfMedians(samples(before), samples(after)).interval;
        any |= interval.low > 1 || interval.high < 1;
      }
      uncorrected += any;
    }
    EXPECT_LE(alarms, kFiles * 0.05 + 3 * std::sqrt(kFiles * 0.05 * 0.95))
        << name;
    // Ties keep most intervals at 1.
    if (name != "ticks") {
      EXPECT_GT(uncorrected, kFiles * 0.5) << name;
    }
  }
}

// One point of thirty is 10 % slower: only that one is found, with the default
// threshold. Two equal files have no differences.
TEST(Compare, FindsAPlantedSlowdownOfATenth) {
  Random random(43);
  for (const auto& [name, noise] : Noises()) {
    int count = 0;
    for (int pair = 0; pair < 100; ++pair) {
      const int slow = pair % kPoints;
      const auto before = FileWith(noise, random);
      const auto after = FileWith(noise, random, slow, 1.1);
      for (const PointChange& point : CompareFiles(before, after, 0.05).points)
        if (point.change == Change::kRegression) {
          EXPECT_EQ(point.key.case_id,
                    fmt::format("toeplitz_1d:n={}", slow + 1));
          ++count;
        }
      EXPECT_EQ(Count(CompareFiles(before, before, 0.05), Change::kSame),
                kPoints);
    }
    EXPECT_GE(count, 95) << name;
  }
}

TEST(Compare, ANewFailureIsARegression) {
  Random random(47);
  const auto before = FileWith(Noises()[0].second, random);
  for (const Outcome verdict : {Outcome::kFailed, Outcome::kMistrusted}) {
    auto after = before;
    after[3].Fail("why");
    after[3].check.verdict = verdict;
    const FileComparison comparison = CompareFiles(before, after, 0.05);
    EXPECT_EQ(Count(comparison, Change::kRegression), 1);
  }
}

}  // namespace
}  // namespace subquad
