// Properties of convolutions whose weights come from the data, each with a
// control that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/judging/operator_run.h"
#include "tests/any_threads.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;

struct Sizes {
  int64_t n, d, taps, e;
  int64_t Before(bool causal) const { return causal ? taps - 1 : taps / 2; }
};
constexpr Sizes kSizes = {203, 12, 9, 37};

OperatorRun Convolution(const Sizes& s = kSizes, bool causal = false) {
  const double mixing = 1 / std::sqrt(static_cast<double>(s.d));
  OperatorRun run("dynamic_convolution");
  run.Give("x", {s.n, s.d}, NormalNumbers(s.n * s.d, 1))
      .Give("phi_k", {s.d, s.taps}, NormalNumbers(s.d * s.taps, 2, mixing))
      .Give("phi_v", {s.d, s.e}, NormalNumbers(s.d * s.e, 3, mixing))
      .Set("causal", causal);
  return run;
}

// A weight of one at a single place shifts the values by as many tokens.
TEST(DynamicConvolution, OnePlaceIsAShift) {
  for (const bool causal : {false, true}) {
    const Sizes s = {50, 4, 5, 4};
    OperatorRun run = Convolution(s, causal);
    for (int64_t i = 0; i < s.n; ++i) run["x"][i * s.d] = 1;
    std::fill(run["phi_v"].begin(), run["phi_v"].end(), 0);
    for (int64_t a = 0; a < s.d; ++a) run["phi_v"][a * s.e + a] = 1;
    for (int64_t t = 0; t < s.taps; ++t) {
      std::fill(run["phi_k"].begin(), run["phi_k"].end(), 0);
      run["phi_k"][t] = 1e4;  // times the column of ones
      Numbers shifted(static_cast<size_t>(s.n * s.e), 0);
      const int64_t by = t - s.Before(causal);
      for (int64_t i = 0; i < s.n; ++i)
        if (i + by >= 0 && i + by < s.n)
          std::copy_n(run["x"].begin() + (i + by) * s.d, s.d,
                      shifted.begin() + i * s.e);
      Numbers not_shifted = run["x"];
      for (const std::string& program : run.Programs()) {
        EXPECT_LE(LargestDifference(run.Run(program), shifted), kRounding)
            << program << " " << t;
        if (by != 0) {
          EXPECT_GT(LargestDifference(run.Run(program), not_shifted), 0.1);
        }
      }
    }
  }
}

// Equal tokens have equal weights, which sum to one away from the ends and to
// less where the window exceeds an end.
TEST(DynamicConvolution, WeightsSumToOneInside) {
  OperatorRun run = Convolution();
  for (int64_t i = 1; i < kSizes.n; ++i)
    std::copy_n(run["x"].begin(), kSizes.d, run["x"].begin() + i * kSizes.d);
  const int64_t middle = kSizes.n / 2;
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    double value = 0;
    for (int64_t a = 0; a < kSizes.d; ++a)
      value += run["x"][a] * run["phi_v"][a * kSizes.e];
    EXPECT_NEAR(out[middle * kSizes.e], value, kRounding) << program;
    EXPECT_LT(std::abs(out[0]), 0.95 * std::abs(value)) << program;
  }
}

// Permuting the tokens changes the answer although there are no positions, as
// the text states.
TEST(DynamicConvolution, IsNotEquivariantUnderPermutations) {
  OperatorRun run = Convolution();
  OperatorRun swapped = run;
  const int64_t i = 60, j = 140;  // far apart: no window has both
  const auto swap_rows = [&](Numbers& rows, int64_t width) {
    std::swap_ranges(rows.begin() + i * width, rows.begin() + (i + 1) * width,
                     rows.begin() + j * width);
  };
  swap_rows(swapped["x"], kSizes.d);
  for (const std::string& program : run.Programs()) {
    Numbers expected = run.Run(program);
    swap_rows(expected, kSizes.e);
    EXPECT_GT(LargestDifference(swapped.Run(program), expected), 0.1)
        << program;
  }
  // The control: with a window of one, permuting tokens permutes the rows.
  OperatorRun narrow = Convolution({kSizes.n, kSizes.d, 1, kSizes.e});
  OperatorRun one_swapped = narrow;
  swap_rows(one_swapped["x"], kSizes.d);
  for (const std::string& program : narrow.Programs()) {
    Numbers expected = narrow.Run(program);
    swap_rows(expected, kSizes.e);
    EXPECT_LE(LargestDifference(one_swapped.Run(program), expected), kRounding)
        << program;
  }
}

// A token changes only the rows whose window contains it, bit for bit.
TEST(DynamicConvolution, IsLocal) {
  for (const bool causal : {false, true}) {
    OperatorRun run = Convolution(kSizes, causal);
    OperatorRun changed = run;
    const int64_t token = 100;
    for (int64_t a = 0; a < kSizes.d; ++a)
      changed["x"][token * kSizes.d + a] += 1;
    const int64_t before = kSizes.Before(causal);
    for (const std::string& program : run.Programs()) {
      const Numbers a = run.Run(program), b = changed.Run(program);
      for (int64_t i = 0; i < kSizes.n; ++i) {
        const bool sees =
            i - before <= token && token < i - before + kSizes.taps;
        const auto row = a.begin() + i * kSizes.e;
        EXPECT_EQ(std::equal(row, row + kSizes.e, b.begin() + i * kSizes.e),
                  !sees)
            << program << " row " << i;
      }
    }
  }
}

TEST(DynamicConvolution, ManyShapesOnAnyNumberOfThreads) {
  for (const bool causal : {false, true})
    for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{3, 2, 8, 5},
                           Sizes{300, 5, 2, 70}, Sizes{257, 33, 300, 17}}) {
      SCOPED_TRACE(s.n);
      ExpectDefinition(Convolution(s, causal), kRounding);
    }
}

}  // namespace
}  // namespace subquad
