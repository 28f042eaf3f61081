// What times are held against is not less than what programs can do.
#include "optimized/base/machine_peak.h"

#include <gtest/gtest.h>

#include <string>

// Before Highway's own choice.
// clang-format off
#include "optimized/base/highway_targets.h"
#include <hwy/highway.h>
// clang-format on

namespace subquad {
namespace {

// Whatever this file, or machine_peak.cc, was compiled for: in a build for any
// x86-64 programs choose better instructions at run time. (Of the targets that
// Highway lists, those that our kernels leave out repeat the next one.)
TEST(MachinePeak, IsOfTheBestInstructionsOfThisProcessor) {
  const std::string found = InstructionsOfPeak();
  const int64_t supported =
      hwy::SupportedTargets() & ~int64_t{HWY_DISABLED_TARGETS};
#if HWY_ARCH_X86
  const char* const best = (supported & HWY_AVX3)   ? "AVX3"
                           : (supported & HWY_AVX2) ? "AVX2"
                           : (supported & HWY_SSE4) ? "SSE4"
                                                    : "SSE2";
  EXPECT_EQ(found, best);
#else
  EXPECT_NE(supported, 0);
  EXPECT_FALSE(found.empty());
#endif
}

TEST(MachinePeak, IsMeasured) {
  EXPECT_GT(MeasureFlopsPerSecond(false), 1e8);
  EXPECT_GT(MeasureFlopsPerSecond(true), 1e8);
}

}  // namespace
}  // namespace subquad
