#include "harness/papers/claims/claim_list.h"

#include "harness/papers/claims/rules.h"

namespace subquad {
namespace {

Finding Because(const std::string& reason) {
  Finding finding;
  finding.Add(Holds::kUntestable, reason);
  return finding;
}

}  // namespace

Claim OfStudy(const std::string& id, const std::string& says,
              const std::string& source, const std::string& study,
              const std::string& verdict) {
  return {
      id,
      says,
      source,
      ClaimKind::kStudy,
      study,
      [study, name = verdict.empty() ? id : verdict](const Evidence& evidence) {
        return FromStudies(evidence, study, name);
      },
      {}};
}

Claim BesideStudy(const std::string& id, const std::string& says,
                  const std::string& source, const std::string& study,
                  const std::string& reason) {
  Claim claim = OfStudy(id, says, source, study);
  claim.rule = [study, id, reason](const Evidence& evidence) {
    Finding finding = FromStudies(evidence, study, id);
    return finding.verdict() == ClaimVerdict::kNotMeasured ? Because(reason)
                                                           : finding;
  };
  return claim;
}

Claim Untested(const std::string& id, const std::string& says,
               const std::string& source, const std::string& reason) {
  return {id,     says,
          source, ClaimKind::kNone,
          "",     [reason](const Evidence&) { return Because(reason); },
          {}};
}

}  // namespace subquad
