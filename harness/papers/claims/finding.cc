#include "harness/papers/claims/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/digits.h"

namespace subquad {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string Rounded(double value) {
  return std::isinf(value) ? "infinitely much" : ThreeDigits(value);
}

}  // namespace

std::string WithInterval(double value, Interval interval) {
  const auto end = [](double x) {
    return std::isfinite(x) ? ThreeDigits(x) : "unknown";
  };
  return fmt::format("{} [{}, {}]", Rounded(value), end(interval.low),
                     end(interval.high));
}

void Finding::Add(Holds holds, std::string text) {
  parts_.push_back(holds);
  texts_.push_back(std::move(text));
}

void Finding::Note(std::string text) { texts_.push_back(std::move(text)); }

void Finding::Add(const Erratum& erratum, std::string text) {
  ++errata_;
  confirmed_ += erratum.Confirmed();
  if (text.empty()) {
    const std::string shape =
        std::isinf(erratum.printed)
            ? "its shape is wrong as printed"
            : "off as printed by " +
                  Number("difference as printed", erratum.printed);
    text = fmt::format("{} ({}, as corrected by {})", erratum.what, shape,
                       Number("difference corrected", erratum.corrected));
  }
  if (!erratum.Confirmed())
    text += erratum.printed > erratum.least
                ? "; NOT CONFIRMED: the correction is wrong too"
                : "; NOT CONFIRMED: correct as printed";
  Add(erratum.printed > erratum.least ? Holds::kNo
      : std::isnan(erratum.printed)   ? Holds::kUntestable
                                      : Holds::kYes,
      std::move(text));
}

void Finding::Require(bool holds, std::string text) {
  ++errata_;
  confirmed_ += holds;
  required_ += holds;
  Add(holds ? Holds::kYes : Holds::kNo,
      holds ? std::move(text) : text + "; NOT CONFIRMED");
}

std::string Finding::Number(const std::string& name, double value) {
  quantities_.push_back({name, value, kNaN, kNaN});
  return Rounded(value);
}

std::string Finding::Number(const std::string& name, double value,
                            Interval interval) {
  quantities_.push_back({name, value, interval.low, interval.high});
  return WithInterval(value, interval);
}

ClaimVerdict Finding::verdict() const {
  const auto count = [&](Holds holds) {
    return std::ranges::count(parts_, holds);
  };
  if (about_errata() && errata_confirmed() && count(Holds::kYes) == required_)
    return ClaimVerdict::kWrongAsPrinted;
  const auto all = static_cast<int64_t>(parts_.size());
  if (all == count(Holds::kUntestable)) return ClaimVerdict::kCannotBeTested;
  if (!answered()) return ClaimVerdict::kNotMeasured;
  if (all == count(Holds::kYes)) return ClaimVerdict::kReproduced;
  if (count(Holds::kYes) == 0 && count(Holds::kBetween) == 0)
    return ClaimVerdict::kNotReproduced;
  return ClaimVerdict::kInPart;
}

bool Finding::answered() const {
  return std::ranges::any_of(parts_, [](Holds part) {
    return part != Holds::kMissing && part != Holds::kUntestable;
  });
}

std::string Finding::numbers() const {
  std::string text;
  for (size_t i = 0; i < texts_.size(); ++i)
    // Several parts may lack the same records.
    if (std::find(texts_.begin(), texts_.begin() + static_cast<int64_t>(i),
                  texts_[i]) == texts_.begin() + static_cast<int64_t>(i))
      text += (text.empty() ? "" : "; ") + texts_[i];
  return text;
}

void Finding::Append(const Finding& other, const std::string& before) {
  parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
  for (size_t i = 0; i < other.texts_.size(); ++i)
    texts_.push_back((i == 0 ? before : "") + other.texts_[i]);
  quantities_.insert(quantities_.end(), other.quantities_.begin(),
                     other.quantities_.end());
  errata_ += other.errata_;
  confirmed_ += other.confirmed_;
  required_ += other.required_;
}

}  // namespace subquad
