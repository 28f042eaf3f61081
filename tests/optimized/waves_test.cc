// Weighted cosines and sines compared with those in long double, at every
// length.
#include "optimized/kernelized/waves.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

namespace subquad {
namespace {

template <typename T>
void AreWithinThreeUlp(T largest) {
  for (const size_t count : {1u, 2u, 7u, 16u, 31u, 640u}) {
    std::vector<T> angles(count), weights(count), waves(2 * count + 1, T{77});
    for (size_t x = 0; x < count; ++x) {
      angles[x] = largest * std::sin(static_cast<T>(x + count));
      weights[x] = static_cast<T>(x % 5) - 2;
    }
    WriteWaves(angles.data(), weights.data(), static_cast<int64_t>(count),
               waves.data());
    const long double u = std::numeric_limits<T>::epsilon();
    for (size_t x = 0; x < count; ++x) {
      const long double angle = angles[x], weight = weights[x];
      // 3 ulp of a number below one, and the product's own rounding.
      const long double bound = 3.5L * u * std::abs(weight);
      EXPECT_NEAR(waves[2 * x], weight * std::cos(angle), bound) << angle;
      EXPECT_NEAR(waves[2 * x + 1], weight * std::sin(angle), bound) << angle;
    }
    EXPECT_EQ(waves[2 * count], T{77});
  }
}

TEST(Waves, AreWithinThreeUlpOfTheExactOnes) {
  for (const double largest : {1e-6, 1.0, 10.0, 38999.0}) {
    AreWithinThreeUlp<float>(static_cast<float>(largest));
    AreWithinThreeUlp<double>(largest);
  }
}

TEST(Waves, LargeAnglesAreTheStandardLibrarys) {
  for (const double largest : {39001.0, 1e9, 1e30}) {
    AreWithinThreeUlp<float>(static_cast<float>(largest));
    AreWithinThreeUlp<double>(largest);
  }
}

TEST(Waves, NanStaysNan) {
  const double angles[] = {1, std::numeric_limits<double>::infinity()};
  const double weights[] = {1, 1};
  double waves[4];
  WriteWaves(angles, weights, 2, waves);
  EXPECT_EQ(waves[0], std::cos(1.0));
  EXPECT_TRUE(std::isnan(waves[2]) && std::isnan(waves[3]));
}

}  // namespace
}  // namespace subquad
