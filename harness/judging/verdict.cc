#include "harness/judging/verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace subquad {
namespace {

// What the elements without any bound are, for a comparison that has some.
std::string NoDigits(const Comparison& comparison) {
  return fmt::format(
      "theory promises no digit of {} of {} elements in {}, first at {}: even "
      "the plain dense program's error has no finite bound there",
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
  return {.outcome = Outcome::kSkipped, .reason = std::move(reason)};
}

Verdict Verdict::Failed(std::string reason) {
  return {.outcome = Outcome::kFailed, .reason = std::move(reason)};
}

namespace {

// What gate 2 takes.
double LimitOf(const Yardstick& one) {
  return kYardstickFactor * one.plain + one.given;
}

double OverLimit(const Yardstick& one) {
  return one.error > 0 ? one.error / LimitOf(one) : 0;
}

}  // namespace

double OverYardstick(const Comparison& comparison) {
  double most = 0;
  for (const Yardstick& one : comparison.yardsticks)
    most = std::max(most, OverLimit(one));
  return most;
}

DecidingGate DecidingGateOf(const Comparison& comparison, bool norm_wise) {
  DecidingGate found{1, comparison.max_over_bound * comparison.bound,
                     comparison.bound};
  double most = comparison.max_over_bound;
  if (norm_wise) return found;
  for (const Yardstick& one : comparison.yardsticks) {
    const double over = OverLimit(one);
    if (!(over > most)) continue;
    most = over;
    found = {2, one.error, LimitOf(one)};
  }
  return found;
}

double DistanceOf(const Comparison& comparison, bool bound_alone) {
  if (comparison.not_finite > 0) return std::numeric_limits<double>::infinity();
  return std::max(comparison.max_over_bound,
                  bound_alone ? 0 : OverYardstick(comparison));
}

namespace {

// Of the gate that decides, as its error and tolerance are told; the place is
// known of gate 1 alone.
std::string BeyondTolerance(const Comparison& comparison, bool norm_wise) {
  const DecidingGate deciding = DecidingGateOf(comparison, norm_wise);
  const std::string place = comparison.worst.Text();
  if (deciding.gate == 1)
    return fmt::format("error {:.3g} times its tolerance at {}",
                       comparison.max_over_bound, place);
  return fmt::format(
      "error {:.3g} times the tolerance of gate 2, which is from the error of "
      "the plain dense program; by gate 1 {:.3g} times its tolerance at {}",
      OverYardstick(comparison), comparison.max_over_bound, place);
}

}  // namespace

Verdict Judge(const Comparison& comparison, const Margin& margin,
              bool norm_wise, int64_t broken_guards, NumbersFrom from) {
  Verdict verdict{Outcome::kPassed, "", "", comparison, margin};
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
  if (comparison.lost_bounds > 0)
    return set(Outcome::kFailed,
               fmt::format("{} for {} of {} elements, first at {}",
                           norm_wise ? "its own bound is not finite where the "
                                       "plain dense program's is,"
                                     : "its bound is not a number",
                           comparison.lost_bounds, comparison.elements,
                           comparison.first_lost_bound.Text()));
  const bool beyond_bound = !(comparison.max_over_bound <= 1);
  const bool beyond_plain = !(OverYardstick(comparison) <= 1);
  if (beyond_bound || (beyond_plain && !norm_wise))
    return set(Outcome::kFailed, BeyondTolerance(comparison, norm_wise));
  if (beyond_plain) {
    verdict.gates = fmt::format(
        "within its norm-wise bound ({:.3g} of it), but {:.3g} times the error "
        "of the plain dense program",
        comparison.max_over_bound, comparison.over_plain);
  }
  // All else holds, but these elements could have been anything.
  if (comparison.without_digits > 0)
    return set(Outcome::kMistrusted, NoDigits(comparison));
  if (margin.wrong_answers == 0)
    return set(Outcome::kMistrusted,
               "no wrong answer differs from the right one");
  if (std::ssize(margin.blind_to) == margin.wrong_answers)
    return set(
        Outcome::kMistrusted,
        fmt::format("could not have failed: every wrong answer is within "
                    "the tolerance, \"{}\" too",
                    margin.blind_to.back().name));
  if (std::isnan(margin.value) ||
      (margin.value < 1 && from == NumbersFrom::kUs))
    return set(Outcome::kMistrusted,
               fmt::format("cannot tell \"{}\" from right: it is {:.3g} of the "
                           "tolerance away",
                           margin.nearest, margin.value));
  // Our own cases have such an eps on purpose.
  if (from == NumbersFrom::kUser) {
    std::vector<BlindSpot>& blind_to = verdict.margin.blind_to;
    blind_to.insert(blind_to.end(), margin.too_small.begin(),
                    margin.too_small.end());
    std::ranges::sort(blind_to, {}, &BlindSpot::distance);
  }
  return verdict;
}

}  // namespace subquad
