// What the papers claim, against what was measured. Every claim has a rule in
// code that answers it from result files, from study files, or from what it
// computes itself; nobody types a verdict.
//
// No support ever comes from a number that is missing or NaN, from a record
// that did not pass its check, or from a study whose tables do not say it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/papers/frame/claim.h"

namespace subquad {

// The command that makes the records or the study which the claim needs; empty
// where it needs none.
std::string NeedsOf(const Claim& claim);

// What the claim is answered from, for `subquad claims --help`.
std::string AnsweredFrom(const Claim& claim);

// Whether the files hold the study of the claim, or a record of its recipes.
bool HoldPartOf(const Claim& claim, const Evidence& evidence);

struct AnsweredClaim {
  const Claim* claim;
  Finding finding;
};
// A claim that was not measured names the recipes or the study that it needs.
std::vector<AnsweredClaim> AnswerClaims(const Evidence& evidence);

// Format claims/1 (reports/files/claims.schema.json). `header` has command,
// created and environment.
Json ClaimsJson(const std::vector<AnsweredClaim>& answers,
                const Evidence& evidence, const Json& header);
// Every paper in the order of its text, the verdict first, in rows of at most
// 400 characters; what was found in full is folded below.
std::string ClaimsMarkdown(const std::vector<AnsweredClaim>& answers);

// The claims that the files answer, the names of those that they hold too
// little for, and how many others there are; with `all` every claim. An erratum
// that is not confirmed is always among them.
std::string ClaimsText(const std::vector<AnsweredClaim>& answers,
                       const Evidence& evidence, bool all);

struct ClaimsOptions {
  std::vector<std::string> files;  // or folders of them
  std::filesystem::path out;
  bool force = false;  // replace it if it exists
  bool all = false;    // print every claim
  std::string command;
};

// The whole command. Returns an ExitStatus: kCheckFailed where an erratum is
// not one.
int RunClaims(const ClaimsOptions& options);

}  // namespace subquad
