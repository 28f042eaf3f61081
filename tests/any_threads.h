// Helpers for tests of an operator's shapes: compare every implementation with
// the definition, and with itself on more threads.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "harness/judging/operator_run.h"

namespace subquad {

// Expects float64 results within a tolerance on one thread, and the same bits
// on three.
inline void ExpectDefinition(const OperatorRun& run, double tolerance) {
  const Numbers expected = run.Definition();
  ASSERT_FALSE(run.Programs().empty());
  for (const std::string& program : run.Programs()) {
    const Numbers out = run.Run(program);
    EXPECT_LE(LargestDifference(out, expected), tolerance) << program;
    EXPECT_EQ(run.Run(program, Scalar::kFloat64, 3), out) << program;
  }
}

}  // namespace subquad
