// The answer to a claim: parts that hold or do not, with their numbers.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/statistics.h"

namespace subquad {

enum class ClaimVerdict {
  kReproduced,
  kInPart,
  kNotReproduced,
  kCannotBeTested  // what it needs was not in the files given
};
std::string_view ToString(ClaimVerdict verdict);

// What became of one part of a claim.
enum class Holds {
  kYes,
  kNo,
  kBetween,  // its interval contains the limit
  kMissing   // no record or study that passed says anything
};

// A number that an answer rests on; NaN ends are not known.
struct Quantity {
  std::string name;
  double value, low, high;
};

// A formula that is wrong as printed, and what stands in its place, both held
// against the definition.
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
  void Note(std::string text);  // said and not judged
  // `text`: where the differences are no differences of numbers.
  void Add(const Erratum& erratum, std::string text = "");

  // Keeps a number for the file and returns it as text, with its interval.
  std::string Number(const std::string& name, double value);
  std::string Number(const std::string& name, double value, Interval interval);

  // All parts hold: reproduced. None does: not reproduced. None is known:
  // cannot be tested. Anything else: in part.
  ClaimVerdict verdict() const;
  std::string numbers() const;  // one sentence
  const std::vector<Quantity>& quantities() const { return quantities_; }
  bool about_errata() const { return errata_ > 0; }
  // False where a printed formula was right after all, or its correction wrong.
  bool errata_confirmed() const { return confirmed_ == errata_; }

  // Takes over what another finding says, with words before it.
  void Append(const Finding& other, const std::string& before);

 private:
  std::vector<Holds> parts_;
  std::vector<std::string> texts_;
  std::vector<Quantity> quantities_;
  int errata_ = 0, confirmed_ = 0;
};

}  // namespace subquad
