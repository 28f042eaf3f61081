// Every implementation on every kind of hard input: it passes, or its limit
// stands in known_limits.json, which is held to be true both ways: what is
// listed must happen, and nothing else may.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/generate.h"
#include "harness/registry.h"
#include "harness/trial.h"
#include "harness/verification.h"

namespace subquad {
namespace {

using Json = nlohmann::json;

// What happened with one implementation, scalar type and kind of input.
struct Tally {
  int passed = 0, failed = 0, silent = 0, without_value = 0;
  double worst = 0;          // error over bound, over all cases
  std::string first_reason;  // of a failure

  std::string Outcome() const {
    if (failed > 0) return "fails";
    if (passed > 0) return "passed";
    if (silent > 0) return "tells nothing";
    return "no value";
  }
};

struct Key {
  std::string implementation, scalar, input;
  auto operator<=>(const Key&) const = default;
};

Json Table() {
  std::ifstream file(std::string(SUBQUAD_SOURCE) + "/tests/known_limits.json");
  return Json::parse(file);
}

std::vector<Json> KnownLimits(const std::string& op) {
  std::vector<Json> rows;
  const Json table = Table();
  for (const Json& row : table["limits"])
    if (row["operator"] == op) rows.push_back(row);
  return rows;
}

bool Covers(const Json& pattern, const std::string& name) {
  return pattern == "*" || pattern == name;
}

void JudgeCase(const Case& one, std::map<Key, Tally>& tallies) {
  const Problem problem = ProblemOf(one);
  Trial trial(problem, GenerateInputs(one, problem), one.seed);
  bool has_value = true;
  try {
    trial.answer();
  } catch (const InvalidInput&) {
    has_value = false;
  }
  for (const Implementation* implementation : ImplementationsOf(*one.op)) {
    if (!WhyNot(*implementation, problem).empty()) continue;
    Tally& tally = tallies[{implementation->id,
                            std::string(Info(one.scalar).name), one.input}];
    if (!has_value) {
      ++tally.without_value;
      continue;
    }
    const Verdict verdict = Verify(*implementation, trial, {});
    if (verdict.passed()) {
      ++tally.passed;
    } else if (verdict.outcome == Outcome::kMistrusted) {
      ++tally.silent;
    } else {
      if (tally.failed++ == 0)
        tally.first_reason = one.Id() + ": " + verdict.reason;
    }
    tally.worst = std::max(tally.worst, verdict.comparison.max_over_bound);
  }
}

class HardInputs : public testing::TestWithParam<const Operator*> {};

TEST_P(HardInputs, PassOrStandInTheTable) {
  const Operator& op = *GetParam();
  const std::vector<Json> limits =
      KnownLimits(std::string(op.description().id));
  std::map<Key, Tally> tallies;
  for (const Recipe& recipe : Recipes())
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      for (Case& one : VerificationCases(op, {3, 48}, scalar, 1)) {
        one.input = recipe.name;
        JudgeCase(one, tallies);
      }
  std::set<size_t> used;
  for (const auto& [key, tally] : tallies) {
    std::string expected = "passed";
    for (size_t i = 0; i < limits.size(); ++i)
      if (Covers(limits[i]["implementation"], key.implementation) &&
          Covers(limits[i]["scalar"], key.scalar) &&
          Covers(limits[i]["input"], key.input)) {
        expected = limits[i]["outcome"];
        used.insert(i);
        const double number = limits[i].value("error_over_bound", 0.0);
        if (number > 0) {
          EXPECT_TRUE(tally.worst > number / 2 && tally.worst < number * 2)
              << key.implementation << " " << key.scalar << " " << key.input
              << ": error over bound is " << tally.worst << ", not " << number;
        }
      }
    EXPECT_EQ(tally.Outcome(), expected)
        << key.implementation << " " << key.scalar << " " << key.input << " "
        << tally.first_reason;
    if (tally.Outcome() != "passed")
      fmt::print("{:<30} {:<16} {:<8} {:<12} {}\n", op.description().id,
                 key.implementation, key.scalar, key.input, tally.Outcome());
  }
  for (size_t i = 0; i < limits.size(); ++i)
    EXPECT_TRUE(used.contains(i)) << "not there any more: " << limits[i];
}

TEST(HardInputs, ThereAreAtLeastTwenty) { EXPECT_GE(Recipes().size(), 20u); }

std::vector<const Operator*> HeldOperators() {
  std::vector<const Operator*> held = Operators();
  const Json table = Table();
  for (const Json& name : table["not held yet"])
    std::erase(held, &FindOperator(name.get<std::string>()));
  return held;
}

INSTANTIATE_TEST_SUITE_P(
    Registry, HardInputs, testing::ValuesIn(HeldOperators()),
    [](const testing::TestParamInfo<const Operator*>& one) {
      return std::string(one.param->description().id);
    });

}  // namespace

void PrintTo(const Operator* const& op, std::ostream* stream) {
  *stream << op->description().id;
}

}  // namespace subquad
