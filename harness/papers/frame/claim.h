// A paper: a folder with its claims as rows of claims.json, the rules that
// answer them, and its studies.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/papers/frame/evidence.h"
#include "harness/papers/frame/finding.h"
#include "harness/papers/frame/study.h"

namespace subquad {

using Rule = std::function<Finding(const Evidence& evidence)>;

// The rule of a claim, by the claim's id.
using NamedRule = std::pair<std::string, Rule>;

struct Paper {
  std::string folder;  // harness/papers/FOLDER/claims.json
  std::vector<NamedRule> rules;
  std::vector<Study> studies;
};

enum class ClaimKind {
  kErratum,
  kProperty,  // computed by the command
  kSweep,
  kStudy,
  kNone  // not answered; its rule says why
};
std::string_view ToString(ClaimKind kind);

// What is wrong with a formula or a number as printed.
// false: the statement does not hold. understated: it holds, and more than it
// says does. inconsistent: the text contradicts itself. terminology: another
// word is meant. typo: a slip that readers see, possibly made when the
// text was converted.
inline constexpr std::string_view kErratumClasses[] = {
    "false", "understated", "inconsistent", "terminology", "typo"};

// One row.
struct Claim {
  std::string id;
  std::string paper;    // "NPRF", as texts cite it
  std::string place;    // "section 3.2"
  std::string words;    // a few words of the text, to find the place
  std::string says;     // the claim in our words
  std::string study;    // answers it, or comes near
  std::string verdict;  // the study's verdict that does; by default of its id
  std::vector<std::string> recipes;  // whose points the rule takes
  std::string same_as;  // a claim of another paper that says the same
  std::string erratum;  // one of kErratumClasses; empty if it is no erratum
  std::string why_not;  // why nothing here can answer it
  std::string not_attempted;  // what it would take
  // Numbers that, measured instead, give another verdict: how a test sees that
  // the rule can fail.
  std::map<std::string, double> planted;
  Rule rule;

  ClaimKind kind() const;
  std::string source() const { return paper + " " + place; }
};

// The rows of a claims.json with their rules. A row has a rule of its id in
// `paper`, or `same_as`, `study`, `why_not` or `not_attempted`. Rows with
// `same_as` get their rule later (papers.cc). Throws
// std::logic_error that names a row without an answer or with two, a field that
// no row has, and a rule without a row.
std::vector<Claim> ClaimsOf(const Paper& paper, const std::string& text);

}  // namespace subquad
