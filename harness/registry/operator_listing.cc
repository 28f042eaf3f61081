#include "harness/registry/operator_listing.h"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

#include "harness/registry/registry.h"
#include "optimized/targets.h"

namespace subquad {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kGiven = "given";
constexpr const char* kNotGiven = "not given";

// One combination of the choices that determine which tensors and parameters
// exist: a value for each parameter of text, whether each optional integer is
// given, and whether the incoming gradient is given.
struct Variant {
  std::map<std::string, std::string> choices;
  std::vector<ParamRule> params;
  Signature signature;
};

struct Decisions {
  std::vector<std::string> names;  // in the order in which they are made
  std::vector<Variant> variants;

  void Decide(const std::string& name) {
    if (std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
};

void AddVariants(const Operator& op, bool backward, Params params,
                 std::map<std::string, std::string> choices, Decisions& all) {
  const std::vector<ParamRule> rules = op.ParamRules(params);
  for (const ParamRule& rule : rules) {
    if (rule.type != ParamType::kText || params.Has(rule.name)) continue;
    all.Decide(rule.name);
    for (const std::string& choice : rule.choices) {
      params.Set(rule.name, choice);
      choices[rule.name] = choice;
      AddVariants(op, backward, params, choices, all);
    }
    return;
  }
  std::vector<ParamRule> optional;
  for (const ParamRule& rule : rules)
    if (rule.type == ParamType::kInteger && !rule.required &&
        rule.default_value.empty() && !choices.contains(rule.name))
      optional.push_back(rule);
  if (!optional.empty()) {
    for (const bool given : {false, true}) {
      for (const ParamRule& rule : optional) {
        all.Decide(rule.name);
        choices[rule.name] = given ? kGiven : kNotGiven;
        if (given) params.Set(rule.name, std::max<int64_t>(rule.min, 1));
      }
      AddVariants(op, backward, params, choices, all);
    }
    return;
  }
  if (op.HasBackward()) {
    all.Decide("grad");
    choices["grad"] = backward ? kGiven : kNotGiven;
  }
  for (const ParamRule& rule : rules)
    if (rule.type == ParamType::kInteger && !params.Has(rule.name) &&
        !choices.contains(rule.name))
      params.Set(rule.name, std::max<int64_t>(rule.min, 1));
  all.variants.push_back({choices, rules, op.SignatureFor(params, backward)});
}

Decisions DecisionsOf(const Operator& op) {
  Decisions all;
  AddVariants(op, false, {}, {}, all);
  if (op.HasBackward()) AddVariants(op, true, {}, {}, all);
  return all;
}

using Conditions = std::map<std::string, std::vector<std::string>>;

std::string ChoiceIn(const Variant& variant, const std::string& name) {
  const auto position = variant.choices.find(name);
  return position == variant.choices.end() ? "" : position->second;
}

bool Fulfils(const Variant& variant, const Conditions& conditions) {
  return std::ranges::all_of(conditions, [&](const auto& condition) {
    return std::ranges::count(condition.second,
                              ChoiceIn(variant, condition.first)) > 0;
  });
}

// Returns the shortest conditions that exactly the variants `in` fulfil.
Json When(const std::string& item, const Decisions& all, std::vector<bool> in) {
  const auto& variants = all.variants;
  std::vector<std::string> names = all.names;
  // An item cannot be a condition for itself.
  if (std::erase(names, item) > 0)
    for (size_t a = 0; a < variants.size(); ++a)
      for (size_t b = 0; b < variants.size(); ++b)
        in[a] = in[a] || (in[b] && std::ranges::all_of(names, [&](auto& name) {
                            return ChoiceIn(variants[a], name) ==
                                   ChoiceIn(variants[b], name);
                          }));
  Conditions full;
  for (const std::string& name : names)
    for (size_t v = 0; v < variants.size(); ++v) {
      const std::string choice = ChoiceIn(variants[v], name);
      if (in[v] && std::ranges::count(full[name], choice) == 0)
        full[name].push_back(choice);
    }
  const auto exact = [&](const Conditions& conditions) {
    for (size_t v = 0; v < variants.size(); ++v)
      if (Fulfils(variants[v], conditions) != in[v]) return false;
    return true;
  };
  if (!exact(full))
    throw std::logic_error(item + ": its conditions are not a simple list");
  const auto length = [](const Conditions& conditions) {
    constexpr size_t kUndecided = 100;  // penalty for a choice without effect
    size_t count = 0;
    for (const auto& [name, choices] : conditions)
      for (const std::string& choice : choices)
        count += choice.empty() ? kUndecided : 1;
    return count;
  };
  std::optional<Conditions> best;
  for (int order = 0; order < 2; ++order) {
    std::ranges::reverse(names);
    Conditions shorter = full;
    for (const std::string& name : names) {
      Conditions without = shorter;
      without.erase(name);
      if (exact(without)) shorter = without;
    }
    if (!best || length(shorter) < length(*best)) best = shorter;
  }
  Json when = Json::object();
  for (const std::string& name : all.names)
    if (best->contains(name)) when[name] = best->at(name);
  return when;
}

// Merges equal entries of several variants into one with its conditions.
template <typename EntriesOf>
Json Merged(const Decisions& all, const EntriesOf& entries_of) {
  std::vector<Json> entries;
  std::vector<std::vector<bool>> in;
  for (size_t v = 0; v < all.variants.size(); ++v)
    for (Json& entry : entries_of(all.variants[v])) {
      const size_t place = static_cast<size_t>(
          std::ranges::find(entries, entry) - entries.begin());
      if (place == entries.size()) {
        entries.push_back(std::move(entry));
        in.emplace_back(all.variants.size());
      }
      in[place][v] = true;
    }
  Json merged = Json::array();
  for (size_t i = 0; i < entries.size(); ++i) {
    Json entry = entries[i];
    const std::string name = entry.at("name");
    entry["when"] = When(name, all, in[i]);
    // Entries of the same name are neighbours.
    auto place = merged.end();
    for (auto other = merged.begin(); other != merged.end(); ++other)
      if (other->at("name") == name) place = other + 1;
    merged.insert(place, std::move(entry));
  }
  return merged;
}

std::string_view TypeName(ParamType type) {
  switch (type) {
    case ParamType::kFlag:
      return "boolean";
    case ParamType::kInteger:
      return "integer";
    case ParamType::kNumber:
      return "number";
    case ParamType::kText:
      return "string";
    case ParamType::kList:
      return "list of integers";
    case ParamType::kTable:
      return "list of lists of integers";
  }
  return "";
}

Json ToJson(const ParamValue& value) {
  return std::visit([](const auto& held) { return Json(held); }, value);
}

// Returns the choice that generated cases make by default.
std::string GeneratedChoice(const Operator& op, const Variant& variant,
                            const std::string& name) {
  Params params;
  for (const auto& [other, choice] : variant.choices)
    if (other != name && choice != kGiven && choice != kNotGiven)
      params.Set(other, choice);
  op.CompleteParams(1024, 1, params);
  return params.Has(name) ? params.Text(name) : "";
}

Json ListParam(const Operator& op, const Decisions& all, const Variant& variant,
               const ParamRule& rule) {
  // The height of an image is required only if its width is given.
  const bool may_be_left_out =
      variant.choices.contains(rule.name) && rule.type == ParamType::kInteger;
  Json entry = {{"name", rule.name},
                {"type", TypeName(rule.type)},
                {"required", rule.required && !may_be_left_out},
                {"meaning", rule.meaning}};
  if (rule.type == ParamType::kInteger || rule.type == ParamType::kList ||
      rule.type == ParamType::kTable) {
    entry["min"] = rule.min;
    entry["max"] = rule.max;
  }
  if (rule.type == ParamType::kNumber)
    entry[rule.may_be_zero ? "min" : "above"] = 0;
  if (!rule.choices.empty()) {
    entry["choices"] = rule.choices;
    entry["generated"] = GeneratedChoice(op, variant, rule.name);
  }
  if (!rule.default_value.empty()) entry["default"] = rule.default_value;
  if (may_be_left_out) {
    entry["together_with"] = Json::array();
    for (const std::string& other : all.names)
      if (other != rule.name && other != "grad" &&
          (ChoiceIn(variant, other) == kGiven ||
           ChoiceIn(variant, other) == kNotGiven))
        entry["together_with"].push_back(other);
  }
  return entry;
}

Json ListTensor(const TensorRule& rule, bool input) {
  Json entry = {{"name", rule.name}, {"shape", rule.shape}};
  if (!input) return entry;
  entry["required"] = !rule.optional && rule.name != "grad";
  entry["minus_infinity"] = rule.may_be_minus_infinity;
  entry["first_offsets"] = Json::array();
  for (const OffsetAxis& axis : rule.offset_axes)
    entry["first_offsets"].push_back(axis.first);
  return entry;
}

Json ListImplementation(const Operator& op,
                        const Implementation& implementation) {
  Json entry = {{"implementation", implementation.id},
                {"backend", ToString(implementation.backend)},
                {"scalars", Json::array()},
                {"time", implementation.time.text},
                {"memory", implementation.memory.text},
                {"backward", implementation.backward},
                {"what", implementation.what},
                {"source", implementation.source}};
  if (!implementation.backward)
    entry["why_no_backward"] = op.HasBackward()
                                   ? implementation.why_no_backward
                                   : "only the forward pass is defined";
  for (Scalar scalar : implementation.scalars)
    entry["scalars"].push_back(Info(scalar).name);
  if (implementation.backend == Backend::kCpu)
    entry["target"] = CurrentTarget().name;
  return entry;
}

// Returns a case.json for a generated case of 16 tokens.
Json SampleCase(const Operator& op) {
  Params params;
  op.CompleteParams(16, 1, params);
  Json json = {
      {"format", "case/1"},         {"operator", op.description().id},
      {"params", Json::object()},   {"inputs", Json::object()},
      {"expected", Json::object()}, {"source", "origin of the tensors"}};
  for (const auto& [name, value] : params.values())
    json["params"][name] = ToJson(value);
  const Signature signature = op.SignatureFor(params, false);
  for (const TensorRule& rule : signature.inputs)
    if (!rule.optional) json["inputs"][rule.name] = rule.name + ".npy";
  for (const TensorRule& rule : signature.outputs)
    json["expected"][rule.name] = rule.name + ".npy";
  return json;
}

}  // namespace

Json ListOperator(const Operator& op) {
  const Decisions all = DecisionsOf(op);
  Json entry = {{"operator", op.description().id},
                {"formula", op.description().formula},
                {"source", op.description().source}};
  entry["params"] = Merged(all, [&](const Variant& variant) {
    std::vector<Json> list;
    for (const ParamRule& rule : variant.params)
      list.push_back(ListParam(op, all, variant, rule));
    return list;
  });
  entry["sizes"] = Merged(all, [](const Variant& variant) {
    std::vector<Json> list;
    for (const SizeRule& rule : variant.signature.sizes)
      list.push_back({{"name", rule.name},
                      {"meaning", rule.meaning},
                      {"min", rule.min},
                      {"generated",
                       rule.follows_n ? Json("n") : Json(rule.default_value)}});
    return list;
  });
  entry["inputs"] = Merged(all, [](const Variant& variant) {
    std::vector<Json> list;
    for (const TensorRule& rule : variant.signature.inputs)
      list.push_back(ListTensor(rule, true));
    return list;
  });
  entry["outputs"] = Merged(all, [](const Variant& variant) {
    std::vector<Json> list;
    for (const TensorRule& rule : variant.signature.outputs)
      list.push_back(ListTensor(rule, false));
    return list;
  });
  entry["case"] = SampleCase(op);
  entry["implementations"] = Json::array();
  for (const Implementation* implementation : ImplementationsOf(op))
    entry["implementations"].push_back(ListImplementation(op, *implementation));
  return entry;
}

}  // namespace subquad
