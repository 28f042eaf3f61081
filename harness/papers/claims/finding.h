// The answer to a claim: its parts, whether each holds, and their numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/papers/verdict.h"

namespace subquad {

// What became of one part of a claim.
enum class Holds {
  kYes,
  kNo,
  kBetween,    // its interval contains the limit
  kMissing,    // no passed record and no study in the files to judge it by
  kUntestable  // none could judge it
};

// A number behind an answer; an end of its interval is NaN where unknown.
struct Quantity {
  std::string name;
  double value, low, high;
};

// "23.5 [22.6, 24]", three digits each; ends that are not finite are "unknown".
std::string WithInterval(double value, Interval interval);

// A formula that is wrong as printed and its correction, both compared with the
// definition.
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
  void Add(Holds holds, std::string text);
  void Note(std::string text);  // not judged
  // `text`: instead of the two differences, where they are not of numbers.
  void Add(const Erratum& erratum, std::string text = "");
  // A statement of this project beside errata: has to hold as they do.
  void Require(bool holds, std::string text);

  // Keeps a number for the file and returns it as text, with its interval.
  std::string Number(const std::string& name, double value);
  std::string Number(const std::string& name, double value, Interval interval);

  // All errata confirmed and no part holds: wrong as printed. If all parts
  // hold: reproduced; none: not reproduced; all are untestable: cannot be
  // tested; the same with missing ones: not measured; anything else: in part.
  ClaimVerdict verdict() const;
  // Whether anything is known of any part.
  bool answered() const;
  std::string numbers() const;  // one sentence
  const std::vector<Quantity>& quantities() const { return quantities_; }
  bool about_errata() const { return errata_ > 0; }
  // False if a formula is right as printed, or its correction wrong.
  bool errata_confirmed() const { return confirmed_ == errata_; }

  // Adds another finding's parts and numbers, with words before its text.
  void Append(const Finding& other, const std::string& before);

 private:
  std::vector<Holds> parts_;
  std::vector<std::string> texts_;
  std::vector<Quantity> quantities_;
  int errata_ = 0, confirmed_ = 0;
  int required_ = 0;  // parts that hold and are not in the claim's favour
};

}  // namespace subquad
