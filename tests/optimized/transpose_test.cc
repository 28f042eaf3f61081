// Transposed copies: every element is at its place, and nothing else is
// written.
#include "optimized/base/transpose.h"

#include <gtest/gtest.h>

#include <vector>

namespace subquad {
namespace {

template <typename T>
void IsTransposed(int64_t rows, int64_t columns) {
  const int64_t from_stride = columns + 3, to_stride = rows + 5;
  std::vector<T> from(static_cast<size_t>(rows * from_stride));
  for (size_t i = 0; i < from.size(); ++i) from[i] = static_cast<T>(i) - 99;
  std::vector<T> to(static_cast<size_t>(columns * to_stride), T{77});
  std::vector<T> expected = to;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t c = 0; c < columns; ++c)
      expected[c * to_stride + r] = T{0.5} * from[r * from_stride + c];
  CopyTransposed(from.data(), from_stride, rows, columns, T{0.5}, to.data(),
                 to_stride);
  ASSERT_EQ(to, expected) << rows << " by " << columns;
}

TEST(CopyTransposed, PutsEveryElementAtItsPlace) {
  for (const int64_t rows : {1, 2, 4, 7, 8, 15, 16, 17, 32, 33, 64})
    for (const int64_t columns : {1, 3, 4, 8, 9, 16, 31, 48, 64}) {
      IsTransposed<float>(rows, columns);
      IsTransposed<double>(rows, columns);
    }
}

}  // namespace
}  // namespace subquad
