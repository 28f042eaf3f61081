// Records of the preset `claims` as theory has them, to be changed, and what
// the rules make of them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

#include "harness/base/registry.h"
#include "harness/papers/claims/claims.h"
#include "harness/papers/claims/rules.h"
#include "harness/results/result_file.h"
#include "harness/sweeps/presets.h"
#include "harness/sweeps/sweep_plan.h"

namespace subquad {

inline void PrintTo(ClaimVerdict verdict, std::ostream* stream) {
  *stream << ToString(verdict);
}

inline constexpr auto kReproduced = ClaimVerdict::kReproduced;
inline constexpr auto kInPart = ClaimVerdict::kInPart;
inline constexpr auto kNotReproduced = ClaimVerdict::kNotReproduced;
inline constexpr auto kWrongAsPrinted = ClaimVerdict::kWrongAsPrinted;
inline constexpr auto kNotMeasured = ClaimVerdict::kNotMeasured;
inline constexpr auto kCannotBeTested = ClaimVerdict::kCannotBeTested;
inline const double kNaN = std::numeric_limits<double>::quiet_NaN();

inline const Claim& FindClaim(const std::string& id) {
  const auto found = std::ranges::find(Claims(), id, &Claim::id);
  if (found == Claims().end()) throw std::logic_error("no claim " + id);
  return *found;
}

inline void SetTime(Json& record, double median, double spread = 0.01) {
  record["seconds"] = {{"median", median},
                       {"low", median * (1 - spread)},
                       {"high", median * (1 + spread)},
                       {"min", median * (1 - spread)},
                       {"max", median * (1 + spread)},
                       {"samples", Json::array({median})},
                       {"stopped_by", "interval"}};
}

inline double Tokens(const Json& record) {
  return record.at("size").at("n_k").get<double>();
}

// Every record of the preset, as theory has it: times by the count of
// operations, workspaces by their formula.
inline const std::vector<Json>& ByTheory() {
  static const std::vector<Json> records = [] {
    std::vector<Json> all;
    for (const Preset& preset : Presets()) {
      if (preset.name != "claims") continue;
      for (const PlannedCase& planned :
           PlanSweep(ParseSweepConfig("claims", preset.text), {}, 1)) {
        const Problem problem = ProblemOf(planned.one);
        for (const Implementation* one : planned.implementations) {
          Verdict verdict;
          verdict.outcome = Outcome::kPassed;
          Json record =
              MakeRecord(planned.one, problem, *one, planned.threads, verdict);
          record["workspace_bytes"] = record["workspace_formula_bytes"];
          SetTime(record, 1e-10 * record["flops"].get<double>());
          all.push_back(std::move(record));
        }
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

inline Records Changed(Records records, const Of& of,
                       const std::function<void(Json&)>& change) {
  int64_t count = 0;
  for (Json& record : records)
    if (of(record)) {
      change(record);
      ++count;
    }
  EXPECT_GT(count, 0) << of.op << " " << of.implementation;
  return records;
}

inline Json ResultFile(const Records& records, const std::string& cpu = "cpu") {
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

inline const std::vector<std::string> kSweepClaims = {
    "frpb-1d-time",   "frpb-1d-memory", "frpb-fig3",
    "frpb-table3",    "lrpe-linear",    "frpb-memory-spe",
    "nprf-memory",    "nprf-time",      "nprf-fig1a",
    "frpb-quadratic", "blog-quadratic", "frpb-rpe-quadratic",
    "frpb-2d-memory", "frpb-map-order", "lrpe-scalability"};

}  // namespace subquad
