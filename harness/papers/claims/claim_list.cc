#include "harness/papers/claims/claim_list.h"

#include "harness/papers/claims/rules.h"

namespace subquad {

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

Claim Untested(const std::string& id, const std::string& says,
               const std::string& source, const std::string& reason) {
  return {id,
          says,
          source,
          ClaimKind::kNone,
          "",
          [reason](const Evidence&) {
            Finding finding;
            finding.Add(Holds::kMissing, reason);
            return finding;
          },
          {}};
}

}  // namespace subquad
