#include "harness/judging/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

namespace subquad {
namespace {

// Describes the elements that have no finite error bound.
std::string NoDigits(const Comparison& comparison) {
  return fmt::format(
      "no tolerance can be derived for {} of {} elements in {} (first at {}): "
      "rounding alone can change every digit there, even in a plain program",
      comparison.without_digits, comparison.elements,
      Info(comparison.scalar).name, comparison.first_without_digits.Text());
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
  return {.outcome = Outcome::kSkipped,
          .cause = Reason::kInWords,
          .reason = std::move(reason)};
}

Verdict Verdict::Failed(std::string reason) {
  return {.outcome = Outcome::kFailed,
          .cause = Reason::kInWords,
          .reason = std::move(reason)};
}

namespace {

// Returns the largest error that gate 2 accepts.
double LimitOf(const Yardstick& yardstick) {
  return kYardstickFactor * yardstick.plain + yardstick.given;
}

double OverLimit(const Yardstick& yardstick) {
  return yardstick.error > 0 ? yardstick.error / LimitOf(yardstick) : 0;
}

}  // namespace

double OverYardstick(const Comparison& comparison) {
  double most = 0;
  for (const Yardstick& yardstick : comparison.yardsticks)
    most = std::max(most, OverLimit(yardstick));
  return most;
}

DecidingGate DecidingGateOf(const Comparison& comparison, bool norm_wise) {
  DecidingGate deciding{1,
                        std::isinf(comparison.max_over_bound)
                            ? comparison.max_error
                            : comparison.max_over_bound * comparison.bound,
                        comparison.bound};
  double most = comparison.max_over_bound;
  if (norm_wise) return deciding;
  for (const Yardstick& yardstick : comparison.yardsticks) {
    const double over = OverLimit(yardstick);
    if (!(over > most)) continue;
    most = over;
    deciding = {2, yardstick.error, LimitOf(yardstick)};
  }
  return deciding;
}

double DistanceOf(const Comparison& comparison, bool bound_alone) {
  if (comparison.not_finite > 0) return std::numeric_limits<double>::infinity();
  return std::max(comparison.max_over_bound,
                  bound_alone ? 0 : OverYardstick(comparison));
}

namespace {

// Describes a failure by the gate that decides, whose error and tolerance are
// printed too. Only gate 1 knows which element is the worst.
std::string BeyondTolerance(const Comparison& comparison, bool norm_wise) {
  const DecidingGate deciding = DecidingGateOf(comparison, norm_wise);
  const std::string place = comparison.worst.Text();
  if (std::isinf(deciding.error))
    return place + " is -inf in the output or in the right answer, not in both";
  if (deciding.gate == 1)
    return fmt::format(
        "{} has an error of {:.3g}, which is {:.3g} times its tolerance of "
        "{:.3g}",
        place, deciding.error, comparison.max_over_bound, deciding.tolerance);
  return fmt::format(
      "the error is {:.3g} times that of a plain program of this precision "
      "(allowed: {:g}); by the derived bound alone it is {:.3g} times the "
      "tolerance at {}",
      kYardstickFactor * OverYardstick(comparison), kYardstickFactor,
      comparison.max_over_bound, place);
}

// Returns rows that were not judged although the output passed, because the
// gates that decide accept anything there.
std::vector<BlindSpot> OpenRowsOf(const Comparison& comparison,
                                  bool norm_wise) {
  std::vector<BlindSpot> spots;
  for (size_t o = 0; o < comparison.open_rows.size(); ++o) {
    const OpenRows& open = comparison.open_rows[o];
    if (open.count == 0) continue;
    const double limit =
        norm_wise ? open.tolerance
                  : std::min(open.tolerance, LimitOf(comparison.yardsticks[o]));
    if (limit <= open.largest) continue;
    spots.push_back(
        {fmt::format("any values in {} rows, the first at {}, where rounding "
                     "can change every digit",
                     open.count, open.first.RowText()),
         open.largest / limit, "smaller numbers there"});
  }
  return spots;
}

}  // namespace

Verdict Judge(const Comparison& comparison, const Margin& margin,
              bool norm_wise, int64_t broken_guards, NumbersFrom from) {
  Verdict verdict{.outcome = Outcome::kPassed,
                  .cause = Reason::kNone,
                  .comparison = comparison,
                  .margin = margin};
  const auto set = [&](Outcome outcome, Reason cause, std::string reason) {
    verdict.outcome = outcome;
    verdict.cause = cause;
    verdict.reason = std::move(reason);
    return verdict;
  };
  if (broken_guards > 0)
    return set(Outcome::kFailed, Reason::kWroteOutOfBounds,
               fmt::format("it wrote outside the bounds of {} of its arrays",
                           broken_guards));
  if (comparison.elements == 0)
    return set(Outcome::kMistrusted, Reason::kNothingCompared,
               "nothing was compared");
  if (comparison.untouched == comparison.elements)
    return set(Outcome::kMistrusted, Reason::kNothingWritten,
               "nothing was written to the output");
  if (comparison.not_finite > 0)
    return set(
        Outcome::kFailed, Reason::kNotFinite,
        fmt::format("{} of {} elements are NaN or infinite ({} not written)",
                    comparison.not_finite, comparison.elements,
                    comparison.untouched));
  const bool beyond_bound = !(comparison.max_over_bound <= 1);
  const bool beyond_plain = !(OverYardstick(comparison) <= 1);
  if (comparison.zero_reference && !beyond_bound && !beyond_plain)
    return set(Outcome::kMistrusted, Reason::kZeroAnswer,
               "the expected output is zero everywhere, so that an output that "
               "was never computed would pass too");
  if (comparison.lost_bounds > 0)
    return set(Outcome::kFailed, Reason::kLostBounds,
               fmt::format("{} for {} of {} elements, first at {}",
                           norm_wise ? "its own error bound is infinite, but a "
                                       "plain program's is finite,"
                                     : "its error bound is not a number",
                           comparison.lost_bounds, comparison.elements,
                           comparison.first_lost_bound.Text()));
  if (beyond_bound || (beyond_plain && !norm_wise))
    return set(Outcome::kFailed, Reason::kBeyondTolerance,
               BeyondTolerance(comparison, norm_wise));
  if (beyond_plain) {
    verdict.gates = fmt::format(
        "the error is within the norm-wise bound ({:.3g} of it), but {:.3g} "
        "times that of a plain program",
        comparison.max_over_bound, comparison.over_plain);
  }
  // The other elements are right, but these could have had any value.
  if (comparison.without_digits > 0)
    return set(Outcome::kMistrusted, Reason::kNoDigits, NoDigits(comparison));
  if (margin.wrong_answers == 0)
    return set(Outcome::kMistrusted, Reason::kNoMistakeApplies,
               "this check could not have failed: on these inputs every known "
               "mistake gives the right answer");
  if (std::ssize(margin.blind_to) == margin.wrong_answers)
    return set(
        Outcome::kMistrusted, Reason::kBlindToEverything,
        fmt::format("this check could not have failed: every known mistake "
                    "stays within the tolerance on these inputs, even \"{}\"",
                    margin.blind_to.back().name));
  if (std::isnan(margin.value) ||
      (margin.value < 1 && from == NumbersFrom::kUs))
    return set(Outcome::kMistrusted, Reason::kCannotTell,
               fmt::format("cannot tell \"{}\" from the right answer on these "
                           "inputs: it is only {:.3g} tolerances away",
                           margin.nearest, margin.value));
  // Generated cases have such a small eps on purpose.
  if (from == NumbersFrom::kUser) {
    std::vector<BlindSpot>& blind_to = verdict.margin.blind_to;
    blind_to.insert(blind_to.end(), margin.too_small.begin(),
                    margin.too_small.end());
    std::ranges::move(OpenRowsOf(comparison, norm_wise),
                      std::back_inserter(blind_to));
    std::ranges::sort(blind_to, {}, &BlindSpot::distance);
  }
  return verdict;
}

}  // namespace subquad
