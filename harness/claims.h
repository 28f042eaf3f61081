// What the papers claim, against what was measured. Every claim has a rule in
// code that answers it from result files, from study files, or from what it
// computes itself; nobody types a verdict.
//
// No support ever comes from a number that is missing or NaN, from a record
// that did not pass its check, or from a study whose tables do not say it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/claims/evidence.h"
#include "harness/statistics.h"

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

enum class ClaimKind { kErratum, kProperty, kSweep, kStudy };
std::string_view ToString(ClaimKind kind);

struct Claim {
  std::string id;
  std::string says;    // in our words
  std::string source;  // paper and place
  ClaimKind kind;
  std::string study;  // for kStudy
  Finding (*rule)(const Evidence& evidence);
};

// All of them, in the order of the papers.
const std::vector<Claim>& Claims();

// The command that makes the records or the study which the claim needs; empty
// where it needs none.
std::string NeedsOf(const Claim& claim);

struct AnsweredClaim {
  const Claim* claim;
  Finding finding;
};
std::vector<AnsweredClaim> AnswerClaims(const Evidence& evidence);

// Format claims/1 (reports/claims.schema.json). `header` has command, created
// and environment.
Json ClaimsJson(const std::vector<AnsweredClaim>& answers,
                const Evidence& evidence, const Json& header);
std::string ClaimsMarkdown(const std::vector<AnsweredClaim>& answers);

struct ClaimsOptions {
  std::vector<std::string> files;  // or folders of them
  std::filesystem::path out;
  std::string command;
};

// The whole command. Returns an ExitStatus: kCheckFailed where an erratum is
// not one.
int RunClaims(const ClaimsOptions& options);

}  // namespace subquad
