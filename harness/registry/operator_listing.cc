#include "harness/registry/operator_listing.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <stdexcept>

#include "harness/registry/registry.h"
#include "optimized/targets.h"
#include "reference/contract/not_taken.h"

namespace subquad {
namespace {

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
  all.Decide("grad");
  choices["grad"] = backward ? kGiven : kNotGiven;
  for (const ParamRule& rule : rules)
    if (rule.type == ParamType::kInteger && !params.Has(rule.name) &&
        !choices.contains(rule.name))
      params.Set(rule.name, std::max<int64_t>(rule.min, 1));
  all.variants.push_back({choices, rules, op.SignatureFor(params, backward)});
}

Decisions DecisionsOf(const Operator& op) {
  Decisions all;
  AddVariants(op, false, {}, {}, all);
  AddVariants(op, true, {}, {}, all);
  return all;
}

using Choices = std::map<std::string, std::vector<std::string>>;

std::string ChoiceIn(const Variant& variant, const std::string& name) {
  const auto position = variant.choices.find(name);
  return position == variant.choices.end() ? "" : position->second;
}

bool Fulfils(const Variant& variant, const Choices& conditions) {
  return std::ranges::all_of(conditions, [&](const auto& condition) {
    return std::ranges::count(condition.second,
                              ChoiceIn(variant, condition.first)) > 0;
  });
}

// Returns the shortest conditions that exactly the variants `in` fulfil.
Conditions When(const std::string& item, const Decisions& all,
                std::vector<bool> in) {
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
  Choices full;
  for (const std::string& name : names)
    for (size_t v = 0; v < variants.size(); ++v) {
      const std::string choice = ChoiceIn(variants[v], name);
      if (in[v] && std::ranges::count(full[name], choice) == 0)
        full[name].push_back(choice);
    }
  const auto exact = [&](const Choices& conditions) {
    for (size_t v = 0; v < variants.size(); ++v)
      if (Fulfils(variants[v], conditions) != in[v]) return false;
    return true;
  };
  if (!exact(full))
    throw std::logic_error(item + ": its conditions are not a simple list");
  const auto length = [](const Choices& conditions) {
    constexpr size_t kUndecided = 100;  // penalty for a choice without effect
    size_t count = 0;
    for (const auto& [name, choices] : conditions)
      for (const std::string& choice : choices)
        count += choice.empty() ? kUndecided : 1;
    return count;
  };
  std::optional<Choices> best;
  for (int order = 0; order < 2; ++order) {
    std::ranges::reverse(names);
    Choices shorter = full;
    for (const std::string& name : names) {
      Choices without = shorter;
      without.erase(name);
      if (exact(without)) shorter = without;
    }
    if (!best || length(shorter) < length(*best)) best = shorter;
  }
  Conditions when;
  for (const std::string& name : all.names)
    if (best->contains(name)) when.emplace_back(name, best->at(name));
  return when;
}

// Merges equal entries of several variants into one with its conditions.
template <typename Entry>
std::vector<Entry> Merged(
    const Decisions& all,
    const std::function<std::vector<Entry>(const Variant&)>& entries_of) {
  std::vector<Entry> entries;
  std::vector<std::vector<bool>> in;
  for (size_t v = 0; v < all.variants.size(); ++v)
    for (Entry& entry : entries_of(all.variants[v])) {
      const size_t place = static_cast<size_t>(
          std::ranges::find(entries, entry) - entries.begin());
      if (place == entries.size()) {
        entries.push_back(std::move(entry));
        in.emplace_back(all.variants.size());
      }
      in[place][v] = true;
    }
  std::vector<Entry> merged;
  for (size_t i = 0; i < entries.size(); ++i) {
    Entry entry = entries[i];
    entry.when = When(entry.name, all, in[i]);
    // Entries of the same name are neighbours.
    auto place = merged.end();
    for (auto other = merged.begin(); other != merged.end(); ++other)
      if (other->name == entry.name) place = other + 1;
    merged.insert(place, std::move(entry));
  }
  return merged;
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

ListedParam ListParam(const Operator& op, const Decisions& all,
                      const Variant& variant, const ParamRule& rule) {
  // The height of an image is required only if its width is given.
  const bool may_be_left_out =
      variant.choices.contains(rule.name) && rule.type == ParamType::kInteger;
  ListedParam entry{.name = rule.name,
                    .type = rule.type,
                    .required = rule.required && !may_be_left_out,
                    .meaning = rule.meaning,
                    .choices = rule.choices,
                    .default_value = rule.default_value,
                    .of_input = rule.of_input};
  if (rule.may_be_list) entry.may_be_list = true;
  if (rule.type == ParamType::kInteger || rule.type == ParamType::kList ||
      rule.type == ParamType::kTable) {
    entry.min = rule.min;
    entry.max = rule.max;
  }
  if (rule.type == ParamType::kNumber)
    (rule.may_be_zero ? entry.min : entry.above) = 0;
  if (!rule.choices.empty())
    entry.generated = GeneratedChoice(op, variant, rule.name);
  if (!may_be_left_out) return entry;
  for (const std::string& other : all.names)
    if (other != rule.name && other != "grad" &&
        (ChoiceIn(variant, other) == kGiven ||
         ChoiceIn(variant, other) == kNotGiven))
      entry.together_with.push_back(other);
  return entry;
}

ListedTensor ListInput(const TensorRule& rule) {
  ListedTensor entry{rule.name, rule.shape, ListedInput(), {}};
  entry.input->required = !rule.optional && rule.name != "grad";
  entry.input->minus_infinity = rule.may_be_minus_infinity;
  entry.input->zero_or_one = rule.zero_or_one;
  entry.input->per_pair = rule.per_pair;
  for (const OffsetAxis& axis : rule.offset_axes)
    entry.input->first_offsets.push_back(axis.first);
  return entry;
}

// Tells whether an operator has a parameter, an input or an output of this
// name.
bool HasName(const OperatorListing& listing, const std::string& name) {
  const auto among = [&](const auto& entries) {
    return std::ranges::any_of(
        entries, [&](const auto& entry) { return entry.name == name; });
  };
  return among(listing.params) || among(listing.inputs) ||
         among(listing.outputs);
}

// Describes an implementation of an operator whose other entries are listed.
ListedImplementation ListImplementation(const Implementation& implementation,
                                        const OperatorListing& listing) {
  ListedImplementation entry{.id = implementation.id,
                             .backend = implementation.backend,
                             .time = implementation.time.text,
                             .memory = implementation.memory.text,
                             .backward = implementation.backward,
                             .what = implementation.what,
                             .source = implementation.source};
  if (!implementation.backward)
    entry.why_no_backward = implementation.why_no_backward;
  for (Scalar scalar : implementation.scalars)
    entry.scalars.emplace_back(Info(scalar).name);
  if (implementation.backend == Backend::kCpu) {
    entry.target = CurrentTarget().name;
  } else {
    for (const std::string& name : NamesNotTaken(implementation))
      if (HasName(listing, name)) entry.not_taken.push_back(name);
    entry.takes_groups = implementation.takes_groups;
  }
  for (const Refusal& refusal : implementation.refuses) {
    if (std::ranges::count(entry.not_taken, refusal.name) > 0) continue;
    (refusal.for_pairs_only ? entry.pairs_not_taken : entry.not_taken)
        .push_back(refusal.name);
  }
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
    json["params"][name] =
        std::visit([](const auto& held) { return Json(held); }, value);
  const Signature signature = op.SignatureFor(params, false);
  for (const TensorRule& rule : signature.inputs)
    if (!rule.optional) json["inputs"][rule.name] = rule.name + ".npy";
  for (const TensorRule& rule : signature.outputs)
    if (!rule.optional) json["expected"][rule.name] = rule.name + ".npy";
  return json;
}

}  // namespace

std::string_view ToString(ParamType type) {
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

OperatorListing ListOperator(const Operator& op) {
  const Decisions all = DecisionsOf(op);
  OperatorListing listing{.id = std::string(op.description().id),
                          .formula = std::string(op.description().formula),
                          .source = std::string(op.description().source),
                          .sample_case = SampleCase(op)};
  listing.params = Merged<ListedParam>(all, [&](const Variant& variant) {
    std::vector<ListedParam> list;
    for (const ParamRule& rule : variant.params)
      list.push_back(ListParam(op, all, variant, rule));
    return list;
  });
  listing.sizes = Merged<ListedSize>(all, [](const Variant& variant) {
    std::vector<ListedSize> list;
    for (const SizeRule& rule : variant.signature.sizes)
      list.push_back({rule.name,
                      rule.meaning,
                      rule.min,
                      {rule.follows_n, rule.default_value},
                      rule.of_input,
                      {}});
    return list;
  });
  listing.inputs = Merged<ListedTensor>(all, [](const Variant& variant) {
    std::vector<ListedTensor> list;
    for (const TensorRule& rule : variant.signature.inputs)
      list.push_back(ListInput(rule));
    return list;
  });
  listing.outputs = Merged<ListedTensor>(all, [](const Variant& variant) {
    std::vector<ListedTensor> list;
    for (const TensorRule& rule : variant.signature.outputs)
      list.push_back(rule.optional
                         ? ListInput(rule)
                         : ListedTensor{rule.name, rule.shape, {}, {}});
    return list;
  });
  for (const Implementation* implementation : ImplementationsOf(op))
    listing.implementations.push_back(
        ListImplementation(*implementation, listing));
  for (const Implementation& row : MissingImplementations())
    if (row.op == listing.id) listing.missing.push_back({row.id, row.needs});
  return listing;
}

// ---- JSON -------------------------------------------------------------------

template <>
struct JsonValue<GeneratedSize> {
  static Json Write(const GeneratedSize& size) {
    return size.follows_n ? Json("n") : Json(size.value);
  }
};

template <FieldsOf<ListedParam> T, typename Fields>
void VisitFields(T& param, Fields&& fields) {
  fields("name", param.name, Empty::kValue);
  fields("type", param.type, Empty::kValue);
  fields("required", param.required, Empty::kValue);
  fields("meaning", param.meaning, Empty::kValue);
  fields("min", param.min, Empty::kOmitted);
  fields("max", param.max, Empty::kOmitted);
  fields("above", param.above, Empty::kOmitted);
  fields("choices", param.choices, Empty::kOmitted);
  fields("generated", param.generated, Empty::kOmitted);
  fields("default", param.default_value, Empty::kOmitted);
  fields("of_input", param.of_input, Empty::kOmitted);
  fields("may_be_list", param.may_be_list, Empty::kOmitted);
  fields("together_with", param.together_with, Empty::kOmitted);
  fields("when", param.when, Empty::kValue);
}

template <FieldsOf<ListedSize> T, typename Fields>
void VisitFields(T& size, Fields&& fields) {
  fields("name", size.name, Empty::kValue);
  fields("meaning", size.meaning, Empty::kValue);
  fields("min", size.min, Empty::kValue);
  fields("generated", size.generated, Empty::kValue);
  fields("of_input", size.of_input, Empty::kOmitted);
  fields("when", size.when, Empty::kValue);
}

template <FieldsOf<ListedInput> T, typename Fields>
void VisitFields(T& input, Fields&& fields) {
  fields("required", input.required, Empty::kValue);
  fields("minus_infinity", input.minus_infinity, Empty::kValue);
  fields("zero_or_one", input.zero_or_one, Empty::kValue);
  fields("per_pair", input.per_pair, Empty::kValue);
  fields("first_offsets", input.first_offsets, Empty::kValue);
}

template <FieldsOf<ListedTensor> T, typename Fields>
void VisitFields(T& tensor, Fields&& fields) {
  fields("name", tensor.name, Empty::kValue);
  fields("shape", tensor.shape, Empty::kValue);
  fields.Group(tensor.input);
  fields("when", tensor.when, Empty::kValue);
}

template <FieldsOf<ListedImplementation> T, typename Fields>
void VisitFields(T& implementation, Fields&& fields) {
  fields("implementation", implementation.id, Empty::kValue);
  fields("backend", implementation.backend, Empty::kValue);
  fields("scalars", implementation.scalars, Empty::kValue);
  fields("time", implementation.time, Empty::kValue);
  fields("memory", implementation.memory, Empty::kValue);
  fields("backward", implementation.backward, Empty::kValue);
  fields("what", implementation.what, Empty::kValue);
  fields("source", implementation.source, Empty::kValue);
  fields("why_no_backward", implementation.why_no_backward, Empty::kOmitted);
  fields("target", implementation.target, Empty::kOmitted);
  fields("not_taken", implementation.not_taken, Empty::kOmitted);
  fields("pairs_not_taken", implementation.pairs_not_taken, Empty::kOmitted);
  fields("takes_groups", implementation.takes_groups, Empty::kOmitted);
}

template <FieldsOf<ListedMissing> T, typename Fields>
void VisitFields(T& missing, Fields&& fields) {
  fields("implementation", missing.id, Empty::kValue);
  fields("needs", missing.needs, Empty::kValue);
}

template <FieldsOf<OperatorListing> T, typename Fields>
void VisitFields(T& listing, Fields&& fields) {
  fields("operator", listing.id, Empty::kValue);
  fields("formula", listing.formula, Empty::kValue);
  fields("source", listing.source, Empty::kValue);
  fields("params", listing.params, Empty::kValue);
  fields("sizes", listing.sizes, Empty::kValue);
  fields("inputs", listing.inputs, Empty::kValue);
  fields("outputs", listing.outputs, Empty::kValue);
  fields("case", listing.sample_case, Empty::kValue);
  fields("implementations", listing.implementations, Empty::kValue);
  fields("missing", listing.missing, Empty::kOmitted);
}

Json JsonValue<OperatorListing>::Write(const OperatorListing& listing) {
  return WriteFields(listing);
}

}  // namespace subquad
