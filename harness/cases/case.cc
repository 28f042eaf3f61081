#include "harness/cases/case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>

#include "harness/base/text.h"
#include "harness/cases/hard_inputs.h"
#include "harness/cases/input_source.h"
#include "harness/cases/omega.h"
#include "harness/registry/registry.h"
#include "reference/base/not_together.h"

namespace subquad {
namespace {

bool ParseFlag(const std::string& subject, const std::string& text) {
  if (text == "1" || text == "true") return true;
  if (text == "0" || text == "false") return false;
  throw InvalidInput(subject, "true or false", "'" + text + "'");
}

IntegerList ParseList(const std::string& subject, const std::string& text) {
  IntegerList list;
  for (const std::string& part : Split(text, '+'))
    list.push_back(ParseInteger(subject, part,
                                std::numeric_limits<int64_t>::min(),
                                "integers joined by +, such as 3+4"));
  return list;
}

int64_t Sum(const IntegerList& list) {
  return std::accumulate(list.begin(), list.end(), int64_t{0});
}

std::string PrintList(const IntegerList& list) {
  std::string text;
  for (int64_t value : list)
    text += (text.empty() ? "" : "+") + std::to_string(value);
  return text;
}

// Formats a parameter as in an id.
std::string PrintParam(const ParamValue& value) {
  if (const bool* flag = std::get_if<bool>(&value)) return *flag ? "1" : "0";
  if (const auto* list = std::get_if<IntegerList>(&value))
    return PrintList(*list);
  if (const auto* table = std::get_if<IntegerTable>(&value)) {
    std::string text;
    for (const IntegerList& list : *table)
      text += (text.empty() ? "" : ";") + PrintList(list);
    return text;
  }
  return ToString(value);
}

RulesOfParams RulesOf(const Operator& op) {
  return [&op](const Params& params) { return op.ParamRules(params); };
}

const ParamRule* FindRule(const std::vector<ParamRule>& rules,
                          const std::string& name) {
  for (const ParamRule& rule : rules)
    if (rule.name == name) return &rule;
  return nullptr;
}
const ParamRule* FindRule(std::vector<ParamRule>&&, const std::string&) =
    delete;  // it points into the list

bool Names(const CaseRequest& request, std::string_view wanted) {
  return std::ranges::any_of(
      request.values, [&](const auto& value) { return value.first == wanted; });
}

// Fills in what a request leaves open from the folder with its tensors.

void TakeImage(const CaseFolder& folder, const CaseRequest& request,
               Params& params) {
  if (request.n) return;
  auto rules = request.op->ParamRules(params);
  std::erase_if(rules, [](const ParamRule& rule) { return !rule.follows_n; });
  const Params& values = folder.problem.params;
  for (const ParamRule& rule : rules)
    if (Names(request, rule.name) || !values.Has(rule.name)) return;
  for (const ParamRule& rule : rules)
    params.Set(rule.name, values.Integer(rule.name));
}

void TakeInputs(const CaseFolder& folder, const Signature& signature,
                const CaseRequest& request, Case& test_case) {
  const Problem& problem = folder.problem;
  const auto asked = [&](std::string_view wanted) {
    return Names(request, wanted);
  };
  if (!asked("with"))
    for (const TensorRule& rule : signature.inputs)
      if (rule.optional && problem.HasInput(rule.name))
        test_case.with.push_back(rule.name);
  LeadingAxes& leading = test_case.leading;
  const bool has_heads = !problem.leading.empty();
  if (has_heads && asked("heads") && leading.heads == 0)
    throw InvalidInput("heads", "at least 1, as " + folder.name + " has heads",
                       "0");
  if (has_heads && !asked("heads")) leading.heads = problem.leading.back();
  if (problem.leading.size() == 2 && !asked("batch"))
    leading.batch = problem.leading.front();
  const bool per_head =
      std::ranges::any_of(signature.inputs, [&](const TensorRule& rule) {
        return rule.role == Role::kParameter && problem.HasInput(rule.name) &&
               !problem.input_leading[problem.InputIndex(rule.name)].empty();
      });
  if (per_head && asked("per_head") && !leading.per_head)
    throw InvalidInput("per_head", "1, as " + folder.name + " has it", "0");
  leading.per_head = leading.per_head || per_head;
  // Tensors that heads share in another way in the folder.
  if (!asked("leading") && !asked("heads") && !asked("batch"))
    for (const TensorRule& rule : signature.inputs) {
      if (!problem.HasInput(rule.name)) continue;
      const Shape& theirs =
          problem.input_leading[problem.InputIndex(rule.name)];
      if (theirs != leading.Of(rule)) leading.own[rule.name] = theirs;
    }
  if (!asked("shared"))
    for (const TensorRule& rule : problem.inputs)
      if (rule.per_pair)
        leading.shared[rule.name] = {rule.shape[0] == "1",
                                     rule.shape[1] == "1"};
  std::erase_if(leading.shared, [](const auto& entry) {
    return !entry.second.queries && !entry.second.keys;
  });
  for (const TensorRule& rule : signature.inputs)
    if (rule.draw.projection && test_case.omega != "gaussian" &&
        problem.HasInput(rule.name))
      throw InvalidInput("omega", "no sampler, as " + folder.name + " has it",
                         test_case.omega);
}

int64_t SizeOf(const SizeRule& rule, const CaseRequest& request, int64_t n,
               const CaseFolder* folder) {
  if (folder && !(rule.follows_n && request.n))
    if (const auto position = folder->problem.dims.find(rule.name);
        position != folder->problem.dims.end())
      return position->second;
  return rule.follows_n ? n : rule.default_value;
}

using Values = std::vector<std::pair<std::string, std::string>>;

// Returns the parameters that this request may set. Texts (choices) come first,
// since they decide which others exist.
std::vector<ParamRule> RulesOf(const CaseRequest& request,
                               const CaseFolder* folder, int64_t n) {
  Params chosen;
  for (const auto& [name, text] : request.values) {
    const auto rules = request.op->ParamRules(chosen);
    const ParamRule* rule = FindRule(rules, name);
    if (rule && rule->type == ParamType::kText) chosen.Set(name, text);
  }
  if (folder) TakeImage(*folder, request, chosen);
  request.op->CompleteParams(n, request.seed, chosen);
  return request.op->ParamRules(chosen);
}

// Returns the names. Throws InvalidInput if one occurs twice.
std::vector<std::string> NamedOnce(const std::string& subject,
                                   std::vector<std::string> names) {
  for (auto name = names.begin(); name != names.end(); ++name)
    if (std::find(names.begin(), name, *name) != name)
      throw InvalidInput(subject, "each input once", "'" + *name + "' twice");
  return names;
}

// Parses the leading axes of single tensors: "k:2+v:2+bias:", or "k:4x2" with a
// batch.
std::map<std::string, Shape> ParseLeading(const std::string& text) {
  std::map<std::string, Shape> axes;
  for (const std::string& part : Split(text, '+')) {
    const size_t colon = part.find(':');
    if (colon == std::string::npos)
      throw InvalidInput("leading",
                         "TENSOR:HEADS or TENSOR:BATCHxHEADS, joined by +",
                         "'" + part + "'");
    if (axes.contains(part.substr(0, colon)))
      throw InvalidInput("leading", "each tensor once",
                         "'" + part.substr(0, colon) + "' twice");
    Shape& shape = axes[part.substr(0, colon)];
    if (const std::string counts = part.substr(colon + 1); !counts.empty())
      for (const std::string& count : Split(counts, 'x'))
        shape.push_back(
            ParseInteger("leading", count, 1, "an integer of at least 1"));
    if (shape.size() > 2)
      throw InvalidInput("leading", "at most two axes", "'" + part + "'");
  }
  return axes;
}

// Parses the axes that single tensors share: "mask:queries+pair_bias:keys".
std::map<std::string, LeadingAxes::Shared> ParseShared(
    const std::string& text) {
  std::map<std::string, LeadingAxes::Shared> shared;
  for (const std::string& part : Split(text, '+')) {
    const size_t colon = std::min(part.find(':'), part.size());
    LeadingAxes::Shared& axes = shared[part.substr(0, colon)];
    const std::string axis = part.substr(std::min(colon + 1, part.size()));
    if (axis != "queries" && axis != "keys")
      throw InvalidInput("shared", "TENSOR:queries or TENSOR:keys, joined by +",
                         "'" + part + "'");
    (axis == "queries" ? axes.queries : axes.keys) = true;
  }
  return shared;
}

// Resolves parameters and the settings that all operators have. Returns the
// remaining values: sizes or unknown names.
Values ResolveTexts(const CaseRequest& request,
                    const std::vector<ParamRule>& rules, Case& test_case) {
  Values rest;
  for (const auto& [name, text] : request.values) {
    if (name == "backward")
      test_case.backward = ParseFlag(name, text);
    else if (name == "heads")
      test_case.leading.heads = ParseInteger(name, text);
    else if (name == "batch")
      test_case.leading.batch = ParseInteger(name, text);
    else if (name == "per_head")
      test_case.leading.per_head = ParseFlag(name, text);
    else if (name == "leading")
      test_case.leading.own = ParseLeading(text);
    else if (name == "shared")
      test_case.leading.shared = ParseShared(text);
    else if (name == "with")
      test_case.with = NamedOnce(name, Split(text, '+'));
    else if (name == "omega")
      test_case.omega = text;
    else if (const ParamRule* rule = FindRule(rules, name))
      test_case.params.Set(name, ParseParam(*rule, text));
    else
      rest.emplace_back(name, text);
  }
  for (const auto& [name, count] :
       {std::pair{"heads", test_case.leading.heads},
        std::pair{"batch", test_case.leading.batch}})
    if (count < 0)
      throw InvalidInput(name, "at least 0", std::to_string(count));
  CheckOmegaSampler(test_case.omega);
  return rest;
}

// Resolves sizes, optional inputs and projections, which need the signature.
void ResolveSizes(const CaseRequest& request,
                  const std::vector<ParamRule>& rules, int64_t n,
                  const Values& values, Case& test_case) {
  const CaseFolder* folder = test_case.source.get();
  const Signature signature =
      test_case.op->SignatureFor(test_case.params, test_case.backward);
  if (test_case.omega != "gaussian" &&
      std::ranges::none_of(signature.inputs, [](const TensorRule& rule) {
        return rule.draw.projection;
      }))
    throw InvalidInput("omega", "a feature map with projections",
                       "none in this case");
  if (folder) TakeInputs(*folder, signature, request, test_case);
  for (const SizeRule& rule : signature.sizes)
    if (rule.of_input.empty() ||
        std::ranges::count(test_case.with, rule.of_input) > 0)
      test_case.sizes[rule.name] = SizeOf(rule, request, n, folder);
  // Packed sequences determine the number of queries and keys.
  for (const auto& [size, list] : {std::pair{signature.queries, "packed_q"},
                                   std::pair{signature.keys, "packed_k"}})
    if (!request.n && test_case.params.Has(list))
      test_case.sizes[size] = Sum(test_case.params.List(list));
  for (const auto& [name, text] : values) {
    if (!test_case.sizes.contains(name)) {
      CheckNotExcluded(RulesOf(*test_case.op), test_case.params, name);
      std::vector<std::string> known = {"n"};
      for (const SizeRule& rule : signature.sizes)
        if (rule.name != "n") known.push_back(rule.name);
      for (const ParamRule& rule : rules) known.push_back(rule.name);
      for (const CaseSetting& setting : CaseSettings())
        known.push_back(setting.name);
      throw UnknownName("parameter", known, name)
          .In(std::string(test_case.op->description().id));
    }
    test_case.sizes[name] = ParseInteger("size " + name, text);
  }
}

std::string Sizes(const Case& test_case) {
  const Signature signature =
      test_case.op->SignatureFor(test_case.params, test_case.backward);
  std::string text;
  auto add = [&](const std::string& name, const std::string& value) {
    text += (text.empty() ? "" : ",") + name + "=" + value;
  };
  const auto queries = test_case.sizes.find(signature.queries);
  const auto keys = test_case.sizes.find(signature.keys);
  const bool square = queries != test_case.sizes.end() &&
                      keys != test_case.sizes.end() && queries != keys &&
                      queries->second == keys->second;
  if (square) add("n", std::to_string(queries->second));
  for (const SizeRule& rule : signature.sizes) {
    if (!test_case.sizes.contains(rule.name) ||
        (square &&
         (rule.name == signature.queries || rule.name == signature.keys)))
      continue;
    add(rule.name, std::to_string(test_case.sizes.at(rule.name)));
  }
  const LeadingAxes& leading = test_case.leading;
  if (leading.batch > 0) add("batch", std::to_string(leading.batch));
  if (leading.heads > 0) add("heads", std::to_string(leading.heads));
  if (leading.per_head) add("per_head", "1");
  if (!leading.own.empty()) add("leading", LeadingText(leading.own));
  if (!leading.shared.empty()) add("shared", SharedText(leading.shared));
  return text;
}

}  // namespace

std::string Case::DrawId() const {
  std::string text = std::string(op->description().id) + ":" + Sizes(*this);
  if (text.back() != ':') text += ",";
  for (const ParamRule& rule : op->ParamRules(params))
    if (params.Has(rule.name))
      text += rule.name + "=" + PrintParam(params.values().at(rule.name)) + ",";
  if (backward) text += "backward=1,";
  if (!with.empty()) {
    text += "with=";
    for (size_t i = 0; i < with.size(); ++i) text += (i ? "+" : "") + with[i];
    text += ",";
  }
  if (input != "normal") text += "input=" + input + ",";
  if (omega != "gaussian") text += "omega=" + omega + ",";
  text.pop_back();
  return text;
}

std::string Case::Id() const {
  return DrawId() + ",scalar=" + std::string(Info(scalar).name) +
         ",seed=" + std::to_string(seed);
}

int64_t Case::Tokens() const {
  Dims dims = sizes;
  AddParamsToDims(params, dims);
  return CountOf(op->SignatureFor(params, backward).queries, dims);
}

ParamValue ParseParam(const ParamRule& rule, const std::string& text) {
  const std::string subject = "parameter " + rule.name;
  switch (rule.type) {
    case ParamType::kFlag:
      return ParseFlag(subject, text);
    case ParamType::kInteger:
      if (rule.may_be_list && text.find('+') != std::string::npos)
        return ParseList(subject, text);
      return ParseInteger(subject, text, std::numeric_limits<int64_t>::min(),
                          rule.may_be_list
                              ? "an integer, or several joined by +"
                              : "an integer");
    case ParamType::kNumber: {
      const auto value = ParseNumber<double>(text);
      if (!value) throw InvalidInput(subject, "a number", "'" + text + "'");
      return *value;
    }
    case ParamType::kText:
      return text;
    case ParamType::kList:
      return ParseList(subject, text);
    case ParamType::kTable: {
      IntegerTable table;
      for (const std::string& row : Split(text, ';'))
        table.push_back(ParseList(subject, row));
      return table;
    }
  }
  return false;
}

const std::vector<CaseSetting>& CaseSettings() {
  static const std::vector<CaseSetting> settings = {
      {"heads", "number of heads; 0, the default: tensors have no such axis"},
      {"batch", "number of batch items; 0, the default: no such axis"},
      {"per_head",
       "true: every head has its own biases, weights and projections; "
       "default false: heads share them"},
      {"leading",
       "head axes, or batch and head axes, of single tensors: k:2+v:2, k:4x2",
       true},
      {"shared",
       "tensors [n_q, n_k] with one entry for all queries, or all keys: "
       "mask:queries+pair_bias:keys",
       true},
      {"with",
       "optional inputs and outputs to include, joined by +; default none"},
      {"backward", "true: compute the gradients in place of the outputs"},
      {"omega", fmt::format("sampler of random projections: {}; default {}",
                            fmt::join(OmegaSamplers(), ", "), Case().omega)},
  };
  return settings;
}

Case MakeCase(const CaseRequest& request) {
  Case test_case;
  test_case.op = request.op;
  test_case.input = request.input;
  if (!IsHardInput(test_case.input)) {
    test_case.input = InputSourceName(test_case.input);
    test_case.source = FindInputSource(test_case.input);
  }
  test_case.scalar = request.scalar;
  test_case.seed = request.seed;
  const CaseFolder* folder = test_case.source.get();
  const int64_t n = request.n.value_or(folder ? folder->problem.queries : 1024);
  const std::vector<ParamRule> rules = RulesOf(request, folder, n);
  const Values rest = ResolveTexts(request, rules, test_case);
  const Params params = test_case.params;
  if (folder) TakeImage(*folder, request, test_case.params);
  test_case.op->CompleteParams(n, test_case.seed, test_case.params);
  for (const ParamRule& rule : rules)
    if (rule.type == ParamType::kFlag && rule.default_value == "false" &&
        !test_case.params.Has(rule.name))
      test_case.params.Set(rule.name, false);
  CheckParamsOf(RulesOf(*test_case.op), test_case.params);
  ResolveSizes(request, rules, n, rest, test_case);
  // Lists that were filled in are determined by the sizes and the seed.
  for (const ParamRule& rule : rules)
    if ((rule.type == ParamType::kList || rule.type == ParamType::kTable) &&
        !params.Has(rule.name))
      test_case.params.Erase(rule.name);
  // Both throw InvalidInput if a value does not fit.
  const Problem problem = ProblemOf(test_case);
  if (folder) FitSource(*folder, problem);
  return test_case;
}

void CheckImageSize(const CaseRequest& request, const Case& test_case) {
  if (!request.n || *request.n == test_case.Tokens()) return;
  std::string product;
  bool named = false;
  for (const ParamRule& rule : test_case.op->ParamRules(test_case.params)) {
    if (!rule.follows_n) continue;
    product += (product.empty() ? "" : " * ") + rule.name + " = " +
               std::to_string(test_case.params.Integer(rule.name));
    named = named || Names(request, rule.name);
  }
  if (named)
    throw InvalidInput(
        "n", std::to_string(test_case.Tokens()) + " (" + product + ")",
        std::to_string(*request.n));
}

CaseRequest ParseCaseId(const std::string& id) {
  const size_t colon = id.find(':');
  if (colon == std::string::npos)
    throw InvalidInput("case id", "OPERATOR:NAME=VALUE,..", "'" + id + "'");
  CaseRequest request;
  request.op = &FindOperator(id.substr(0, colon));
  std::set<std::string> names;
  for (const std::string& part : Split(id.substr(colon + 1), ',')) {
    const size_t equals = part.find('=');
    if (equals == std::string::npos)
      throw InvalidInput("case id", "NAME=VALUE", "'" + part + "'");
    const std::string name = part.substr(0, equals);
    if (!names.insert(name).second)
      throw InvalidInput("case id", "each name once", "'" + name + "' twice");
    const std::string text = part.substr(equals + 1);
    if (name == "n")
      request.n = ParseInteger("size n", text);
    else if (name == "scalar")
      request.scalar = ParseScalar(text);
    else if (name == "seed")
      request.seed = static_cast<uint64_t>(
          ParseInteger("seed", text, 0, "an integer of at least 0"));
    else if (name == "input")
      request.input = text;
    else
      request.values.emplace_back(name, text);
  }
  return request;
}

std::string LeadingText(const std::map<std::string, Shape>& axes) {
  std::string text;
  for (const auto& [name, shape] : axes) {
    text += (text.empty() ? "" : "+") + name + ":";
    for (size_t axis = 0; axis < shape.size(); ++axis)
      text += (axis > 0 ? "x" : "") + std::to_string(shape[axis]);
  }
  return text;
}

std::string SharedText(
    const std::map<std::string, LeadingAxes::Shared>& shared) {
  std::string text;
  for (const auto& [name, axes] : shared)
    for (const auto& [is_shared, axis] :
         {std::pair{axes.queries, ":queries"}, std::pair{axes.keys, ":keys"}})
      if (is_shared) text += (text.empty() ? "" : "+") + name + axis;
  return text;
}

Problem ProblemOf(const Case& test_case) {
  Params params = test_case.params;
  test_case.op->CompleteParams(test_case.Tokens(), test_case.seed, params);
  return MakeProblem(*test_case.op, std::move(params), test_case.backward,
                     test_case.scalar, test_case.sizes, test_case.leading,
                     test_case.with);
}

}  // namespace subquad
