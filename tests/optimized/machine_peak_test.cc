// The measured lower bounds that times are compared with.
#include "optimized/base/machine_peak.h"

#include <gtest/gtest.h>

namespace subquad {
namespace {

TEST(MachinePeak, IsMeasured) {
  EXPECT_GT(MeasureFlopsPerSecond(false), 1e8);
  EXPECT_GT(MeasureFlopsPerSecond(true), 1e8);
}

}  // namespace
}  // namespace subquad
