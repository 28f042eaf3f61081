// Features of many rows: the fast path for plain features compared with the
// general path.
#include "optimized/kernelized/feature_rows.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

constexpr int64_t kRows = 7, kWidth = 9, kProjections = 21;

template <typename T>
struct Made {
  bool plain;
  std::vector<T> values;    // Plain's
  std::vector<T> expected;  // mantissa 2^exponent
};

FeatureMapSpec SpecOf(FeatureMapId id, bool normalize) {
  FeatureMapSpec spec;
  spec.id = id;
  spec.d = kWidth;
  spec.nu = 1;
  spec.root_scale = 1;
  spec.normalize = normalize;
  spec.projections = id < FeatureMapId::kPrf ? 0 : kProjections;
  return spec;
}

template <typename T>
std::vector<T> Cast(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

template <typename T>
Made<T> Make(const FeatureMapSpec& spec, const std::vector<T>& x) {
  const FeatureRows<T> features(spec);
  const std::vector<T> omega = Cast<T>(NormalNumbers(kProjections * kWidth, 5));
  const size_t size = static_cast<size_t>(kRows * features.features());
  std::vector<T> scratch(static_cast<size_t>(features.ScratchSize(kRows)));
  std::vector<T> mantissa(size), exponent(size);
  Made<T> made{false, std::vector<T>(size), std::vector<T>(size)};
  made.plain = features.Plain(x.data(), kRows, omega.data(), scratch.data(),
                              made.values.data());
  features.Compute(x.data(), kRows, omega.data(), scratch.data(),
                   mantissa.data(), exponent.data());
  for (size_t i = 0; i < size; ++i)
    made.expected[i] =
        static_cast<T>(std::ldexp(mantissa[i], static_cast<int>(exponent[i])));
  return made;
}

template <typename T>
void ExpectBitIdentical() {
  for (const FeatureMapId id : {FeatureMapId::kElu1, FeatureMapId::kRelu,
                                FeatureMapId::kSikf, FeatureMapId::kPrf})
    for (const bool normalize : {false, true}) {
      const FeatureMapSpec spec = SpecOf(id, normalize);
      const Made<T> made =
          Make(spec, Cast<T>(NormalNumbers(kRows * kWidth, 3, 0.7)));
      EXPECT_TRUE(made.plain) << static_cast<int>(id);
      EXPECT_EQ(made.values, made.expected) << static_cast<int>(id);
    }
}

TEST(PlainFeatures, AreBitIdenticalToTheGeneralPath) {
  ExpectBitIdentical<float>();
  ExpectBitIdentical<double>();
}

// A single value out of range, anywhere in the rows, is enough.
TEST(PlainFeatures, AreRefusedIfASingleValueIsNot) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  struct Outside {
    FeatureMapId id;
    std::vector<float> numbers;
  };
  const float logarithm = std::log(2.0f);
  const std::vector<Outside> all = {
      {FeatureMapId::kElu1,
       {nan, 1e30f, -1e30f, 256, kPlainLow * logarithm - 1e-5f, -88}},
      {FeatureMapId::kRelu, {nan, 1e30f, 257, 1e-5f, 1e-40f}},
      {FeatureMapId::kSikf,
       {nan, 1e30f, -1e30f, kPlainHigh * logarithm + 1e-5f,
        kPlainLow * logarithm - 1e-5f}},
      {FeatureMapId::kPrf, {nan, 20, -20, 1e19f}}};
  for (const Outside& outside : all) {
    const FeatureMapSpec spec = SpecOf(outside.id, false);
    const std::vector<float> good =
        Cast<float>(NormalNumbers(kRows * kWidth, 3, 0.7));
    ASSERT_TRUE(Make(spec, good).plain);
    for (const float number : outside.numbers)
      for (size_t at = 0; at < good.size(); ++at) {
        std::vector<float> x = good;
        x[at] = number;
        EXPECT_FALSE(Make(spec, x).plain)
            << static_cast<int>(outside.id) << " " << number << " at " << at;
      }
  }
}

TEST(PlainFeatures, ZeroIsPlainIfAMapHasIt) {
  std::vector<float> x = Cast<float>(NormalNumbers(kRows * kWidth, 3));
  x[4] = 0;
  x[5] = -1e30f;
  const Made<float> made = Make(SpecOf(FeatureMapId::kRelu, false), x);
  EXPECT_TRUE(made.plain);
  EXPECT_EQ(made.values, made.expected);
  EXPECT_EQ(made.values[4], 0);
  EXPECT_EQ(made.values[5], 0);
}

TEST(PlainFeatures, MapsWithoutAFastPathRefuse) {
  const std::vector<float> x = Cast<float>(NormalNumbers(kRows * kWidth, 3));
  for (const FeatureMapId id :
       {FeatureMapId::kDpfp, FeatureMapId::kPrfHyperbolic, FeatureMapId::kTrf})
    EXPECT_FALSE(Make(SpecOf(id, true), x).plain);
}

// A scale is 1 from a plain first key on until a key exceeds its range.
TEST(KeyScales, StayPlainWhileKeysAre) {
  constexpr int64_t f = 3;
  float scale[f], live[f], largest[f], factor[f];
  RunningKeyScale<float> keys(scale, live, f);
  keys.Clear();
  EXPECT_TRUE(keys.Plain()) << "nothing seen";
  const float values[2 * f] = {1, 0, 0.25f, 3, 0, 0.5f};
  keys.SeePlain(values, 2, largest);
  EXPECT_TRUE(keys.Plain());
  EXPECT_EQ(live[0], 1);
  EXPECT_LE(live[1], kLeastExponent<float>);
  EXPECT_EQ(live[2], -1);

  const float none = kNoExponent<float>;
  const float within[f] = {kPlainHigh, kPlainLow, 0};
  EXPECT_TRUE(keys.Fits(within));
  keys.See(within);
  EXPECT_TRUE(keys.Plain());
  const float large[f] = {kPlainHigh + 1, none, none};
  EXPECT_TRUE(keys.Fits(large));
  keys.See(large);
  EXPECT_FALSE(keys.Plain());

  const float beyond[f] = {50, none, none};
  EXPECT_FALSE(keys.Fits(beyond));
  keys.Raise(beyond, factor);
  EXPECT_EQ(scale[0], 50);
  EXPECT_EQ(factor[0], std::ldexp(1.0f, -50));
  EXPECT_EQ(factor[1], 1);

  keys.Clear();
  const float first[f] = {-2, none, 5};
  EXPECT_FALSE(keys.Fits(first));
  keys.Raise(first, factor);
  keys.See(first);
  EXPECT_EQ(scale[0], 0);
  EXPECT_EQ(scale[2], 0);
  EXPECT_TRUE(keys.Plain());

  keys.Clear();
  const float far[f] = {-60, none, 5};
  keys.Raise(far, factor);
  keys.See(far);
  EXPECT_EQ(scale[0], -60);
  EXPECT_FALSE(keys.Plain());
}

}  // namespace
}  // namespace subquad
