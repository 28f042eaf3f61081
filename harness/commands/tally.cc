#include "harness/commands/tally.h"

#include <fmt/format.h>

#include <algorithm>

namespace subquad {

void Tally::Add(const Verdict& verdict) {
  passed += verdict.outcome == Outcome::kPassed;
  failed += verdict.outcome == Outcome::kFailed;
  mistrusted += verdict.outcome == Outcome::kMistrusted;
  skipped += verdict.outcome == Outcome::kSkipped;
  findings += !verdict.gates.empty();
  over_bound = std::max(over_bound, verdict.comparison.max_over_bound);
  over_plain = std::max(over_plain, verdict.comparison.over_plain);
  if (verdict.passed() && verdict.margin.value < least.value)
    least = verdict.margin;
}

void TallyTable::Add(const Implementation& implementation, Scalar scalar,
                     const Verdict& verdict) {
  rows_[&implementation][scalar].Add(verdict);
  total_.Add(verdict);
}

void TallyTable::Print() const {
  for (const Implementation& implementation : Implementations()) {
    const auto position = rows_.find(&implementation);
    if (position == rows_.end()) continue;
    for (const auto& [scalar, tally] : position->second)
      fmt::print(
          "{:<34} {:<14} {:<5} {:<9} {:5} passed {:3} failed {:3} "
          "mistrusted {:4} skipped   error/bound <= {:.3g}  error/plain "
          "<= {:.3g}  margin >= {:.3g}{}{}\n",
          implementation.op, implementation.id,
          ToString(implementation.backend), Info(scalar).name, tally.passed,
          tally.failed, tally.mistrusted, tally.skipped, tally.over_bound,
          tally.over_plain, tally.least.value,
          tally.least.nearest.empty() ? "" : " (" + tally.least.nearest + ")",
          tally.findings ? fmt::format("  (the gates disagree in {} cases)",
                                       tally.findings)
                         : "");
  }
  fmt::print("{} passed, {} failed, {} mistrusted, {} skipped\n", total_.passed,
             total_.failed, total_.mistrusted, total_.skipped);
}

}  // namespace subquad
