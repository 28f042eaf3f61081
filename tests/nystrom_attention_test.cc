// Properties of attention through landmarks, each with a control that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/judging/operator_run.h"
#include "reference/softmax/nystrom_inverse.h"
#include "tests/any_threads.h"

namespace subquad {
namespace {

struct Sizes {
  int64_t segments, length, d, e;
  int64_t n() const { return segments * length; }
};
constexpr Sizes kSizes = {10, 14, 8, 6};

// Makes rows of equal signs within a segment, which keeps A far from singular,
// plus normal draws.
Numbers Rows(const Sizes& s, uint64_t seed, double noise) {
  const Numbers signs = NormalNumbers(s.segments * s.d, 9);
  Numbers rows = NormalNumbers(s.n() * s.d, seed, noise);
  for (int64_t i = 0; i < s.n(); ++i)
    for (int64_t a = 0; a < s.d; ++a)
      rows[i * s.d + a] += signs[i / s.length * s.d + a] > 0 ? 1.5 : -1.5;
  return rows;
}

OperatorRun Nystrom(int64_t iterations, const Sizes& s = kSizes,
                    double noise = 0.5) {
  OperatorRun run("nystrom_attention");
  run.Set("segments", s.segments)
      .Set("iterations", iterations)
      .Give("q", {s.n(), s.d}, Rows(s, 1, noise))
      .Give("k", {s.n(), s.d}, Rows(s, 2, noise))
      .Give("v", {s.n(), s.e}, NormalNumbers(s.n() * s.e, 3));
  return run;
}

Numbers Exact(OperatorRun run, const Sizes& s) {
  OperatorRun all("softmax_attention");
  all.Set("causal", false);
  for (const char* name : {"q", "k", "v"})
    all.Give(name, {s.n(), name[0] == 'v' ? s.e : s.d}, run[name]);
  return all.Run("dense");
}

// Using every token as a landmark gives F = A = S and A Z A = A; one landmark
// for two tokens is an approximation.
TEST(NystromAttention, LandmarksOfAllTokensAreExact) {
  const Sizes all = {60, 1, 10, 6}, half = {30, 2, 10, 6};
  OperatorRun run = Nystrom(25, all), few = run, started = run;
  few.Set("segments", half.segments);
  started.Set("iterations", int64_t{2});
  const Numbers exact = Exact(run, all);
  for (const std::string& program : run.Programs()) {
    EXPECT_LE(LargestDifference(run.Run(program), exact), 1e-10) << program;
    EXPECT_GT(LargestDifference(few.Run(program), exact), 0.1) << program;
    EXPECT_GT(LargestDifference(started.Run(program), exact), 1e-4) << program;
  }
}

// Landmarks lose nothing if the tokens of each segment are equal.
TEST(NystromAttention, EqualTokensOfASegmentAreExact) {
  for (const double noise : {0.0, 0.5}) {
    OperatorRun run = Nystrom(25, kSizes, noise);
    const Numbers exact = Exact(run, kSizes);
    for (const std::string& program : run.Programs()) {
      const double off = LargestDifference(run.Run(program), exact);
      if (noise == 0)
        EXPECT_LE(off, 1e-10) << program;
      else
        EXPECT_GT(off, 0.01) << program;
    }
  }
}

// One landmark: every row is the mean of the values.
TEST(NystromAttention, OneSegmentForgetsTheQuery) {
  const Sizes one_segment = {1, 90, 8, 6};
  OperatorRun run = Nystrom(3, one_segment);
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    for (size_t x = 0; x < out.size(); ++x)
      EXPECT_NEAR(out[x], out[x % 6], 1e-13) << program;
  }
  const Numbers two = Nystrom(3).Run("dense");
  EXPECT_GT(std::abs(two[0] - two[6 * 40]), 0.01);
}

// Makes softmax rows of random scores.
std::vector<double> RandomMatrix(int64_t size, double spread) {
  std::vector<double> matrix = NormalNumbers(size * size, 5, spread);
  for (int64_t i = 0; i < size; ++i) {
    matrix[i * (size + 1)] += 3 * spread;
    double sum = 0;
    for (int64_t j = 0; j < size; ++j)
      sum += matrix[i * size + j] = std::exp(matrix[i * size + j]);
    for (int64_t j = 0; j < size; ++j) matrix[i * size + j] /= sum;
  }
  return matrix;
}

double Norm(const std::vector<double>& m) {
  double squares = 0;
  for (double value : m) squares += value * value;
  return std::sqrt(squares);
}

std::vector<double> Minus(std::vector<double> a, const std::vector<double>& b) {
  for (size_t x = 0; x < a.size(); ++x) a[x] -= b[x];
  return a;
}

TEST(NystromAttention, SingularValuesAreThoseOfAKnownMatrix) {
  // The matrix is a rotation by 0.3, times diag(3, 0.5), times a rotation by
  // -1.1.
  const double c = std::cos(0.3), s = std::sin(0.3), g = std::cos(1.1),
               h = std::sin(1.1);
  const std::vector<double> squares =
      SquaredSingularValues({3 * c * g + 0.5 * s * h, 3 * c * h - 0.5 * s * g,
                             3 * s * g - 0.5 * c * h, 3 * s * h + 0.5 * c * g},
                            2);
  EXPECT_NEAR(*std::ranges::max_element(squares), 9, 1e-13);
  EXPECT_NEAR(*std::ranges::min_element(squares), 0.25, 1e-13);
  double sum = 0;
  const std::vector<double> matrix = RandomMatrix(40, 1);
  for (double square : SquaredSingularValues(matrix, 40)) sum += square;
  EXPECT_NEAR(sum, Norm(matrix) * Norm(matrix), 1e-12);
}

// Tests the derivation of the bound: a small change of A changes Z by no more
// than it says, whether the iteration has converged or not, and not by far
// less.
TEST(NystromAttention, TheBoundOfZHoldsAndIsTight) {
  constexpr int64_t kSize = 24;
  constexpr double kRoundoff = 0x1p-53;
  for (const double spread : {0.3, 1.0, 2.0})
    for (const int64_t iterations : {0, 1, 3, 6, 12, 20}) {
      const std::vector<double> matrix = RandomMatrix(kSize, spread);
      const NystromInverse<double> inverse(matrix, kSize, iterations);
      double closest = 0;
      for (uint64_t seed = 1; seed <= 30; ++seed) {
        std::vector<double> other = matrix;
        const Numbers change = NormalNumbers(kSize * kSize, seed, 1e-9);
        for (size_t x = 0; x < other.size(); ++x) other[x] += change[x];
        const double bound =
            inverse.Units(Norm(change) / kRoundoff, kRoundoff) * kRoundoff;
        const NystromInverse<double> moved(other, kSize, iterations);
        closest =
            std::max(closest, Norm(Minus(moved.z(), inverse.z())) / bound);
      }
      EXPECT_LE(closest, 1) << spread << " " << iterations;
      EXPECT_GE(closest, 0.002) << spread << " " << iterations;
    }
}

// The bound also covers rounding errors: compares float32 with float64, from
// the same A.
TEST(NystromAttention, TheBoundOfZHoldsForRoundings) {
  constexpr int64_t kSize = 24;
  for (const double spread : {0.3, 1.0, 2.0})
    for (const int64_t iterations : {0, 1, 3, 6, 12, 20}) {
      const std::vector<double> drawn = RandomMatrix(kSize, spread);
      const std::vector<float> narrow(drawn.begin(), drawn.end());
      const std::vector<double> same(narrow.begin(), narrow.end());
      const NystromInverse<float> rounded(narrow, kSize, iterations);
      const NystromInverse<double> exact(same, kSize, iterations);
      const std::vector<double> z(rounded.z().begin(), rounded.z().end());
      const double error = Norm(Minus(z, exact.z()));
      EXPECT_GT(error, 0);
      const double bound = exact.Units(0, 0x1p-24) * 0x1p-24;
      EXPECT_LE(error, bound) << spread << " " << iterations;
    }
}

TEST(NystromAttention, RefusesUnequalSegments) {
  OperatorRun run = Nystrom(6);
  run.Set("segments", int64_t{11});
  EXPECT_THROW(run.Programs(), InvalidInput);
}

TEST(NystromAttention, ManyShapesOnAnyNumberOfThreads) {
  for (const int64_t iterations : {0, 1, 6})
    for (const Sizes& s : {Sizes{1, 1, 1, 1}, Sizes{5, 1, 3, 70},
                           Sizes{3, 100, 33, 5}, Sizes{70, 3, 40, 17}}) {
      SCOPED_TRACE(testing::Message() << iterations << " " << s.segments);
      ExpectDefinition(Nystrom(iterations, s), 1e-10);
    }
}

}  // namespace
}  // namespace subquad
