#include "harness/papers/frame/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/base/digits.h"
#include "harness/papers/frame/evidence.h"

namespace subquad {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

std::string Rounded(double value) {
  return std::isinf(value) ? "infinitely much" : ThreeDigits(value);
}

}  // namespace

std::string WithInterval(double value, Interval interval, int64_t range_of) {
  const auto end = [](double x) {
    return std::isfinite(x) ? ThreeDigits(x) : "unknown";
  };
  if (range_of > 0)
    return fmt::format("{} [{} to {} in {} run{}]", Rounded(value),
                       end(interval.low), end(interval.high), range_of,
                       range_of == 1 ? "" : "s");
  return fmt::format("{} [{}, {}]", Rounded(value), end(interval.low),
                     end(interval.high));
}

Finding::Finding(const Evidence& evidence) : planted_(evidence.planted) {}

Measured Finding::Keep(const std::string& name, double value, Interval interval,
                       bool judged) {
  const bool known = !std::isnan(interval.low);
  if (const auto planted = planted_.find(name); planted != planted_.end()) {
    value = planted->second;
    if (known) interval = {value, value};
  }
  quantities_.push_back({name, value, interval.low, interval.high, judged});
  return {value, interval, WithInterval(value, interval)};
}

Measured Finding::Measure(const std::string& name, double value,
                          Interval interval) {
  return Keep(name, value, interval, true);
}
Measured Finding::Mention(const std::string& name, double value,
                          Interval interval) {
  return Keep(name, value, interval, false);
}
Measured Finding::Measure(const std::string& name, double value) {
  Measured one = Keep(name, value, {kNaN, kNaN}, true);
  one.text = Rounded(one.value);
  return one;
}
Measured Finding::Mention(const std::string& name, double value) {
  Measured one = Keep(name, value, {kNaN, kNaN}, false);
  one.text = Rounded(one.value);
  return one;
}

void Finding::Add(Holds holds, std::string text) {
  parts_.push_back(holds);
  text_of_part_.push_back(texts_.size());
  texts_.push_back(std::move(text));
}

void Finding::Add(bool holds, std::string text) {
  Add(holds ? Holds::kYes : Holds::kNo, std::move(text));
}

void Finding::Note(std::string text) { texts_.push_back(std::move(text)); }

void Finding::Add(Erratum erratum, std::string text) {
  const Measured printed = Measure("difference as printed", erratum.printed),
                 corrected = Measure("difference corrected", erratum.corrected);
  erratum.printed = printed;
  erratum.corrected = corrected;
  ++errata_;
  confirmed_ += erratum.Confirmed();
  if (text.empty())
    text = fmt::format("{} ({}, as corrected by {})", erratum.what,
                       std::isinf(erratum.printed)
                           ? "its shape is wrong as printed"
                           : fmt::format("off as printed by {}", printed),
                       corrected);
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
  Add(holds, holds ? std::move(text) : text + "; NOT CONFIRMED");
}

ClaimVerdict Finding::verdict() const {
  const auto count = [&](Holds holds) {
    return std::ranges::count(parts_, holds);
  };
  if (about_errata() && errata_confirmed() && count(Holds::kYes) == required_ &&
      count(Holds::kBetween) == 0)
    return ClaimVerdict::kWrongAsPrinted;
  const auto all = static_cast<int64_t>(parts_.size());
  if (all == count(Holds::kUntestable)) return ClaimVerdict::kCannotBeTested;
  if (all == count(Holds::kNotAttempted)) return ClaimVerdict::kNotAttempted;
  if (!answered()) return ClaimVerdict::kNotMeasured;
  if (all == count(Holds::kYes))
    return by_construction_ ? ClaimVerdict::kByConstruction
                            : ClaimVerdict::kReproduced;
  if (count(Holds::kYes) == 0 && count(Holds::kBetween) == 0)
    return ClaimVerdict::kNotReproduced;
  return ClaimVerdict::kInPart;
}

bool Finding::answered() const {
  return std::ranges::any_of(parts_, [](Holds part) {
    return part != Holds::kMissing && part != Holds::kNotAttempted &&
           part != Holds::kUntestable;
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

std::string Finding::headline() const {
  for (size_t part = 0; part < parts_.size(); ++part)
    if (parts_[part] != Holds::kYes) return texts_[text_of_part_[part]];
  if (!parts_.empty()) return texts_[text_of_part_.front()];
  return texts_.empty() ? "" : texts_.front();
}

void Finding::Append(const Finding& other, const std::string& before) {
  parts_.insert(parts_.end(), other.parts_.begin(), other.parts_.end());
  for (size_t place : other.text_of_part_)
    text_of_part_.push_back(texts_.size() + place);
  for (size_t i = 0; i < other.texts_.size(); ++i)
    texts_.push_back((i == 0 ? before : "") + other.texts_[i]);
  quantities_.insert(quantities_.end(), other.quantities_.begin(),
                     other.quantities_.end());
  errata_ += other.errata_;
  confirmed_ += other.confirmed_;
  required_ += other.required_;
}

}  // namespace subquad
