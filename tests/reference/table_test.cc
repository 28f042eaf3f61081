#include "reference/contract/table.h"

#include <gtest/gtest.h>

#include <set>

#include "harness/cases/case.h"
#include "harness/cases/verification.h"
#include "harness/registry/registry.h"

namespace subquad {
namespace {

// Asks the table of a GPU about every case of every operator; needs no GPU.
TEST(Table, SaysOfEveryCaseWhetherTheGpuRunsIt) {
  std::set<std::string> reasons;
  for (const Operator* op : Operators()) {
    const std::string id(op->description().id);
    const Implementation row =
        CompleteTable(id, Backend::kCuda, {Scalar::kFloat32}, {{.id = "?"}})
            .front();
    if (!row.why_not) continue;
    for (const Case& test_case :
         VerificationCases(*op, {33}, Scalar::kFloat32, 1)) {
      SCOPED_TRACE(test_case.Id());
      ASSERT_NO_THROW(reasons.insert(row.why_not(ProblemOf(test_case))));
    }
  }
  for (const std::string feature :
       {"packed_q", "key_lengths", "window_left", "softcap", "query_offset",
        "sinks", "slopes", "buckets", "mask", "pair_bias", "lse"})
    EXPECT_TRUE(reasons.contains("this GPU kernel does not support " + feature))
        << feature;
  EXPECT_TRUE(reasons.contains(""));
}

}  // namespace
}  // namespace subquad
