#include "harness/papers/claims/sweep_parts.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

namespace subquad {

Finding PerMachine(const Evidence& evidence,
                   Finding (*rule)(const Machine& machine)) {
  std::vector<std::pair<std::string, Finding>> known;
  std::optional<Finding> missing;
  for (const Machine& machine : evidence.machines) {
    Finding finding = rule(machine);
    if (finding.verdict() == ClaimVerdict::kCannotBeTested)
      missing = missing ? missing : finding;
    else
      known.emplace_back(machine.name, std::move(finding));
  }
  if (known.empty() && missing) return *missing;
  // Without any records: what the rule says of none.
  if (known.empty()) return rule(Machine{});
  if (known.size() == 1) return known.front().second;
  Finding all;
  for (const auto& [name, finding] : known)
    all.Append(finding, fmt::format("on {}: ", name));
  return all;
}

Json WidthsOf(const Measured& measured) {
  Json size = Json::object();
  const Json sizes = measured.settings.value("size", Json::object());
  for (const char* name : {"d", "e", "heads"})
    if (sizes.contains(name)) size[name] = sizes[name];
  return size;
}

std::string Missing(const Wanted& wanted, const Measured& measured) {
  if (measured.refused > 0)
    return fmt::format("no record of {}/{} passed ({})", wanted.op,
                       wanted.implementation, measured.reason);
  std::string params;
  for (const auto& [name, value] : wanted.params.items())
    params += fmt::format(
        "{}{} = {}", params.empty() ? "" : ", ", name,
        value.is_string() ? value.get<std::string>() : value.dump());
  for (const auto& [name, value] : wanted.size.items())
    if (name == "f") params += fmt::format(", f = {}", value.dump());
  return fmt::format(
      "no records of {}{}{} in the files given", wanted.op,
      wanted.implementation.empty() ? "" : "/" + wanted.implementation,
      params.empty() ? "" : " with " + params);
}

void AddGrowth(Finding& finding, const Growth& growth, double limit,
               const std::string& what) {
  if (!growth.known) {
    finding.Add(Holds::kMissing, what + ": " + growth.why_not);
    return;
  }
  const Holds holds = growth.interval.high <= limit  ? Holds::kYes
                      : growth.interval.low <= limit ? Holds::kBetween
                                                     : Holds::kNo;
  finding.Add(holds,
              fmt::format("{} grows with exponent {} for n from {:.10g} to "
                          "{:.10g} (limit {:.10g})",
                          what,
                          finding.Number("exponent of " + what, growth.exponent,
                                         growth.interval),
                          growth.n_min, growth.n_max, limit));
}

Holds AtLeast(const Quotient& quotient, double limit) {
  if (!std::isfinite(quotient.interval.low) ||
      !std::isfinite(quotient.interval.high))
    return Holds::kMissing;
  return quotient.interval.low >= limit    ? Holds::kYes
         : quotient.interval.high >= limit ? Holds::kBetween
                                           : Holds::kNo;
}

Quotient WorkspaceRatio(const MeasuredPoint& more, const MeasuredPoint& less) {
  const double ratio = more.workspace / less.workspace;
  return {ratio, {ratio, ratio}};
}

void AddRatio(Finding& finding, const Quotient& quotient, double limit,
              const std::string& name, const std::string& before) {
  const Holds holds = AtLeast(quotient, limit);
  if (holds == Holds::kMissing) {
    finding.Add(holds, before + ": not measured");
    return;
  }
  const bool exact = quotient.interval.low == quotient.interval.high;
  finding.Add(holds, fmt::format("{} {} times (claimed: {:.10g})", before,
                                 exact ? finding.Number(name, quotient.ratio)
                                       : finding.Number(name, quotient.ratio,
                                                        quotient.interval),
                                 limit));
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

std::string Describe(Finding& finding, const std::string& name,
                     const Crossover& crossover) {
  switch (crossover.kind) {
    case CrossoverKind::kCrosses:
      return "from n = " +
             finding.Number(name, *crossover.n,
                            {crossover.low.value_or(std::nan("")),
                             crossover.high.value_or(std::nan(""))});
    case CrossoverKind::kAlwaysFaster:
      return "at every size";
    case CrossoverKind::kNever:
      return "not in the range measured";
    case CrossoverKind::kTooFewPoints:
      break;
  }
  return "(fewer than two sizes in common)";
}

}  // namespace subquad
