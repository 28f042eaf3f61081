// Every target that this machine supports gives correct answers, and only one
// of them runs at a time.
#include "optimized/targets.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <map>
#include <set>
#include <string>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"
#include "tests/on_target.h"

namespace subquad {
namespace {

class OnEveryTarget : public testing::TestWithParam<const Operator*> {};

// Selects some variants, evenly spread over all of them: exhaustive tests run
// on the best target only, or in the slow hard_inputs_test.
std::vector<Case> SomeCases(const Operator& op, Scalar scalar) {
  constexpr size_t kMost = 12;
  // At this size vectors and tiles of every width end within a row.
  std::vector<Case> all = VerificationCases(op, {67}, scalar, 3), some;
  const size_t step = (all.size() + kMost - 1) / kMost;
  for (size_t i = 0; i < all.size(); i += step)
    some.push_back(std::move(all[i]));
  return some;
}

TEST_P(OnEveryTarget, AwkwardSizesAreRight) {
  const Operator& op = *GetParam();
  std::map<std::string, int> passed;
  for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    for (const Case& test_case : SomeCases(op, scalar)) {
      const Problem problem = ProblemOf(test_case);
      Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
      for (const std::string& name : NamesOfTargets()) {
        const ChosenTarget target(name);
        for (const Implementation* implementation : ImplementationsOf(op)) {
          if (implementation->backend != Backend::kCpu) continue;
          if (!WhyNot(*implementation, problem).empty()) continue;
          const Verdict verdict = Verify(*implementation, trial, {});
          EXPECT_NE(verdict.outcome, Outcome::kFailed)
              << name << " " << implementation->id << " " << test_case.Id()
              << ": " << verdict.reason;
          passed[name + " " + implementation->id] += verdict.passed();
        }
      }
    }
  ASSERT_FALSE(passed.empty());
  for (const auto& [program, count] : passed) EXPECT_GT(count, 0) << program;
}

INSTANTIATE_TEST_SUITE_P(Targets, OnEveryTarget, testing::ValuesIn(Operators()),
                         OperatorId);

// Otherwise one target would be tested under the names of all.
TEST(Targets, RunTheirOwnCode) {
  std::set<const void*> tables;
  std::set<std::string> names;
  for (const Target* target : Targets()) {
    tables.insert(reinterpret_cast<const void*>(target->implementations));
    names.insert(target->name);
    const ChosenTarget chosen(target->name);
    EXPECT_EQ(&CurrentTarget(), target);
    EXPECT_STREQ(std::getenv("SUBQUAD_TARGET"), target->name);
  }
  EXPECT_EQ(tables.size(), Targets().size());
  EXPECT_EQ(names.size(), Targets().size());
}

}  // namespace
}  // namespace subquad
