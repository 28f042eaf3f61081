#include "harness/papers/frame/sweep_parts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "harness/base/digits.h"

namespace subquad {

Finding PerMachine(const Evidence& evidence,
                   void (*rule)(const Machine& machine, Finding& finding)) {
  std::vector<std::pair<std::string, Finding>> known;
  Finding missing(evidence);
  // Without any records: what the rule says of none.
  if (evidence.machines.empty()) rule(Machine{}, missing);
  for (const Machine& machine : evidence.machines) {
    Finding finding(evidence);
    rule(machine, finding);
    if (finding.answered())
      known.emplace_back(machine.name, std::move(finding));
    else if (missing.numbers().empty())
      missing = finding;
  }
  if (known.empty()) return missing;
  if (known.size() == 1) return known.front().second;
  Finding all;
  for (const auto& [name, finding] : known)
    all.Append(finding, fmt::format("on {}: ", name));
  return all;
}

RecipeCurve CurveOf(const Machine& machine, const std::string& recipe,
                    const Json& match, const std::string& backend) {
  std::vector<RecipePoint> points;
  for (const Json& record : machine.records)
    if (record.at("backend") == backend)
      points.push_back({SettingsOf(record), &record, machine.mixed});
  std::string label;
  for (const auto& [name, value] : match.items()) {
    const std::string text =
        value.is_string() ? value.get<std::string>() : value.dump();
    label += name == "operator"         ? text
             : name == "implementation" ? "/" + text
                                        : fmt::format(", {} = {}", name, text);
  }
  const Json series = {{"label", label}, {"match", match}};
  RecipeCurve none{recipe, label, {}};
  try {
    const auto curves = CurvesOf(FindRecipe(recipe), series, points, {});
    return curves.empty() ? none : curves.front();
  } catch (const InvalidInput& problem) {
    none.refused = 1;
    none.reason = problem.what();
    return none;
  }
}

std::string Missing(const RecipeCurve& curve) {
  if (curve.refused > 0)
    return fmt::format("no record of {} passed ({})", curve.label,
                       curve.reason);
  return fmt::format("no records of {} in the files given", curve.label);
}

std::optional<ExponentFit> GrowthOf(const RecipeCurve& curve,
                                    CurveValue quantity) {
  const auto fit = FitOf(curve, quantity);
  const bool known = fit && fit->points >= 4 && fit->n_max >= 8 * fit->n_min &&
                     std::isfinite(fit->exponent) &&
                     std::isfinite(fit->interval.low) &&
                     std::isfinite(fit->interval.high);
  return known ? fit : std::nullopt;
}

Exponent JudgeExponent(Finding& finding, const std::string& name,
                       const ExponentFit& fit, double least, double most) {
  const Measured exponent = finding.Measure(name, fit.exponent, fit.interval);
  const Interval ends = exponent.interval;
  return {ends.low >= least && ends.high <= most ? Holds::kYes
          : ends.high < least || ends.low > most ? Holds::kNo
                                                 : Holds::kBetween,
          std::isfinite(ends.low) && std::isfinite(ends.high),
          "exponent " + exponent.text};
}

std::string NoGrowth(const RecipeCurve& curve, const std::string& what) {
  if (curve.mixed) return what + ": its times are of several processors";
  return fmt::format(
      "{}: {} sizes passed{}, and an exponent takes four over a factor of "
      "eight",
      what, curve.points.size(),
      curve.refused > 0 ? fmt::format(" ({})", curve.reason) : "");
}

void AddGrowth(Finding& finding, const RecipeCurve& curve, CurveValue quantity,
               double limit, const std::string& what) {
  const auto fit = GrowthOf(curve, quantity);
  if (!fit) {
    finding.Add(Holds::kMissing, NoGrowth(curve, what));
    return;
  }
  const Exponent exponent =
      JudgeExponent(finding, "exponent of " + what, *fit, -HUGE_VAL, limit);
  finding.Add(exponent.holds,
              fmt::format("{} grows with {} for n from {:.10g} to {:.10g} "
                          "(limit: {:.10g})",
                          what, exponent.text, fit->n_min, fit->n_max, limit));
}

Measured Measure(Finding& finding, const std::string& name,
                 const Quotient& quotient) {
  Measured measured = finding.Measure(name, quotient.ratio, quotient.interval);
  measured.range_of = quotient.range_of;
  measured.text =
      WithInterval(measured.value, measured.interval, measured.range_of);
  return measured;
}

Holds AtLeast(const Measured& ratio, double limit) {
  const Interval ends = ratio.interval;
  if (!std::isfinite(ends.low) || !std::isfinite(ends.high))
    return Holds::kMissing;
  return ends.low >= limit    ? Holds::kYes
         : ends.high >= limit ? Holds::kBetween
                              : Holds::kNo;
}

Holds UpTo(const Measured& largest, double claimed) {
  const Interval ends = largest.interval;
  if (!std::isfinite(ends.low) || !std::isfinite(ends.high))
    return Holds::kMissing;
  if (ends.high < claimed / kUpTo) return Holds::kNo;
  return ends.low >= claimed / kUpTo && ends.high <= claimed * kUpTo
             ? Holds::kYes
             : Holds::kBetween;
}

std::string RatioText(const Measured& measured, const RatioWords& words) {
  const bool worse = measured < 1;
  const double ratio = worse ? 1 / measured.value : measured.value;
  const Interval interval =
      worse ? Interval{1 / measured.interval.high, 1 / measured.interval.low}
            : measured.interval;
  return fmt::format("{} {} times {}{}", words.before,
                     interval.low == interval.high
                         ? ThreeDigits(ratio)
                         : WithInterval(ratio, interval, measured.range_of),
                     worse ? words.worse : words.better, words.after);
}

void AddRatio(Finding& finding, const Quotient& quotient, double limit,
              const std::string& name, const RatioWords& words) {
  const Measured ratio = Measure(finding, name, quotient);
  const Holds holds = AtLeast(ratio, limit);
  if (holds == Holds::kMissing) {
    finding.Add(holds, name + ": not measured");
    return;
  }
  finding.Add(holds,
              fmt::format("{} (claimed: {:.10g}{})", RatioText(ratio, words),
                          limit, ratio < 1 ? " times " + words.better : ""));
}

Holds HoldsOf(const Crossover& crossover) {
  switch (crossover.kind) {
    case CrossoverKind::kCrosses:
      return crossover.high ? Holds::kYes : Holds::kBetween;
    case CrossoverKind::kAlwaysFaster:
      return Holds::kYes;
    case CrossoverKind::kNever:
      return crossover.low ? Holds::kBetween : Holds::kNo;
    case CrossoverKind::kTooFewPoints:
      break;
  }
  return Holds::kMissing;
}

std::string Overtakes(Finding& finding, const std::string& name,
                      const std::string& who, const std::string& whom,
                      const RecipeCurve& fast, const RecipeCurve& slow,
                      const Crossover& crossover) {
  double first = HUGE_VAL, last = 0;
  for (const CurvePoint& point : fast.points)
    if (slow.At(point.n)) {
      first = std::min(first, point.n);
      last = std::max(last, point.n);
    }
  switch (crossover.kind) {
    case CrossoverKind::kCrosses:
      return fmt::format(
          "{} overtakes {} from n = {}", who, whom,
          finding.Mention(name, *crossover.n,
                          {crossover.low.value_or(std::nan("")),
                           crossover.high.value_or(std::nan(""))}));
    case CrossoverKind::kAlwaysFaster:
      return fmt::format(
          "{} is ahead of {} at every size measured (n = "
          "{:.10g} to {:.10g})",
          who, whom, first, last);
    case CrossoverKind::kNever:
      return fmt::format("{} does not overtake {} up to n = {:.10g}", who, whom,
                         last);
    case CrossoverKind::kTooFewPoints:
      break;
  }
  return fmt::format("{} and {} have fewer than two sizes in common", who,
                     whom);
}

}  // namespace subquad
