// Says which other parameters exclude a parameter or an input that an operator
// takes: windows on an image, or a query_offset beside a pattern without
// positions.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "reference/base/params.h"

namespace subquad {

// Returns the rules of an operator's parameters, which depend on the given ones
// (Operator::ParamRules).
using RulesOfParams = std::function<std::vector<ParamRule>(const Params&)>;

// Names the parameters without which, or with another choice of which,
// `is_taken` is true: "height and width", "pattern=strided". Returns "" if
// there are none.
std::string Excluding(const RulesOfParams& rules_of, const Params& params,
                      const std::function<bool(const Params&)>& is_taken);

// Throws InvalidInput if this parameter, which is not among the rules, is taken
// without others of the given ones.
void CheckNotExcluded(const RulesOfParams& rules_of, const Params& params,
                      const std::string& name);

// Checks parameters by CheckParams and says which others exclude an unknown
// one.
void CheckParamsOf(const RulesOfParams& rules_of, Params& params);

}  // namespace subquad
