#include "reference/base/not_together.h"

#include <algorithm>
#include <utility>
#include <vector>

namespace subquad {
namespace {

bool HasRule(const std::vector<ParamRule>& rules, const std::string& name) {
  return std::ranges::any_of(
      rules, [&](const ParamRule& rule) { return rule.name == name; });
}

}  // namespace

std::string Excluding(const RulesOfParams& rules_of, const Params& params,
                      const std::function<bool(const Params&)>& is_taken) {
  const auto is_taken_with = [&](const Params& changed) {
    try {
      return is_taken(changed);
    } catch (const InvalidInput&) {
      return false;  // a parameter that this one needs is missing
    }
  };
  const auto without = [&](const auto&... names) {
    Params changed = params;
    (changed.Erase(names), ...);
    return changed;
  };
  std::vector<std::string> names;
  for (const auto& [name, value] : params.values()) names.push_back(name);
  for (const ParamRule& rule : rules_of(params)) {
    if (!params.Has(rule.name)) continue;
    for (const std::string& choice : rule.choices) {
      Params changed = params;
      changed.Set(rule.name, choice);
      if (is_taken_with(changed))
        return rule.name + "=" + ToString(params.values().at(rule.name));
    }
  }
  for (const std::string& name : names)
    if (is_taken_with(without(name))) return name;
  for (const std::string& first : names)
    for (const std::string& second : names)
      if (first < second && is_taken_with(without(first, second)))
        return first + " and " + second;
  return "";
}

void CheckNotExcluded(const RulesOfParams& rules_of, const Params& params,
                      const std::string& name) {
  const std::string others = Excluding(
      rules_of, params,
      [&](const Params& changed) { return HasRule(rules_of(changed), name); });
  if (!others.empty())
    throw InvalidInput("parameter " + name +
                       ": it is not taken together with " + others);
}

void CheckParamsOf(const RulesOfParams& rules_of, Params& params) {
  const std::vector<ParamRule> rules = rules_of(params);
  for (const auto& [name, value] : params.values())
    if (!HasRule(rules, name)) CheckNotExcluded(rules_of, params, name);
  CheckParams(rules, params);
}

}  // namespace subquad
