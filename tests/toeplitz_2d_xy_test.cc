// Properties of the sum of a product over rows and one over columns, each with
// a control that can fail.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

constexpr double kRounding = 1e-12;

struct Image {
  int64_t height, width, e;
};
// One side uses transforms, the other the definition.
constexpr Image kImage = {19, 101, 5};

OperatorRun Product(const Image& s = kImage) {
  OperatorRun run("toeplitz_2d_xy");
  run.Set("height", s.height).Set("width", s.width);
  run.Give("weights_rows", {2 * s.height - 1},
           NormalNumbers(2 * s.height - 1, 1))
      .Give("weights_cols", {2 * s.width - 1},
            NormalNumbers(2 * s.width - 1, 2))
      .Give("values", {s.height * s.width, s.e},
            NormalNumbers(s.height * s.width * s.e, 3));
  return run;
}

// Uses a million pixels: an impulse returns both vectors of weights, each along
// one direction and constant along the other.
TEST(Toeplitz2dXy, AnImpulseGivesTheWeightsBack) {
  constexpr int64_t kHeight = 700, kWidth = 1500, kRow = 211, kColumn = 1103;
  OperatorRun run = Product({kHeight, kWidth, 1});
  Numbers& impulse = run["values"];
  std::ranges::fill(impulse, 0.0);
  impulse[kRow * kWidth + kColumn] = 1;
  const Numbers out = run.Run("xy", Scalar::kFloat64, 2);
  double worst = 0;
  for (int64_t r = 0; r < kHeight; ++r)
    for (int64_t c = 0; c < kWidth; ++c) {
      const double weight = run["weights_rows"][kRow - r + kHeight - 1] +
                            run["weights_cols"][kColumn - c + kWidth - 1];
      worst = std::max(worst, std::abs(out[r * kWidth + c] - weight));
    }
  EXPECT_LE(worst, 1e-10);
}

// Equals toeplitz_2d with weights w_rows + w_cols of both offsets.
TEST(Toeplitz2dXy, IsTheProductOverBothOffsets) {
  const auto [height, width, e] = kImage;
  OperatorRun run = Product();
  Numbers both;
  for (const double row : run["weights_rows"])
    for (const double column : run["weights_cols"])
      both.push_back(row + column);
  OperatorRun full("toeplitz_2d");
  full.Set("height", height).Set("width", width);
  full.Give("weights", {2 * height - 1, 2 * width - 1}, both)
      .Give("values", {height * width, e}, run["values"]);
  const Numbers expected = full.Run("fft_sequence");
  full["weights"][0] += 1;
  const Numbers control = full.Run("fft_sequence");
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    EXPECT_LE(LargestDifference(out, expected), 1000 * kRounding) << program;
    EXPECT_GT(LargestDifference(out, control), 0.01) << program;
  }
}

// A constant added to all weights of rows and subtracted from all of columns
// cancels.
TEST(Toeplitz2dXy, OnlyTheSumOfTheWeightsMatters) {
  OperatorRun run = Product();
  OperatorRun other = run;
  for (double& weight : other["weights_rows"]) weight += 0.75;
  const OperatorRun control = other;
  for (double& weight : other["weights_cols"]) weight -= 0.75;
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    EXPECT_LE(LargestDifference(other.Run(program), out), 1000 * kRounding)
        << program;
    EXPECT_GT(LargestDifference(control.Run(program), out), 1) << program;
  }
}

// Transposes the image and exchanges the two vectors of weights.
TEST(Toeplitz2dXy, RowsAndColumnsChangePlaces) {
  const auto [height, width, e] = kImage;
  const auto transposed = [&](const Numbers& x) {
    Numbers y(x.size());
    for (int64_t r = 0; r < kImage.height; ++r)
      for (int64_t c = 0; c < kImage.width; ++c)
        std::copy_n(x.begin() + (r * kImage.width + c) * kImage.e, kImage.e,
                    y.begin() + (c * kImage.height + r) * kImage.e);
    return y;
  };
  OperatorRun run = Product();
  OperatorRun other = Product({width, height, e});
  other["weights_rows"] = run["weights_cols"];
  other["weights_cols"] = run["weights_rows"];
  OperatorRun control = other;
  other["values"] = transposed(run["values"]);
  control["values"] = run["values"];
  const Numbers expected = transposed(run.Definition());
  for (const std::string& program : run.Programs()) {
    EXPECT_LE(LargestDifference(other.Run(program), expected), 1000 * kRounding)
        << program;
    EXPECT_GT(LargestDifference(control.Run(program), expected), 1) << program;
  }
}

TEST(Toeplitz2dXy, ManyShapesOnAnyNumberOfThreads) {
  for (const Image& s : {Image{1, 1, 1}, Image{2, 3, 40}, Image{70, 5, 7}}) {
    OperatorRun run = Product(s);
    const Numbers expected = run.Definition();
    for (const std::string& program : run.Programs()) {
      const Numbers out = run.Run(program);
      EXPECT_LE(LargestDifference(out, expected), kRounding) << program;
      EXPECT_EQ(run.Run(program, Scalar::kFloat64, 3), out) << program;
    }
  }
}

}  // namespace
}  // namespace subquad
