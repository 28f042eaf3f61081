// Every implementation on every kind of hard input: it passes, or its limit is
// listed in known_limits.json. The list is checked both ways: every listed
// limit must occur, and no other may. Where processors differ (in the order of
// sums, or in whether a product is rounded before it is added), a row lists
// every possible outcome, and its number is a range over them.
#include "harness/cases/hard_inputs.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <variant>

#include "harness/cases/generate.h"
#include "harness/cases/verification.h"
#include "harness/judging/trial.h"
#include "harness/registry/registry.h"
#include "tests/every_operator.h"
#include "tests/places.h"

namespace subquad {
namespace {

using Json = nlohmann::json;

// Counts the outcomes for one implementation, scalar type, kind of input and
// choice of parameters.
struct Tally {
  int passed = 0, failed = 0, silent = 0, near = 0, without_digits = 0,
      without_value = 0;
  double over_bound = 0, over_plain = 0;  // the worst of all cases
  std::string first_reason;               // reason of the first failure

  std::string Outcome() const {
    if (failed > 0) return "fails";
    if (without_digits > 0) return "no digit";
    if (passed > 0) return "passed";
    if (near > 0) return "cannot tell";
    if (silent > 0) return "tells nothing";
    return "no value";
  }
};

struct Key {
  std::string implementation, scalar, input, choices;
  std::string form;  // form of the normaliser, see FormOf
  auto operator<=>(const Key&) const = default;
};

std::vector<Json> KnownLimits(const std::string& op) {
  std::ifstream file(std::string(kSourceFolder) +
                     "/tests/harness/judging/known_limits.json");
  const Json table = Json::parse(file);
  std::vector<Json> rows;
  for (const Json& row : table["limits"])
    if (row["operator"] == op) rows.push_back(row);
  return rows;
}

bool Names(const Json& pattern, const std::string& name) {
  if (pattern.is_array())
    return std::ranges::any_of(
        pattern, [&](const Json& entry) { return Names(entry, name); });
  return pattern == "*" || pattern == name;
}

bool Covers(const Json& row, const Key& key) {
  if (row.value("form", "") != key.form) return false;
  if (!Names(row["implementation"], key.implementation) ||
      !Names(row["scalar"], key.scalar) || !Names(row["input"], key.input))
    return false;
  if (!row.contains("with")) return true;
  const Json with =
      row["with"].is_array() ? row["with"] : Json::array({row["with"]});
  return std::ranges::any_of(with, [&](const Json& entry) {
    return (key.choices + ",").find(entry.get<std::string>() + ",") !=
           std::string::npos;
  });
}

// Returns "feature_map=trf" and other parameters chosen by name.
std::string ChoicesOf(const Case& test_case) {
  std::string choices;
  for (const auto& [name, value] : test_case.params.values())
    if (const auto* text = std::get_if<std::string>(&value))
      choices += (choices.empty() ? "" : ",") + name + "=" + *text;
  return choices;
}

// Returns "" if scales cancel, otherwise "eps" or "unnormalised".
std::string FormOf(const Case& test_case) {
  const Params& params = test_case.params;
  if (params.Has("normalized") && !params.Flag("normalized"))
    return "unnormalised";
  return params.Has("eps") && params.Number("eps") > 0 ? "eps" : "";
}

// Returns every variant of the operator, in widths that keep gradients and the
// many cases of maps and schemes cheap, and the first variant for images.
std::vector<Case> EveryCaseOf(const Operator& op, Scalar scalar) {
  std::vector<Case> cases = VerificationCases(op, {3, 48}, scalar, 1);
  // The sharing of tensors does not affect their values.
  std::erase_if(cases, [](const Case& test_case) {
    return test_case.Tokens() > 143 || test_case.leading.batch > 0 ||
           !test_case.leading.own.empty();
  });
  for (Case& test_case : cases) {
    if (ChoicesOf(test_case).empty() && !test_case.backward) continue;
    for (const auto& [name, size] : {std::pair{"d", 16},
                                     {"D", 16},
                                     {"f", 16},
                                     {"p", 8},
                                     {"draws", 16},
                                     {"taps", 4}})
      if (test_case.sizes.contains(name)) test_case.sizes[name] = size;
  }
  return cases;
}

// Thins out operators with very many variants: shapes alternate, so that each
// variant runs on every second shape, in an order that gives neighbouring
// variants (of one map, causal or not, with a window or not) different shapes.
// Images are made small.
constexpr size_t kVeryMany = 185;

std::vector<Case> CasesOf(const Operator& op, Scalar scalar) {
  const std::vector<Case> all = EveryCaseOf(op, scalar);
  if (all.size() <= kVeryMany) return all;
  std::vector<Case> cases;
  std::string variant;
  size_t turn = 0, shape = 0;
  for (const Case& test_case : all) {
    if (!FormOf(test_case).empty()) {
      cases.push_back(test_case);
      continue;
    }
    std::string name;
    for (const auto& [key, value] : test_case.params.values()) {
      name += "," + key;
      if (const auto* flag = std::get_if<bool>(&value))
        name += *flag ? "=1" : "=0";
    }
    name = ChoicesOf(test_case) + name;
    if (name != variant) {
      variant = name;
      shape = turn++;
    }
    if (shape++ % 2 != 0) continue;
    cases.push_back(test_case);
    Params& small = cases.back().params;
    if (small.Has("height")) {
      const bool high = small.Integer("height") > small.Integer("width");
      small.Set("height", int64_t{high ? 8 : 5});
      small.Set("width", int64_t{high ? 5 : 8});
    }
  }
  return cases;
}

// Returns "fft", or "fft@cuda" for the implementation of that name on a device.
std::string NameOf(const Implementation& implementation) {
  return implementation.id +
         (implementation.backend == Backend::kCuda ? "@cuda" : "");
}

void JudgeCase(const Case& test_case, std::map<Key, Tally>& tallies) {
  const Problem problem = ProblemOf(test_case);
  Trial trial(problem, GenerateInputs(test_case, problem), test_case.seed);
  bool has_value = true;
  try {
    const Answer& answer = trial.answer();
    has_value =
        FormOf(test_case) != "unnormalised" || FitsType(problem, answer);
  } catch (const InvalidInput&) {
    has_value = false;
  }
  for (const Implementation* implementation :
       ImplementationsOf(*test_case.op)) {
    if (!WhyNot(*implementation, problem).empty()) continue;
    Tally& tally = tallies[{
        NameOf(*implementation), std::string(Info(test_case.scalar).name),
        test_case.input, ChoicesOf(test_case), FormOf(test_case)}];
    if (!has_value) {
      ++tally.without_value;
      continue;
    }
    const Verdict verdict = Verify(*implementation, trial, {});
    if (verdict.passed()) {
      ++tally.passed;
    } else if (verdict.outcome == Outcome::kMistrusted) {
      const Comparison& numbers = verdict.comparison;
      ++(numbers.without_digits > 0 ? tally.without_digits
         : numbers.zero_reference   ? tally.silent
         : verdict.margin.value < 1 ? tally.near
                                    : tally.silent);
    } else {
      if (tally.failed++ == 0)
        tally.first_reason = test_case.Id() + ": " + verdict.reason;
    }
    tally.over_bound =
        std::max(tally.over_bound, verdict.comparison.max_over_bound);
    tally.over_plain =
        std::max(tally.over_plain, verdict.comparison.over_plain);
  }
}

class HardInputs : public testing::TestWithParam<const Operator*> {};

// The worst number over all cases that a row covers.
struct Used {
  bool any = false;
  double over_bound = 0, over_plain = 0;
  int without_digits = 0;
};

// True if `found` is within a factor of two of a row's number or range.
bool IsAsListed(const Json& row, const char* name, double actual) {
  if (!row.contains(name)) return true;
  const Json& number = row[name];
  const double low = number.is_array() ? number[0] : number;
  const double high = number.is_array() ? number[1] : number;
  return actual > low / 2 && actual < high * 2;
}

void ExpectNumber(const Json& row, const char* name, double actual) {
  EXPECT_TRUE(IsAsListed(row, name, actual))
      << name << " is " << actual << ", not as in " << row;
}

TEST_P(HardInputs, PassOrAreListed) {
  const Operator& op = *GetParam();
  const std::vector<Json> limits =
      KnownLimits(std::string(op.description().id));
  std::map<Key, Tally> tallies;
  for (const HardInput& kind : subquad::HardInputs())
    for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
      for (Case& test_case : CasesOf(op, scalar)) {
        test_case.input = kind.name;
        JudgeCase(test_case, tallies);
      }
  std::vector<Used> used(limits.size());
  std::map<std::string, int> passed_by_form;
  for (const auto& [key, tally] : tallies) {
    // Cases with eps, and unnormalised ones, are only one or two, which may
    // have no value or reveal nothing: none may fail without a row, and each
    // must pass on some input.
    if (!key.form.empty() && std::ranges::none_of(limits, [&](const Json& row) {
          return Covers(row, key);
        })) {
      EXPECT_EQ(tally.failed, 0) << key.form << " " << tally.first_reason;
      passed_by_form[key.implementation + " " + key.scalar + " " + key.choices +
                     " " + key.form] += tally.passed;
      continue;
    }
    Json expected = "passed";
    for (size_t i = 0; i < limits.size(); ++i) {
      if (!Covers(limits[i], key)) continue;
      expected = limits[i]["outcome"];
      used[i].any = true;
      used[i].over_bound = std::max(used[i].over_bound, tally.over_bound);
      used[i].over_plain = std::max(used[i].over_plain, tally.over_plain);
      used[i].without_digits =
          std::max(used[i].without_digits, tally.without_digits);
    }
    EXPECT_TRUE(Names(expected, tally.Outcome()))
        << tally.Outcome() << ", expected " << expected << ": "
        << key.implementation << " " << key.scalar << " " << key.input << " "
        << key.choices << " " << tally.first_reason;
    if (tally.Outcome() != "passed" || expected.is_array())
      fmt::print(
          "{:<30} {:<16} {:<8} {:<12} {:<36} {:<14} error/bound {:.3g} "
          "error/plain {:.3g} without digits {} of {}\n",
          op.description().id, key.implementation, key.scalar, key.input,
          key.choices, tally.Outcome(), tally.over_bound, tally.over_plain,
          tally.without_digits,
          tally.passed + tally.failed + tally.silent + tally.near +
              tally.without_digits);
  }
  for (const auto& [name, passed] : passed_by_form)
    EXPECT_GT(passed, 0) << name;
  for (size_t i = 0; i < limits.size(); ++i) {
    EXPECT_TRUE(used[i].any) << "not there any more: " << limits[i];
    ExpectNumber(limits[i], "error_over_bound", used[i].over_bound);
    ExpectNumber(limits[i], "error_over_plain", used[i].over_plain);
    ExpectNumber(limits[i], "cases_without_digits",
                 static_cast<double>(used[i].without_digits));
  }
}

// Alternating shapes leave out no implementation of any map or scheme.
TEST_P(HardInputs, EveryImplementationRunsWithEveryChoice) {
  const auto met = [](const std::vector<Case>& cases) {
    std::set<std::pair<std::string, std::string>> pairs;
    for (const Case& test_case : cases)
      for (const Implementation* implementation :
           ImplementationsOf(*test_case.op))
        if (WhyNot(*implementation, ProblemOf(test_case)).empty())
          pairs.insert({NameOf(*implementation), ChoicesOf(test_case)});
    return pairs;
  };
  for (const Scalar scalar : {Scalar::kFloat32, Scalar::kFloat64})
    EXPECT_EQ(met(CasesOf(*GetParam(), scalar)),
              met(EveryCaseOf(*GetParam(), scalar)));
}

// A row that allows everything would check nothing.
TEST(HardInputs, RowsWithSeveralOutcomesAndRanges) {
  const Json row = Json::parse(
      R"({"outcome": ["passed", "fails"], "error_over_plain": [3, 10]})");
  EXPECT_TRUE(Names(row["outcome"], "fails"));
  EXPECT_FALSE(Names(row["outcome"], "cannot tell"));
  EXPECT_FALSE(IsAsListed(row, "error_over_plain", 1.5));
  EXPECT_TRUE(IsAsListed(row, "error_over_plain", 1.6));
  EXPECT_TRUE(IsAsListed(row, "error_over_plain", 19));
  EXPECT_FALSE(IsAsListed(row, "error_over_plain", 20));
  EXPECT_FALSE(IsAsListed(row, "error_over_plain", std::nan("")));
  for (const Operator* op : Operators())
    for (const Json& limit : KnownLimits(std::string(op->description().id))) {
      if (!limit["outcome"].is_array()) continue;
      EXPECT_GE(limit["outcome"].size(), 2u) << limit;
      EXPECT_LE(limit["outcome"].size(), 3u) << limit;
      for (const Json& entry : limit["outcome"]) EXPECT_NE(entry, "*") << limit;
      EXPECT_FALSE(limit.value("why", "").empty()) << limit;
    }
}

TEST(HardInputs, ThereAreAtLeastTwenty) {
  EXPECT_GE(subquad::HardInputs().size(), 20u);
}

INSTANTIATE_TEST_SUITE_P(Registry, HardInputs, testing::ValuesIn(Operators()),
                         OperatorId);

}  // namespace

}  // namespace subquad
