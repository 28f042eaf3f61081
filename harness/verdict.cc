#include "harness/verdict.h"

#include <fmt/format.h>

#include <cmath>

namespace subquad {
namespace {

std::string Place(const Comparison& comparison) {
  return fmt::format("{} head {} row {} column {}", comparison.output,
                     comparison.worst.head, comparison.worst.row,
                     comparison.worst_column);
}

}  // namespace

std::string_view ToString(Outcome outcome) {
  switch (outcome) {
    case Outcome::kPassed:
      return "passed";
    case Outcome::kFailed:
      return "failed";
    case Outcome::kMistrusted:
      return "mistrusted";
    case Outcome::kSkipped:
      return "skipped";
  }
  return "";
}

Verdict Verdict::Skipped(std::string reason) {
  return {Outcome::kSkipped, std::move(reason), "", {}};
}

Verdict Verdict::Failed(std::string reason) {
  return {Outcome::kFailed, std::move(reason), "", {}};
}

Verdict Judge(const Comparison& comparison, bool norm_wise,
              int64_t broken_guards) {
  Verdict verdict{Outcome::kPassed, "", "", comparison};
  const auto set = [&](Outcome outcome, std::string reason) {
    verdict.outcome = outcome;
    verdict.reason = std::move(reason);
    return verdict;
  };
  if (broken_guards > 0)
    return set(Outcome::kFailed,
               fmt::format("wrote outside of {} of its arrays", broken_guards));
  if (comparison.elements == 0)
    return set(Outcome::kMistrusted, "nothing was compared");
  if (comparison.untouched == comparison.elements)
    return set(Outcome::kMistrusted, "the output was not touched");
  if (comparison.not_finite > 0)
    return set(
        Outcome::kFailed,
        fmt::format("{} of {} elements are NaN or infinite ({} not written)",
                    comparison.not_finite, comparison.elements,
                    comparison.untouched));
  if (comparison.zero_reference)
    return set(Outcome::kMistrusted, "the reference is zero everywhere");
  const bool within_bound = comparison.max_over_bound <= 1;
  const bool within_yardstick = comparison.over_plain <= kYardstickFactor;
  if (!within_bound)
    return set(Outcome::kFailed,
               fmt::format("error {:.3g} times its bound at {}",
                           comparison.max_over_bound, Place(comparison)));
  if (within_yardstick || comparison.elements < kYardstickElements)
    return verdict;
  if (norm_wise) {
    verdict.gates = fmt::format(
        "within its norm-wise bound ({:.3g} of it), but {:.3g} times the error "
        "of the plain dense program",
        comparison.max_over_bound, comparison.over_plain);
    return verdict;
  }
  return set(Outcome::kFailed,
             fmt::format("error {:.3g} times that of the plain dense program "
                         "({:.3g} of its bound) at {}",
                         comparison.over_plain, comparison.max_over_bound,
                         Place(comparison)));
}

}  // namespace subquad
