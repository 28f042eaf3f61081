// A flag that is true where it is not given: ResolveProblem sets it, so that
// programs find it in the parameters of a problem.
#pragma once

#include <string>
#include <utility>

#include "reference/base/params.h"

namespace subquad {

inline ParamRule FlagOn(std::string name, std::string meaning) {
  ParamRule rule = ParamRule::Flag(std::move(name), std::move(meaning));
  rule.default_value = "true";
  return rule;
}

// For signatures, which are asked before.
inline bool IsOn(const Params& params, const std::string& name) {
  return !params.Has(name) || params.Flag(name);
}

}  // namespace subquad
