// Every mutant must be refused: a fault planted in a copy of an algorithm's
// file, which `verify` must catch on one of the cases chosen for it. With all
// mutants off the same copies must pass the same cases.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "optimized/targets.h"
#include "tests/mutants/switch.h"
#include "tests/places.h"

namespace subquad {

namespace mutants {
int on = kNone;
std::atomic<bool> reached = false;
}  // namespace mutants

namespace {

// Chooses the target whose files contain the mutants.
const bool chosen = [] {
  ChooseTarget(SUBQUAD_MUTANTS_TARGET);
  return true;
}();

struct Mutant {
  int number = 0;
  std::string name, what;
};

// The mutants of one implementation that are verified on the same cases.
struct Group {
  const Operator* op = nullptr;
  const Implementation* implementation = nullptr;
  std::string case_id;  // or all cases of the operator
  std::vector<Mutant> mutants;
};

void PrintTo(const Group& group, std::ostream* stream) {
  *stream << group.mutants.size() << " mutants";
}

constexpr Backend kBackend =
    SUBQUAD_EMULATED_MUTANTS ? Backend::kCuda : Backend::kCpu;

std::vector<Group> Groups() {
  std::ifstream file(std::string(kSourceFolder) +
                     "/tests/mutants/" SUBQUAD_MUTANTS_TABLE);
  std::map<std::string, Group> groups;
  int number = 0;
  for (const nlohmann::json& row : nlohmann::json::parse(file)) {
    const Operator& op = FindOperator(row.at("operator").get<std::string>());
    const auto id = row.at("implementation").get<std::string>();
    const std::string case_id = row.value("case", "");
    Group& group =
        groups[fmt::format("{} {} {}", op.description().id, id, case_id)];
    group.op = &op;
    group.implementation =
        &FindImplementation(op.description().id, id, kBackend);
    group.case_id = case_id;
    group.mutants.push_back({++number, row.at("name").get<std::string>(),
                             row.at("what").get<std::string>()});
  }
  std::vector<Group> all;
  for (auto& [key, group] : groups) all.push_back(std::move(group));
  return all;
}

// Returns cases, beginning with sizes that show most faults. In float32 a fault
// is harder to distinguish from rounding than in float64; an implementation
// without float32 uses its first type. An emulated device is slow, so it gets
// only a few sizes.
std::vector<Case> CasesOf(const Group& group) {
  if (!group.case_id.empty()) return {MakeCase(ParseCaseId(group.case_id))};
  const std::vector<Scalar>& scalars = group.implementation->scalars;
  const Scalar scalar = std::ranges::count(scalars, Scalar::kFloat32)
                            ? Scalar::kFloat32
                            : scalars.front();
  std::vector<Case> cases;
  const auto add = [&](const std::vector<int64_t>& more) {
    std::vector<Case> added = VerificationCases(*group.op, more, scalar, 1);
    // Gradients take longer, and most faults show without them.
    std::ranges::stable_sort(added, {}, &Case::backward);
    std::ranges::move(added, std::back_inserter(cases));
  };
  for (const int64_t size : {70, 33, 5}) add({size});
  if (kBackend == Backend::kCpu) add(AwkwardSizes());
  return cases;
}

struct Refusals {
  int cases = 0;                          // judged with all mutants off
  std::vector<std::string> passed;        // mutants that no case refused
  std::vector<std::string> false_alarms;  // cases that fail with all off
};

Refusals Judge(const Group& group) {
  Refusals refusals;
  std::vector<Mutant> left = group.mutants;
  std::map<int, bool> reached;
  std::map<int, std::string> reasons;  // reason of the last verdict
  const auto judge = [&](Trial& trial, int number) {
    mutants::on = number;
    mutants::reached = false;
    const Verdict verdict = Verify(*group.implementation, trial, {});
    mutants::on = mutants::kNone;
    reached[number] |= mutants::reached;
    reasons[number] =
        verdict.passed() ? "passed" : "not failed: " + verdict.reason;
    return verdict;
  };
  for (const Case& test_case : CasesOf(group)) {
    if (left.empty()) break;
    const Problem problem = ProblemOf(test_case);
    if (!WhyNot(*group.implementation, problem).empty()) continue;
    Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
    const Verdict control = judge(trial, mutants::kNone);
    if (control.outcome == Outcome::kSkipped || control.cannot_tell()) continue;
    ++refusals.cases;
    if (!control.passed()) {
      refusals.false_alarms.push_back(test_case.Id() + ": " + control.reason);
      continue;
    }
    std::erase_if(left, [&](const Mutant& mutant) {
      return judge(trial, mutant.number).outcome == Outcome::kFailed;
    });
  }
  for (const Mutant& mutant : left)
    refusals.passed.push_back(fmt::format(
        "{} ({}), {}", mutant.name, mutant.what,
        reached[mutant.number] ? "though it ran: " + reasons[mutant.number]
                               : "which never ran"));
  return refusals;
}

class Mutants : public testing::TestWithParam<Group> {};

TEST_P(Mutants, AreRefused) {
  const Refusals refusals = Judge(GetParam());
  EXPECT_GT(refusals.cases, 0);
  for (const std::string& mutant : refusals.passed) ADD_FAILURE() << mutant;
  for (const std::string& alarm : refusals.false_alarms) ADD_FAILURE() << alarm;
}

// A switch number that no copy knows breaks nothing.
TEST(MutantsTest, AMutantWithoutEffectIsReported) {
  Group group = Groups().front();
  group.case_id = fmt::format("{}:n=33", group.op->description().id);
  group.mutants = {{-1, "nothing", "no copy knows it"}};
  const Refusals refusals = Judge(group);
  EXPECT_EQ(refusals.cases, 1);
  ASSERT_EQ(refusals.passed.size(), 1u);
  EXPECT_NE(refusals.passed[0].find("never ran"), std::string::npos);
}

#if !SUBQUAD_EMULATED_MUTANTS
TEST(MutantsTest, EveryOperatorHasTwo) {
  std::map<std::string_view, size_t> counts;
  for (const Group& group : Groups())
    counts[group.op->description().id] += group.mutants.size();
  for (const Operator* op : Operators())
    EXPECT_GE(counts[op->description().id], 2u)
        << op->description().id << ": see tests/mutants/README.md";
}
#endif

std::string NameOf(const testing::TestParamInfo<Group>& info) {
  const Group& group = info.param;
  if (!group.case_id.empty()) return group.mutants.front().name;
  return fmt::format("{}_{}", group.op->description().id,
                     group.implementation->id);
}

INSTANTIATE_TEST_SUITE_P(Programs, Mutants, testing::ValuesIn(Groups()),
                         NameOf);

}  // namespace
}  // namespace subquad
