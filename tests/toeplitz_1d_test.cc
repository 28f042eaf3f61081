// Properties of a product with a Toeplitz matrix, each with a control that can
// fail. All tests use float64, at sizes where a reference would take hours too:
// a term that is lost or counted twice among a million exceeds the rounding
// errors. Tolerances are first-order bounds of the sums.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/judging/operator_run.h"
#include "tests/has_programs.h"

namespace subquad {
namespace {

constexpr double kRoundoff = 0x1p-53;
constexpr int64_t kSizes[] = {4097, 65536, 99991, 1 << 20};

double Norm(const Numbers& x) {
  double squares = 0;
  for (const double value : x) squares += value * value;
  return std::sqrt(squares);
}

// Returns the possible error per element of a product by FFTs of at most 4n
// points.
double FftLoss(int64_t n, const Numbers& weights, const Numbers& values) {
  return 4 * kRoundoff * std::log2(4.0 * static_cast<double>(n)) *
         Norm(weights) * Norm(values);
}

OperatorRun Toeplitz(int64_t n_q, int64_t n_k, int64_t e, uint64_t seed) {
  OperatorRun run("toeplitz_1d");
  run.Give("weights", {n_q + n_k - 1}, NormalNumbers(n_q + n_k - 1, seed))
      .Give("values", {n_k, e}, NormalNumbers(n_k * e, seed + 1));
  return run;
}

// An impulse at key j0 returns the weights, reversed and shifted.
TEST(Toeplitz1d, AnImpulseGivesTheWeightsBack) {
  for (const int64_t n : kSizes)
    for (const int64_t n_k : {n, n / 3}) {
      OperatorRun run = Toeplitz(n, n_k, 1, 1);
      const int64_t at = 2 * n_k / 3;
      Numbers impulse(static_cast<size_t>(n_k));
      impulse[at] = 1;
      run.Give("values", {n_k, 1}, impulse);
      const Numbers& weights = run["weights"];
      const double loss = FftLoss(n + n_k, weights, impulse);
      ASSERT_LT(loss, 1e-9);
      ASSERT_TRUE(HasPrograms(run, {"fft_columns"}));
      for (const std::string& program : FastPrograms(run)) {
        const Numbers out = run.Run(program, Scalar::kFloat64, 2);
        double worst = 0;
        for (int64_t i = 0; i < n; ++i)
          worst = std::max(worst, std::abs(out[i] - weights[at - i + n - 1]));
        EXPECT_LE(worst, loss) << program << " " << n << " " << n_k;
      }
    }
}

TEST(Toeplitz1d, TheProductIsLinear) {
  constexpr int64_t kN = 1 << 20;
  OperatorRun run = Toeplitz(kN, kN, 1, 3);
  const Numbers x = run["values"], y = NormalNumbers(kN, 9);
  Numbers sum(x.size());
  for (size_t j = 0; j < x.size(); ++j) sum[j] = x[j] - 3 * y[j];
  const Numbers& weights = run["weights"];
  const double loss = FftLoss(2 * kN, weights, x) +
                      3 * FftLoss(2 * kN, weights, y) +
                      FftLoss(2 * kN, weights, sum);
  for (const std::string& program : FastPrograms(run)) {
    const Numbers ax = run.Give("values", {kN, 1}, x).Run(program);
    const Numbers ay = run.Give("values", {kN, 1}, y).Run(program);
    const Numbers together = run.Give("values", {kN, 1}, sum).Run(program);
    double worst = 0;
    for (size_t i = 0; i < x.size(); ++i)
      worst = std::max(worst, std::abs(together[i] - ax[i] + 3 * ay[i]));
    EXPECT_LE(worst, loss) << program;
  }
}

// Shifting the values by s positions shifts the outputs.
TEST(Toeplitz1d, ShiftedValuesGiveShiftedOutputs) {
  constexpr int64_t kN = 300007, kShift = 12345;
  OperatorRun run = Toeplitz(kN, kN, 1, 5);
  Numbers x = run["values"];
  std::fill(x.end() - kShift, x.end(), 0.0);
  Numbers moved(x.size());
  std::copy(x.begin(), x.end() - kShift, moved.begin() + kShift);
  const double loss = 2 * FftLoss(2 * kN, run["weights"], x);
  for (const std::string& program : FastPrograms(run)) {
    const Numbers out = run.Give("values", {kN, 1}, x).Run(program);
    const Numbers shifted = run.Give("values", {kN, 1}, moved).Run(program);
    double worst = 0;
    for (int64_t i = 0; i + kShift < kN; ++i)
      worst = std::max(worst, std::abs(shifted[i + kShift] - out[i]));
    EXPECT_LE(worst, loss) << program;
    EXPECT_GT(std::abs(shifted[0] - out[0]), 1e3 * loss) << program;
  }
}

// The backward pass gives A': <A x, y> = <x, A' y>.
TEST(Toeplitz1d, TheBackwardPassIsTheAdjoint) {
  for (const int64_t n : kSizes) {
    OperatorRun run = Toeplitz(n, n, 1, 7);
    OperatorRun backward = run;
    const Numbers y = NormalNumbers(n, 11), x = run["values"];
    backward.Give("grad", {n, 1}, y);
    const double loss =
        2 * static_cast<double>(n) * FftLoss(2 * n, run["weights"], x);
    for (const std::string& program : FastPrograms(backward)) {
      const Numbers ax = run.Run(program);
      const Numbers gradients = backward.Run(program);  // the first output
      ASSERT_EQ(gradients.size(), x.size());
      double left = 0, right = 0, magnitude = 0;
      for (int64_t i = 0; i < n; ++i) {
        left += ax[i] * y[i];
        right += x[i] * gradients[i];
        magnitude += std::abs(ax[i] * y[i]);
      }
      EXPECT_LE(std::abs(left - right), loss) << program << " " << n;
      EXPECT_GT(magnitude, 1e6 * loss);
    }
  }
}

// Reversing the order of queries and of keys transposes the matrix of the
// offsets: J T J has the reversed weights.
TEST(Toeplitz1d, ReversedOrderReversesTheWeights) {
  constexpr int64_t kQueries = 211, kKeys = 340, kE = 5;
  OperatorRun run = Toeplitz(kQueries, kKeys, kE, 13);
  const auto reversed = [](const Numbers& rows, int64_t width) {
    Numbers x;
    for (auto row = rows.end(); row != rows.begin(); row -= width)
      x.insert(x.end(), row - width, row);
    return x;
  };
  OperatorRun other = run, control = run;
  other["values"] = control["values"] = reversed(run["values"], kE);
  other["weights"] = reversed(run["weights"], 1);
  const double loss =
      2 * FftLoss(kQueries + kKeys, run["weights"], run["values"]);
  for (const std::string& program : run.Programs()) {
    const Numbers out = reversed(run.Run(program), kE);
    EXPECT_LE(LargestDifference(other.Run(program), out), loss) << program;
    EXPECT_GT(LargestDifference(control.Run(program), out), 1) << program;
  }
}

// The mask hides offsets above 0, whatever their weights.
TEST(Toeplitz1d, CausalIgnoresTheWeightsOfTheFuture) {
  for (const auto& [n_q, n_k] : {std::pair{20, 32}, {211, 340}, {340, 211}}) {
    OperatorRun run = Toeplitz(n_q, n_k, 5, 17);
    OperatorRun causal = run, zeros = run;
    causal.Set("causal", true);
    std::fill(zeros["weights"].begin() + n_q, zeros["weights"].end(), 0.0);
    const double loss = 2 * FftLoss(n_q + n_k, run["weights"], run["values"]);
    for (const std::string& program : run.Programs()) {
      const Numbers out = causal.Run(program);
      EXPECT_LE(LargestDifference(zeros.Run(program), out), loss) << program;
      EXPECT_GT(LargestDifference(run.Run(program), out), 1) << program;
    }
  }
}

// Measures the distance to the definition in units of FftBound without the
// product, 2 log2(L) u |w|_2 |v|_2. White data stay far below it; the worst
// inputs concentrate on one frequency. A bound a hundredth as large would fail.
TEST(Toeplitz1d, TransformsKeepToTheirBound) {
  double largest = 0;
  for (const int64_t n : {33, 100, 257, 1000, 2048}) {
    const double levels = std::log2(2.0 * static_cast<double>(n));
    for (const bool white : {true, false}) {
      OperatorRun run = Toeplitz(n, n, 3, 19);
      if (!white)
        for (const char* name : {"weights", "values"})
          std::ranges::fill(run[name], 1 / 3.0);
      const Numbers exact = run.Definition();
      for (const std::string& program : FastPrograms(run)) {
        if (!FindImplementation("toeplitz_1d", program).norm_bound) continue;
        const double unit = 2 * levels * kRoundoff * Norm(run["weights"]) *
                            Norm(run["values"]) / std::sqrt(3.0);
        const double share = LargestDifference(run.Run(program), exact) / unit;
        EXPECT_LT(share, white ? 0.25 : 1) << program << " " << n;
        largest = std::max(largest, share);
      }
    }
  }
  EXPECT_GT(largest, 0.01);
  RecordProperty("largest_share_of_the_bound", std::to_string(largest));
}

TEST(Toeplitz1d, ManyShapesOnAnyNumberOfThreads) {
  for (const auto& [n_q, n_k, e] : {std::array<int64_t, 3>{1, 1, 1},
                                    {1, 700, 3},
                                    {65, 1, 17},
                                    {32, 31, 33},
                                    {300, 512, 40}}) {
    OperatorRun run = Toeplitz(n_q, n_k, e, 23);
    const Numbers expected = run.Definition();
    const double loss = FftLoss(n_q + n_k, run["weights"], run["values"]);
    for (const std::string& program : run.Programs()) {
      const Numbers out = run.Run(program);
      EXPECT_LE(LargestDifference(out, expected), loss) << program;
      EXPECT_EQ(run.Run(program, Scalar::kFloat64, 3), out) << program;
    }
  }
}

}  // namespace
}  // namespace subquad
