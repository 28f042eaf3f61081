// One claim of a paper, and the rule that answers it.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/papers/claims/evidence.h"
#include "harness/papers/claims/finding.h"

namespace subquad {

enum class ClaimKind {
  kErratum,
  kProperty,
  kSweep,
  kStudy,
  kNone  // nothing here can test it; its rule says why
};
std::string_view ToString(ClaimKind kind);

struct Claim {
  std::string id;
  std::string says;    // in our words
  std::string source;  // paper and place
  ClaimKind kind;
  std::string study;  // for kStudy
  std::function<Finding(const Evidence& evidence)> rule;
  std::vector<std::string> recipes = {};  // whose points the rule takes
};

// A few words at its place in the text (quotations.cc).
const std::string& QuotationOf(const Claim& claim);

}  // namespace subquad
