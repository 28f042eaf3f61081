// Intervals of means, shares and slopes: compared with tabulated values, tested
// for their coverage on synthetic data, and refused inputs.
#include "harness/base/inference.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "harness/cases/draws.h"
#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

bool Excludes(const Estimate& estimate, double value) {
  const Interval& interval = estimate.interval;
  return !(interval.low <= value && value <= interval.high);
}

TEST(MeanInterval, UsesStudentsT) {
  // The tabulated t of 95 % with 4 degrees of freedom is 2.776445.
  const Estimate mean = MeanWithInterval(std::vector<double>{1, 2, 3, 4, 5});
  EXPECT_DOUBLE_EQ(mean.value, 3);
  EXPECT_NEAR(mean.interval.high - 3, 2.776445 * std::sqrt(2.5 / 5), 1e-5);
  EXPECT_TRUE(Excludes(mean, 0.9));
  EXPECT_FALSE(Excludes(mean, 3.5));
  EXPECT_TRUE(Excludes(mean, std::nan("")));
}

TEST(MeanOverRowsAndColumns, AddsTheVariancesOfBoth) {
  // Means of the columns 2, 4 and of the rows 2, 3, 4; t of 95 % with 1 degree
  // of freedom is 12.7062.
  const Estimate mean = MeanOverRowsAndColumns({{1, 3}, {2, 4}, {3, 5}});
  EXPECT_DOUBLE_EQ(mean.value, 3);
  EXPECT_NEAR(mean.interval.high - 3, 12.7062 * std::sqrt(1 + 1.0 / 3), 1e-3);
  EXPECT_NEAR(3 - mean.interval.low, mean.interval.high - 3, 1e-12);
  const std::vector<double> row = {1, 2, 3, 4, 5};
  const Estimate one = MeanOverRowsAndColumns({row}),
                 same = MeanWithInterval(row);
  EXPECT_EQ(one.interval.high, same.interval.high);
  EXPECT_EQ(one.value, same.value);
}

// Effects of rows and columns are both random: intervals over only one of them
// would miss the mean far more often.
TEST(MeanOverRowsAndColumns, CoversTheMeanOfAll) {
  constexpr int kTrials = 1000;
  constexpr size_t kRows = 5, kColumns = 40;
  int covered = 0, covered_by_columns = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    const Draws draws(static_cast<uint64_t>(trial), "table");
    std::vector<std::vector<double>> rows(kRows, std::vector<double>(kColumns));
    std::vector<double> of_columns(kColumns);
    for (size_t r = 0; r < kRows; ++r)
      for (size_t c = 0; c < kColumns; ++c) {
        rows[r][c] = draws.Normal(r) + draws.Normal(100 + c);
        of_columns[c] += rows[r][c] / kRows;
      }
    covered += !Excludes(MeanOverRowsAndColumns(rows), 0);
    covered_by_columns += !Excludes(MeanWithInterval(of_columns), 0);
  }
  EXPECT_GT(covered, 0.93 * kTrials);
  EXPECT_LT(covered_by_columns, 0.7 * kTrials);
}

TEST(ShareBounds, AreThoseOfClopperAndPearson) {
  // No miss in 200: 1 - 0.05^(1/200).
  EXPECT_NEAR(ShareUpperBound(0, 200), 1 - std::pow(0.05, 1.0 / 200), 1e-12);
  EXPECT_NEAR(ShareLowerBound(200, 200), std::pow(0.05, 1.0 / 200), 1e-12);
  EXPECT_DOUBLE_EQ(ShareUpperBound(200, 200), 1);
  EXPECT_DOUBLE_EQ(ShareLowerBound(0, 200), 0);
  // A share of 5 in 10, two-sided 90 %: 0.2224 and 0.7776.
  EXPECT_NEAR(ShareUpperBound(5, 10), 0.7776, 1e-4);
  EXPECT_NEAR(ShareLowerBound(5, 10), 0.2224, 1e-4);
}

// Checks that at least 95 of 100 bounds hold, but not nearly all of them.
TEST(ShareBounds, HoldAsOftenAsTheyPromise) {
  const Draws draws(1, "misses");
  int holds = 0;
  constexpr int kTrials = 2000, kDraws = 50;
  constexpr double kShare = 0.2;
  for (int trial = 0; trial < kTrials; ++trial) {
    double misses = 0;
    for (int i = 0; i < kDraws; ++i)
      misses +=
          draws.Uniform(static_cast<uint64_t>(trial * kDraws + i)) < kShare;
    holds += ShareUpperBound(misses, kDraws) >= kShare;
  }
  EXPECT_GE(holds, 0.94 * kTrials);
  EXPECT_LE(holds, 0.99 * kTrials);
}

TEST(Slopes, AreFoundAndCovered) {
  const Draws draws(1, "slopes");
  constexpr int kTrials = 1000, kRows = 12;
  int covered = 0;
  uint64_t at = 0;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<std::vector<double>> x;
    std::vector<double> y;
    for (int r = 0; r < kRows; ++r) {
      x.push_back({draws.Normal(at), draws.Normal(at + 1)});
      y.push_back(7 + 2 * x.back()[0] - 3 * x.back()[1] +
                  0.5 * draws.Normal(at + 2));
      at += 3;
    }
    const std::vector<Estimate> slopes = FitSlopes(x, y);
    ASSERT_EQ(slopes.size(), 2u);
    covered += !Excludes(slopes[0], 2);
    if (trial == 0) {
      EXPECT_NEAR(slopes[1].value, -3, 1);
    }
  }
  EXPECT_NEAR(covered, 0.95 * kTrials, 0.02 * kTrials);
}

TEST(Slopes, RefuseUninformativePoints) {
  const std::vector<std::vector<double>> same = {
      {1, 1}, {2, 2}, {3, 3}, {4, 4}};
  const std::vector<double> y = {1, 2, 3, 5};
  EXPECT_THROW(FitSlopes(same, y), InvalidInput);
  EXPECT_THROW(FitSlopes({{1}, {2}}, std::vector<double>{1, 2}), InvalidInput);
  EXPECT_THROW(FitSlopes({{1}, {2}, {4}}, std::vector<double>{1, 2}),
               InvalidInput);
  EXPECT_THROW(FitSlopes({{1}, {2}, {NAN}}, std::vector<double>{1, 2, 3}),
               InvalidInput);
  EXPECT_THROW(FitSlopes({}, {}), InvalidInput);
  EXPECT_THROW(MeanWithInterval(std::vector<double>{1}), InvalidInput);
  EXPECT_THROW(MeanWithInterval(std::vector<double>{1, NAN}), InvalidInput);
  EXPECT_THROW(MeanOverRowsAndColumns({}), InvalidInput);
  EXPECT_THROW(MeanOverRowsAndColumns({{1, 2}, {1}}), InvalidInput);
  EXPECT_THROW(ShareUpperBound(3, 2), InvalidInput);
  EXPECT_THROW(ShareUpperBound(NAN, 2), InvalidInput);
  EXPECT_THROW(ShareUpperBound(1, 2, 1), InvalidInput);
}

}  // namespace
}  // namespace subquad
