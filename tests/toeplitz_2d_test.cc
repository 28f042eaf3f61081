// Properties of a product over the offsets of an image, each with a control
// that can fail.
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
constexpr Image kImage = {19, 34, 5};

OperatorRun Product(const Image& s = kImage) {
  const int64_t weights = (2 * s.height - 1) * (2 * s.width - 1);
  OperatorRun run("toeplitz_2d");
  run.Set("height", s.height).Set("width", s.width);
  run.Give("weights", {2 * s.height - 1, 2 * s.width - 1},
           NormalNumbers(weights, 1))
      .Give("values", {s.height * s.width, s.e},
            NormalNumbers(s.height * s.width * s.e, 2));
  return run;
}

// Transposes [rows, columns, e] to [columns, rows, e].
Numbers Transposed(const Numbers& x, int64_t rows, int64_t columns, int64_t e) {
  Numbers y(x.size());
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      std::copy_n(x.begin() + (r * columns + c) * e, e,
                  y.begin() + (c * rows + r) * e);
  return y;
}

// Uses a million pixels: an impulse returns the weights, reversed and shifted.
TEST(Toeplitz2d, AnImpulseGivesTheWeightsBack) {
  constexpr int64_t kHeight = 700, kWidth = 1500, kRow = 211, kColumn = 1103;
  OperatorRun run = Product({kHeight, kWidth, 1});
  Numbers& impulse = run["values"];
  std::ranges::fill(impulse, 0.0);
  impulse[kRow * kWidth + kColumn] = 1;
  const Numbers& weights = run["weights"];
  for (const std::string& program : run.Programs()) {
    if (program == "dense") continue;  // a matrix of 10^12 entries
    const Numbers out = run.Run(program, Scalar::kFloat64, 2);
    double worst = 0;
    for (int64_t r = 0; r < kHeight; ++r)
      for (int64_t c = 0; c < kWidth; ++c) {
        const double weight =
            weights[(kRow - r + kHeight - 1) * (2 * kWidth - 1) + kColumn - c +
                    kWidth - 1];
        worst = std::max(worst, std::abs(out[r * kWidth + c] - weight));
      }
    EXPECT_LE(worst, 1e-10) << program;
  }
}

// Transposing the image and the weights transposes the output.
TEST(Toeplitz2d, RowsAndColumnsChangePlaces) {
  const auto [height, width, e] = kImage;
  OperatorRun run = Product();
  OperatorRun other = run;
  other.Set("height", width).Set("width", height);
  other["values"] = Transposed(run["values"], height, width, e);
  other.Give("weights", {2 * width - 1, 2 * height - 1},
             Transposed(run["weights"], 2 * height - 1, 2 * width - 1, 1));
  OperatorRun control = other;
  control.Give("weights", {2 * width - 1, 2 * height - 1}, run["weights"]);
  const Numbers expected = Transposed(run.Definition(), height, width, e);
  for (const std::string& program : run.Programs()) {
    EXPECT_LE(LargestDifference(other.Run(program), expected), 100 * kRounding)
        << program;
    EXPECT_GT(LargestDifference(control.Run(program), expected), 1) << program;
  }
}

// A shape in the corner of a dark image moves, and its output with it.
TEST(Toeplitz2d, ShiftedValuesGiveShiftedOutputs) {
  constexpr int64_t kDown = 3, kRight = 11;
  const auto [height, width, e] = kImage;
  OperatorRun run = Product();
  OperatorRun moved = run;
  for (int64_t r = 0; r < height; ++r)
    for (int64_t c = 0; c < width; ++c)
      for (int64_t x = 0; x < e; ++x)
        if (r >= height - kDown || c >= width - kRight)
          run["values"][(r * width + c) * e + x] = 0;
  const auto shifted = [&](const Numbers& values) {
    Numbers out(values.size());
    for (int64_t r = 0; r + kDown < height; ++r)
      std::copy_n(values.begin() + r * width * e, (width - kRight) * e,
                  out.begin() + ((r + kDown) * width + kRight) * e);
    return out;
  };
  moved["values"] = shifted(run["values"]);
  for (const std::string& program : run.Programs()) {
    Numbers out = moved.Run(program);
    const Numbers still = run.Run(program);
    EXPECT_GT(LargestDifference(out, still), 1) << program;
    for (int64_t r = 0; r < height; ++r)  // pixels that came in from outside
      for (int64_t c = 0; c < width; ++c)
        if (r < kDown || c < kRight)
          std::fill_n(out.begin() + (r * width + c) * e, e, 0.0);
    EXPECT_LE(LargestDifference(out, shifted(still)), 100 * kRounding)
        << program;
  }
}

// An image of one row, or of one column, is a sequence.
TEST(Toeplitz2d, ALineIsASequence) {
  constexpr int64_t kN = 143, kE = 3;
  for (const bool tall : {false, true}) {
    OperatorRun run = tall ? Product({kN, 1, kE}) : Product({1, kN, kE});
    OperatorRun line("toeplitz_1d");
    line.Give("weights", {2 * kN - 1}, run["weights"])
        .Give("values", {kN, kE}, run["values"]);
    const Numbers expected = line.Run("fft_columns");
    line["weights"][kN] += 1;
    const Numbers control = line.Run("fft_columns");
    for (const std::string& program : run.Programs()) {
      const Numbers out = run.Run(program);
      EXPECT_LE(LargestDifference(out, expected), kRounding) << program;
      EXPECT_GT(LargestDifference(out, control), 0.1) << program;
    }
  }
}

TEST(Toeplitz2d, ManyShapesOnAnyNumberOfThreads) {
  for (const Image& s : {Image{1, 1, 1}, Image{2, 3, 40}, Image{33, 5, 7}}) {
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
