// A flag whose default is true. ResolveProblem sets it when it is not given, so
// that implementations find it in the parameters of every problem.
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

// Reads the flag while signatures are made, before ResolveProblem sets
// defaults.
inline bool IsOn(const Params& params, const std::string& name) {
  return !params.Has(name) || params.Flag(name);
}

}  // namespace subquad
