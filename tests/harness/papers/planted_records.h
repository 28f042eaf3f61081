// Records of the recipes that claims use, as theory predicts them, to be
// changed, and the verdicts of the rules on them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <iterator>
#include <limits>
#include <set>
#include <string>
#include <vector>

#include "harness/papers/claims.h"
#include "harness/papers/papers.h"
#include "harness/registry/registry.h"
#include "harness/results/recipe.h"
#include "harness/results/result_file.h"
#include "harness/sweeps/presets.h"
#include "harness/sweeps/sweep_plan.h"

namespace subquad {

inline void PrintTo(ClaimVerdict verdict, std::ostream* stream) {
  *stream << ToString(verdict);
}

inline constexpr auto kReproduced = ClaimVerdict::kReproduced;
inline constexpr auto kByConstruction = ClaimVerdict::kByConstruction;
inline constexpr auto kInPart = ClaimVerdict::kInPart;
inline constexpr auto kNotReproduced = ClaimVerdict::kNotReproduced;
inline constexpr auto kWrongAsPrinted = ClaimVerdict::kWrongAsPrinted;
inline constexpr auto kNotMeasured = ClaimVerdict::kNotMeasured;
inline constexpr auto kNotAttempted = ClaimVerdict::kNotAttempted;
inline constexpr auto kCannotBeTested = ClaimVerdict::kCannotBeTested;
inline const double kNaN = std::numeric_limits<double>::quiet_NaN();

inline void SetTime(Json& record, double median, double spread = 0.01) {
  record["seconds"] = {{"median", median},
                       {"low", median * (1 - spread)},
                       {"high", median * (1 + spread)},
                       {"min", median * (1 - spread)},
                       {"max", median * (1 + spread)},
                       {"samples", Json(std::vector<double>(6, median))},
                       {"stopped_by", "interval"}};
}

inline double Tokens(const Json& record) {
  return record.at("size").at("n_k").get<double>();
}

// Recipes of GPU kernels are planned on a machine with a GPU only.
inline bool CanPlan(const std::string& recipe) {
  return std::ranges::all_of(ParseSweepConfig(recipe, FindPreset(recipe).text),
                             [](const SweepAxes& sweep) {
                               return !std::ranges::count(
                                   sweep.filters.backends, "cuda");
                             });
}

// Returns every record of the recipes as theory predicts it: times by the count
// of operations, workspaces by their formula.
inline const std::vector<Json>& ByTheory() {
  static const std::vector<Json> records = [] {
    std::set<std::string> recipes;
    for (const Claim& claim : Claims())
      std::ranges::copy_if(claim.recipes, std::inserter(recipes, recipes.end()),
                           CanPlan);
    std::vector<Json> all;
    std::set<Settings> known;  // recipes share points
    for (const std::string& name : recipes)
      for (const PlannedCase& planned :
           PlanSweep(ParseSweepConfig(name, FindPreset(name).text), {}, 1)) {
        const Problem problem = ProblemOf(planned.test_case);
        for (const Implementation* implementation : planned.implementations) {
          Verdict verdict;
          verdict.outcome = Outcome::kPassed;
          Json record =
              ToJson(MakeRecord(planned.test_case, problem, *implementation,
                                planned.threads, verdict));
          record["workspace_bytes"] = record["workspace_formula_bytes"];
          SetTime(record, 1e-10 * record["flops"].get<double>());
          if (known.insert(SettingsOf(record)).second)
            all.push_back(std::move(record));
        }
      }
    return all;
  }();
  return records;
}

struct Of {
  std::string op, implementation;  // "": any
  bool operator()(const Json& record) const {
    return record.at("operator") == op &&
           (implementation.empty() ||
            record.at("implementation") == implementation);
  }
};

using Records = std::vector<Json>;

inline Records Changed(Records records, const Of& selection,
                       const std::function<void(Json&)>& change) {
  int64_t count = 0;
  for (Json& record : records)
    if (selection(record)) {
      change(record);
      ++count;
    }
  EXPECT_GT(count, 0) << selection.op << " " << selection.implementation;
  return records;
}

// Returns a result file. Rounds workspaces, which tests compute as numbers.
inline Json ResultFile(Records records, const std::string& cpu = "cpu") {
  for (Json& record : records)
    if (Json& bytes = record["workspace_bytes"];
        bytes.is_number() && std::isfinite(bytes.get<double>()))
      bytes = std::llround(bytes.get<double>());
  return {{"format", "results/1"},
          {"environment", {{"cpu", cpu}, {"commit", "0123456789ab"}}},
          {"records", records}};
}

inline Evidence From(const Records& records) {
  Evidence evidence;
  AddResults(ResultFile(records), "planted", evidence);
  return evidence;
}

inline Finding FindingOf(const std::string& id, const Records& records) {
  return FindClaim(id).rule(From(records));
}

inline ClaimVerdict VerdictOf(const std::string& id, const Records& records) {
  return FindingOf(id, records).verdict();
}

// Returns the claims that only records answer.
inline std::vector<std::string> SweepClaims() {
  std::vector<std::string> ids;
  for (const Claim& claim : Claims())
    if (claim.kind() == ClaimKind::kSweep &&
        std::ranges::all_of(claim.recipes, CanPlan) &&
        claim.rule({}).verdict() == kNotMeasured)
      ids.push_back(claim.id);
  return ids;
}

}  // namespace subquad
