// Properties of gated mixing, each with a control that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "harness/judging/operator_run.h"
#include "tests/any_threads.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-13;

struct Sizes {
  int64_t n, token, m, e;
};
constexpr Sizes kSizes = {150, 12, 9, 7};

enum class Mixing { kNone, kMatrix, kWeights };
constexpr Mixing kAll[] = {Mixing::kNone, Mixing::kMatrix, Mixing::kWeights};

OperatorRun Gmlp(Mixing mixing, const Sizes& s = kSizes) {
  const auto by = [](int64_t count) {
    return 1 / std::sqrt(static_cast<double>(count));
  };
  OperatorRun run("gmlp_mixing");
  run.Give("x", {s.n, s.token}, NormalNumbers(s.n * s.token, 1))
      .Give("phi_u1", {s.token, s.m},
            NormalNumbers(s.token * s.m, 2, by(s.token)))
      .Give("phi_u2", {s.token, s.m},
            NormalNumbers(s.token * s.m, 3, by(s.token)))
      .Give("phi_v", {s.m, s.e}, NormalNumbers(s.m * s.e, 4, by(s.m)));
  if (mixing == Mixing::kMatrix)
    run.Give("psi", {s.n, s.n}, NormalNumbers(s.n * s.n, 5, by(s.n)));
  if (mixing == Mixing::kWeights)
    run.Give("weights", {2 * s.n - 1}, NormalNumbers(2 * s.n - 1, 5, by(s.n)));
  return run;
}

// No matrix, the identity, and a weight for offset zero alone give the same
// gated linear unit. A weight for another offset does not.
TEST(GmlpMixing, TheIdentityIsAGatedLinearUnit) {
  OperatorRun unit = Gmlp(Mixing::kNone);
  OperatorRun matrix = Gmlp(Mixing::kMatrix);
  OperatorRun weights = Gmlp(Mixing::kWeights);
  OperatorRun shifted = weights;
  std::fill(matrix["psi"].begin(), matrix["psi"].end(), 0);
  for (int64_t i = 0; i < kSizes.n; ++i) matrix["psi"][i * (kSizes.n + 1)] = 1;
  for (OperatorRun* run : {&weights, &shifted})
    std::fill((*run)["weights"].begin(), (*run)["weights"].end(), 0);
  weights["weights"][kSizes.n - 1] = 1;
  shifted["weights"][kSizes.n] = 1;
  ASSERT_EQ(unit.Programs(), std::vector<std::string>{"dense"});
  const Numbers expected = unit.Run("dense");
  EXPECT_LE(LargestDifference(matrix.Run("dense"), expected), kRounding);
  ASSERT_EQ(weights.Programs().size(), 2);
  for (const std::string& program : weights.Programs()) {
    EXPECT_LE(LargestDifference(weights.Run(program), expected), kRounding);
    EXPECT_GT(LargestDifference(shifted.Run(program), expected), 0.1);
  }
}

// Weights by offset equal the matrix with these weights along its diagonals,
// and not its transpose.
TEST(GmlpMixing, WeightsAreAMatrix) {
  OperatorRun weights = Gmlp(Mixing::kWeights);
  OperatorRun matrix = Gmlp(Mixing::kMatrix), transposed = matrix;
  for (int64_t i = 0; i < kSizes.n; ++i)
    for (int64_t j = 0; j < kSizes.n; ++j) {
      const double weight = weights["weights"][j - i + kSizes.n - 1];
      matrix["psi"][i * kSizes.n + j] = weight;
      transposed["psi"][j * kSizes.n + i] = weight;
    }
  const Numbers expected = matrix.Run("dense");
  for (const std::string& program : weights.Programs()) {
    const Numbers out = weights.Run(program);
    EXPECT_LE(LargestDifference(out, expected), kRounding) << program;
    EXPECT_GT(LargestDifference(out, transposed.Run("dense")), 0.1) << program;
  }
}

// Without a mixing matrix, tokens are independent, so that reversing the tokens
// reverses the rows of the output. Any mixing matrix makes a difference.
TEST(GmlpMixing, OrderOfTokensMattersOnlyWithAMatrix) {
  const auto reversed = [](Numbers rows, int64_t width) {
    std::reverse(rows.begin(), rows.end());
    for (auto row = rows.begin(); row != rows.end(); row += width)
      std::reverse(row, row + width);
    return rows;
  };
  for (const Mixing mixing : kAll) {
    OperatorRun run = Gmlp(mixing), other = run;
    other["x"] = reversed(other["x"], kSizes.token);
    for (const std::string& program : run.Programs()) {
      const double off = LargestDifference(
          other.Run(program), reversed(run.Run(program), kSizes.e));
      if (mixing == Mixing::kNone)
        EXPECT_EQ(off, 0);
      else
        EXPECT_GT(off, 0.1);
    }
  }
}

// Gates are open or closed far from zero, and half open at zero.
TEST(GmlpMixing, GatesOpenAndClose) {
  for (const Mixing mixing : kAll) {
    OperatorRun half = Gmlp(mixing);
    for (int64_t i = 0; i < kSizes.n; ++i)
      half["x"][i * kSizes.token] = 1;  // only the gate reads it
    std::fill(half["phi_u1"].begin(), half["phi_u1"].end(), 0);
    std::fill_n(half["phi_u2"].begin(), kSizes.m, 0);
    OperatorRun open = half, closed = half;
    std::fill_n(open["phi_u1"].begin(), kSizes.m, 1e4);
    std::fill_n(closed["phi_u1"].begin(), kSizes.m, -1e4);
    for (const std::string& program : half.Programs()) {
      Numbers doubled = half.Run(program);
      for (double& value : doubled) value *= 2;
      EXPECT_GT(LargestDifference(doubled, closed.Run(program)), 0.1);
      EXPECT_LE(LargestDifference(open.Run(program), doubled), kRounding);
      EXPECT_EQ(closed.Run(program), Numbers(doubled.size(), 0)) << program;
    }
  }
}

TEST(GmlpMixing, AcceptsAMatrixOrWeights) {
  OperatorRun run = Gmlp(Mixing::kMatrix);
  run.Give("weights", {2 * kSizes.n - 1}, Numbers(2 * kSizes.n - 1, 1));
  EXPECT_THROW(run.Programs(), InvalidInput);
}

TEST(GmlpMixing, ManyShapesOnAnyNumberOfThreads) {
  for (const Mixing mixing : kAll)
    for (const Sizes& s :
         {Sizes{1, 1, 1, 1}, Sizes{3, 2, 70, 5}, Sizes{300, 5, 17, 33}}) {
      SCOPED_TRACE(s.n);
      ExpectDefinition(Gmlp(mixing, s), kRounding);
    }
}

}  // namespace
}  // namespace subquad
