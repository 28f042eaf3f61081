#include "reference/contract/table.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>

#include "harness/cases/case.h"
#include "harness/cases/verification.h"
#include "harness/registry/registry.h"
#include "reference/contract/not_taken.h"

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

// What is listed as not taken is refused, and no more.
TEST(Table, NamesWhatTheGpuDoesNotTake) {
  Implementation plain{.id = "plain"}, able{.id = "able"};
  able.takes = {"query_offset", "sinks", "lse", "mask"};
  const std::vector<std::string> all = NamesNotTaken(plain);
  const std::vector<std::string> rest = NamesNotTaken(able);
  EXPECT_EQ(rest.size() + able.takes.size(), all.size());
  for (const std::string& name : able.takes) {
    EXPECT_EQ(std::ranges::count(all, name), 1) << name;
    EXPECT_EQ(std::ranges::count(rest, name), 0) << name;
  }
  for (const Implementation& row :
       CompleteTable("softmax_attention", Backend::kCuda, {Scalar::kFloat32},
                     {plain, able})) {
    for (const std::string name : {"sinks", "mask", "slopes", "buckets"}) {
      const Case test_case =
          MakeCase(ParseCaseId("softmax_attention:n=20,with=" + name));
      const std::vector<std::string> names = NamesNotTaken(row);
      const bool listed = std::ranges::count(names, name) > 0;
      EXPECT_EQ(row.why_not(ProblemOf(test_case)),
                listed ? "this GPU kernel does not support " + name : "")
          << row.id << " " << name;
    }
  }
}

// What a CPU program's algorithm refuses is what it lists, and nothing else of
// these options.
TEST(Table, NamesWhatAlgorithmsRefuse) {
  struct Option {
    std::string name, setting;
    bool of_pairs = false;
  };
  const Option options[] = {
      {"window_left", ",window_left=3"}, {"window_right", ",window_right=3"},
      {"mask", ",with=mask", true},      {"", ",with=mask,shared=mask:queries"},
      {"", ",query_offset=2"},           {"", ",packed_q=9+11,packed_k=9+11"}};
  size_t refused = 0;
  for (const std::string op : {"linear_attention:feature_map=elu1",
                               "kernelized_rpe_attention:feature_map=elu1"})
    for (const std::string causal : {",causal=0", ",causal=1"}) {
      const auto problem_with = [&](const std::string& setting) {
        return ProblemOf(MakeCase(ParseCaseId(
            op + causal + (setting.starts_with(",packed") ? "" : ",n=20") +
            setting)));
      };
      const Problem plain = problem_with("");
      for (const Implementation* row : ImplementationsOf(*plain.op)) {
        if (row->backend != Backend::kCpu ||
            (row->why_not && !row->why_not(plain).empty()))
          continue;
        for (const Option& option : options) {
          const auto listed =
              std::ranges::find_if(row->refuses, [&](const Refusal& refusal) {
                return refusal.name == option.name &&
                       refusal.for_pairs_only == option.of_pairs;
              });
          const std::string reason =
              row->why_not ? row->why_not(problem_with(option.setting)) : "";
          EXPECT_EQ(reason, listed == row->refuses.end()
                                ? ""
                                : option.name + ": " + listed->why)
              << op << causal << " " << row->id << option.setting;
          refused += !reason.empty();
        }
      }
    }
  EXPECT_GT(refused, 12U);
}

}  // namespace
}  // namespace subquad
