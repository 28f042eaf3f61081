// The plain program's sums in parts.
#include "reference/base/long_sums.h"

#include <gtest/gtest.h>

namespace subquad {
namespace {

TEST(LongSums, EqualsTheLoopUpToOnePart) {
  LongSums<float> sums(2);
  float weighted = 0, other = 0;
  for (size_t term = 1; term < LongSums<float>::kTermsOfAPart; ++term) {
    const float x = 1 / static_cast<float>(term);
    const double row[] = {x * 0.7};
    sums.AddRow(3, row, 1);
    sums.Add(1, x);
    sums.Next();
    weighted += 3 * static_cast<float>(row[0]);
    other += x;
    ASSERT_EQ(sums.Total(0), weighted);
    ASSERT_EQ(sums.Total(1), other);
  }
}

// In float32 a loop stops growing at 2^24 when it adds ones.
TEST(LongSums, KeepsGrowing) {
  constexpr size_t kCount = size_t{1} << 25;
  LongSums<float> sums(1);
  float loop = 0;
  for (size_t term = 0; term < kCount; ++term) {
    sums.Add(0, 1);
    sums.Next();
    loop += 1;
  }
  EXPECT_EQ(loop, 0x1p24f);
  EXPECT_EQ(sums.Total(0), 0x1p25f);
}

}  // namespace
}  // namespace subquad
