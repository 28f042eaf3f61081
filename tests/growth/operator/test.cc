// Properties of averages, each with a control that can fail.
#include <gtest/gtest.h>

#include <algorithm>

#include "harness/judging/operator_run.h"

namespace subquad {
namespace {

constexpr int64_t kTokens = 1201, kWidth = 7;

OperatorRun Average(uint64_t seed) {
  OperatorRun run("average_attention");
  run.Give("v", {kTokens, kWidth}, NormalNumbers(kTokens * kWidth, seed));
  return run;
}

// The average of constant values is that constant.
TEST(AverageAttention, ConstantValuesStay) {
  OperatorRun run = Average(1);
  run["v"].assign(run["v"].size(), 3);
  const Numbers expected = run["v"];
  for (const std::string& program : run.Programs())
    EXPECT_LE(LargestDifference(run.Run(program), expected), 1e-13) << program;
  run["v"][0] = 4;  // the control
  for (const std::string& program : run.Programs())
    EXPECT_GT(LargestDifference(run.Run(program), expected), 0.5) << program;
}

TEST(AverageAttention, NoRowSeesTheNext) {
  OperatorRun run = Average(2);
  for (const std::string& program : run.Programs()) {
    OperatorRun other = Average(2);
    const Numbers before = other.Run(program);
    other["v"][600 * kWidth] = 1e6;
    const Numbers after = other.Run(program);
    const auto differs = std::ranges::mismatch(before, after).in1;
    EXPECT_EQ(differs - before.begin(), 600 * kWidth) << program;
  }
}

}  // namespace
}  // namespace subquad
