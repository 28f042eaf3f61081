// An image laid out as one sequence: every pixel once, at the place where
// offsets of the sequence are offsets of the image.
#include "optimized/toeplitz/image_sequence.h"

#include <gtest/gtest.h>

#include <vector>

namespace subquad {
namespace {

constexpr int64_t kZero = -1, kUnwritten = -2;

// Returns the pixel at each element of [first, first + count).
std::vector<int64_t> Elements(const ImageSequence& image, int64_t first,
                              int64_t count) {
  std::vector<int64_t> pixels(count, kUnwritten);
  image.ForRuns(
      first, count,
      [&](int64_t pixel, int64_t run, int64_t at) {
        for (int64_t x = 0; x < run; ++x) pixels[at + x] = pixel + x;
      },
      [&](int64_t run, int64_t at) {
        std::fill_n(pixels.begin() + at, run, kZero);
      });
  return pixels;
}

TEST(ImageSequence, EveryWindowShowsTheSameElements) {
  for (const auto& [height, width] :
       {std::pair<int64_t, int64_t>{1, 1}, {1, 7}, {5, 1}, {3, 4}, {4, 3}}) {
    const ImageSequence image(height, width);
    std::vector<int64_t> whole(image.length(), kZero);
    for (int64_t r = 0; r < height; ++r)
      for (int64_t c = 0; c < width; ++c)
        whole[r * (2 * width - 1) + c] = r * width + c;
    EXPECT_EQ(whole.back(), height * width - 1) << "ends with the last pixel";
    for (int64_t first = 0; first < image.length(); ++first)
      for (int64_t count = 1; first + count <= image.length(); ++count)
        ASSERT_EQ(Elements(image, first, count),
                  std::vector<int64_t>(whole.begin() + first,
                                       whole.begin() + first + count))
            << height << " x " << width << " from " << first;
  }
}

// Different offsets of an image are different offsets of the sequence.
TEST(ImageSequence, OffsetsTellRowsFromColumns) {
  const int64_t height = 4, width = 5;
  const ImageSequence image(height, width);
  std::vector<int> seen((2 * height - 1) * (2 * width - 1));
  for (int64_t row = 1 - height; row < height; ++row)
    for (int64_t column = 1 - width; column < width; ++column)
      ++seen.at(row * image.pitch() + column + image.length() - 1);
  EXPECT_EQ(seen, std::vector<int>(seen.size(), 1));
}

}  // namespace
}  // namespace subquad
