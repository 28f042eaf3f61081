#include "harness/commands/tally.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/base/text.h"

namespace subquad {

void Tally::Add(const Verdict& verdict) {
  passed += verdict.outcome == Outcome::kPassed;
  failed += verdict.outcome == Outcome::kFailed;
  mistrusted += verdict.outcome == Outcome::kMistrusted;
  skipped += verdict.outcome == Outcome::kSkipped;
  findings += !verdict.gates.empty();
  if (verdict.outcome == Outcome::kSkipped) ++skipped_for[verdict.reason];
  over_bound = std::max(over_bound, verdict.comparison.max_over_bound);
  over_plain = std::max(over_plain, verdict.comparison.over_plain);
  if (verdict.passed() && verdict.margin.value < least.value)
    least = verdict.margin;
}

std::string Tally::ErrorsText() const {
  if (passed + failed + mistrusted == 0) return "";
  std::string text = fmt::format(
      "  error/bound <= {:.3g}  error/plain <= {:.3g}", over_bound, over_plain);
  if (!least.nearest.empty())
    text += fmt::format("  margin >= {:.3g} ({})", least.value, least.nearest);
  if (findings > 0)
    text += fmt::format("  (only the norm-wise gate holds in {})",
                        Counted(findings, "case"));
  return text;
}

std::string Tally::SkippedText() const {
  if (skipped == 0) return "";
  const auto commonest = std::ranges::max_element(
      skipped_for, {}, [](const auto& entry) { return entry.second; });
  const size_t others = skipped_for.size() - 1;
  return fmt::format(
      "  reason: {}{}", commonest->first,
      others == 0 ? ""
                  : fmt::format(", and {}", Counted(others, "other reason")));
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
          "mistrusted {:4} skipped{}{}\n",
          implementation.op, implementation.id,
          ToString(implementation.backend), Info(scalar).name, tally.passed,
          tally.failed, tally.mistrusted, tally.skipped, tally.ErrorsText(),
          tally.SkippedText());
  }
  fmt::print("{} passed, {} failed, {} mistrusted, {} skipped\n", total_.passed,
             total_.failed, total_.mistrusted, total_.skipped);
}

}  // namespace subquad
