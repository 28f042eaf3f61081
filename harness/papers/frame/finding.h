// The answer to a claim: its parts, whether each holds, and their numbers.
#pragma once

#include <fmt/format.h>

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/papers/frame/claim_verdict.h"

namespace subquad {

struct Evidence;

// What became of one part of a claim.
enum class Holds {
  kYes,
  kNo,
  kBetween,       // its interval contains the limit, or is unknown
  kMissing,       // no passed record and no study in the files to judge it by
  kNotAttempted,  // some could judge it, and nothing here makes them
  kUntestable     // none could judge it
};

// A number behind an answer; an end of its interval is NaN where unknown.
struct Quantity {
  std::string name;
  double value, low, high;
  bool judged;  // false: it is only mentioned
};

// A measured number as a rule takes it: to be compared, and to be printed with
// three digits and its interval.
struct Measured {
  double value;
  Interval interval;
  std::string text;
  int64_t range_of = 0;                      // see Quotient
  operator double() const { return value; }  // NOLINT: it is a number
};

// "23.5 [22.6, 24]", three digits each; ends that are not finite are "unknown".
// Of too few samples for an interval: "23.5 [22.6 to 24 in 3 runs]".
std::string WithInterval(double value, Interval interval, int64_t range_of = 0);

// A formula that is wrong as printed and its correction, both compared with the
// definition. The formula is evaluated exactly as printed, term by term.
struct Erratum {
  std::string what;      // the formula as printed, and where
  double printed = 0;    // its largest difference; infinite: another shape
  double corrected = 0;  // that of the correction
  double least = 0;      // the printed formula has to differ by more
  double rounding = 1e-12;

  bool Confirmed() const { return printed > least && corrected <= rounding; }
};

// The answer to a claim: its parts in the order in which they were looked at.
class Finding {
 public:
  Finding() = default;
  // Takes the numbers that are planted there instead of those measured under
  // the same names.
  explicit Finding(const Evidence& evidence);

  // Keeps a number for the file. A rule judges and prints what it gets back.
  Measured Measure(const std::string& name, double value);
  Measured Measure(const std::string& name, double value, Interval interval);
  // The same of a number that no part is judged by.
  Measured Mention(const std::string& name, double value);
  Measured Mention(const std::string& name, double value, Interval interval);

  void Add(Holds holds, std::string text);
  void Add(bool holds, std::string text);
  void Note(std::string text);  // not judged
  // `text`: instead of the two differences, where they are not of numbers.
  void Add(Erratum erratum, std::string text = "");
  // A statement of this project beside errata: has to hold as they do.
  void Require(bool holds, std::string text);

  // From now on `reproduced` is `holds by construction`.
  void HoldsByConstruction() { by_construction_ = true; }

  // All errata confirmed, no part holds and none is undecided: wrong as
  // printed. If all parts hold: reproduced; none: not reproduced; all are
  // untestable: cannot be tested; all are not attempted: so is the claim; the
  // same with missing ones: not measured; anything else: in part.
  ClaimVerdict verdict() const;
  // Whether anything is known of any part.
  bool answered() const;
  std::string numbers() const;  // all parts
  // The part that decides: the first that does not hold, or else the first.
  std::string headline() const;
  const std::vector<Quantity>& quantities() const { return quantities_; }
  bool about_errata() const { return errata_ > 0; }
  // False if a formula is right as printed, or its correction wrong.
  bool errata_confirmed() const { return confirmed_ == errata_; }

  // Adds another finding's parts and numbers, with words before its text.
  void Append(const Finding& other, const std::string& before);

 private:
  Measured Keep(const std::string& name, double value, Interval interval,
                bool judged);

  std::map<std::string, double> planted_;
  std::vector<Holds> parts_;
  std::vector<std::string> texts_;    // of parts and of notes
  std::vector<size_t> text_of_part_;  // places in texts_
  std::vector<Quantity> quantities_;
  int errata_ = 0, confirmed_ = 0;
  int required_ = 0;  // parts that hold and are not in the claim's favour
  bool by_construction_ = false;
};

}  // namespace subquad

template <>
struct fmt::formatter<subquad::Measured> : formatter<std::string> {
  auto format(const subquad::Measured& one, format_context& context) const {
    return formatter<std::string>::format(one.text, context);
  }
};
