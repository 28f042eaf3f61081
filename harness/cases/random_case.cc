#include "harness/cases/random_case.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "harness/base/text.h"
#include "harness/cases/draws.h"
#include "harness/registry/registry.h"
#include "reference/base/gradients.h"
#include "reference/base/work.h"

namespace subquad {
namespace {

constexpr int64_t kLargestSize = 700;
constexpr int64_t kLargestWidth = 80;
constexpr int64_t kLargestHeads = 4;
// Largest number of multiply-adds of the reference for a case.
constexpr double kMostWork = 3e7;

using Values = std::vector<std::pair<std::string, std::string>>;

// Random choices, each of which uses the next draw.
class Dice {
 public:
  Dice(uint64_t seed, uint64_t index)
      : draws_(seed, "random/" + std::to_string(index)) {}

  double Uniform() { return draws_.Uniform(next_++); }
  bool Chance(double probability) { return Uniform() < probability; }
  int64_t Between(int64_t least, int64_t most) {
    const double width = static_cast<double>(most - least + 1);
    return std::min(
        most, least + static_cast<int64_t>(std::floor(Uniform() * width)));
  }
  // Draws a size. Small ones are as likely as large ones; every third is a
  // power of two or its neighbour, where blocks begin and end.
  int64_t Size(int64_t most) {
    const double top = std::log2(static_cast<double>(most) + 1);
    if (Chance(1.0 / 3)) {
      const int64_t power = int64_t{1}
                            << static_cast<int>(std::floor(Uniform() * top));
      return std::clamp<int64_t>(power + Between(-1, 1), 1, most);
    }
    return std::clamp<int64_t>(static_cast<int64_t>(std::exp2(Uniform() * top)),
                               1, most);
  }
  template <typename T>
  const T& OneOf(const std::vector<T>& list) {
    return list[static_cast<size_t>(
        Between(0, static_cast<int64_t>(list.size()) - 1))];
  }

 private:
  const Draws draws_;
  uint64_t next_ = 0;
};

// Draws flags and choices, then the parameters that these bring with them.
void DrawParams(const Operator& op, int64_t n, Dice& dice, Values& values) {
  Params chosen;
  std::set<std::string> done;
  for (bool more = true; more;) {
    more = false;
    for (const ParamRule& rule : op.ParamRules(chosen)) {
      if (!rule.of_input.empty() || !done.insert(rule.name).second) continue;
      std::string text;
      if (rule.type == ParamType::kFlag)
        text = dice.Chance(rule.IsOnByDefault() ? 0.8 : 0.5) ? "1" : "0";
      else if (rule.type == ParamType::kText)
        text = dice.OneOf(rule.choices);
      else if (rule.type == ParamType::kNumber &&
               dice.Chance(rule.name == "softcap" ? 0.2 : 0.5))
        text = ToString(ParamValue(std::exp2(8 * dice.Uniform() - 6)));
      else if (rule.type == ParamType::kInteger && !rule.follows_n &&
               dice.Chance(rule.name == "query_offset" ? 0.25
                           : rule.required             ? 0.7
                                                       : 0.15))
        text = std::to_string(
            std::min(rule.max, std::max<int64_t>(rule.min, 0) - 1 +
                                   dice.Size(std::max<int64_t>(n, 1) + 3)));
      // The blocks of a mask may have other numbers of queries than of keys.
      if (rule.name == "block" && rule.may_be_list && !text.empty() &&
          dice.Chance(0.4))
        text += "+" + std::to_string(dice.Size(std::max<int64_t>(n, 1) + 3));
      // A position may be before the first key.
      if (rule.name == "query_offset" && rule.min < 0 && text != "0" &&
          !text.empty() && dice.Chance(0.3))
        text = "-" + text;
      if (text.empty()) continue;
      values.emplace_back(rule.name, text);
      chosen.Set(rule.name, ParseParam(rule, text));
      more = true;
      break;  // a choice may bring other parameters with it
    }
  }
}

// Draws leading axes for tensors that several heads or batch items share.
std::string SharedTensors(const Signature& signature, int64_t heads,
                          int64_t batch, Dice& dice) {
  std::string text;
  for (const TensorRule& rule : signature.inputs) {
    // The incoming gradient has all axes of the output.
    if (rule.role != Role::kData || rule.optional || IsCotangent(rule.name) ||
        !dice.Chance(0.3))
      continue;
    const std::string own = std::to_string(dice.Chance(0.5) ? 1 : heads);
    text += (text.empty() ? "" : "+") + rule.name + ":" +
            (batch > 0 && dice.Chance(0.5) ? std::to_string(batch) + "x" : "") +
            own;
  }
  return text;
}

// Draws the sizes and parameters that an optional input brings with it.
void DrawOfInput(const Case& probe, const Signature& signature,
                 const std::string& input, Dice& dice, Values& values) {
  for (const SizeRule& rule : signature.sizes)
    if (rule.of_input == input)
      values.emplace_back(rule.name, std::to_string(std::max(
                                         rule.min, dice.Size(kLargestWidth))));
  for (const ParamRule& rule : probe.op->ParamRules(probe.params)) {
    if (rule.of_input != input || dice.Chance(0.5)) continue;
    const bool is_flag = rule.type == ParamType::kFlag;
    values.emplace_back(
        rule.name,
        std::to_string(is_flag ? dice.Between(0, 1)
                               : std::max(rule.min, dice.Size(kLargestSize))));
  }
}

void DrawSizes(const CaseRequest& request, Dice& dice, Values& values) {
  const Case probe = MakeCase(request);
  const bool backward = HasBackward(*probe.op) && dice.Chance(0.25);
  if (backward) values.emplace_back("backward", "1");
  const Signature signature = probe.op->SignatureFor(probe.params, backward);
  for (const SizeRule& rule : signature.sizes) {
    // Half of the cases are square.
    if (!rule.of_input.empty() || (rule.follows_n && dice.Chance(0.5)))
      continue;
    const int64_t most = rule.follows_n ? kLargestSize : kLargestWidth;
    values.emplace_back(rule.name,
                        std::to_string(std::max(rule.min, dice.Size(most))));
  }
  if (dice.Chance(0.4)) {
    const int64_t heads = dice.Between(1, kLargestHeads);
    values.emplace_back("heads", std::to_string(heads));
    const int64_t batch = dice.Chance(0.4) ? dice.Between(1, kLargestHeads) : 0;
    if (batch > 0) values.emplace_back("batch", std::to_string(batch));
    if (dice.Chance(0.5)) values.emplace_back("per_head", "1");
    const std::string shared = SharedTensors(signature, heads, batch, dice);
    if (!shared.empty()) values.emplace_back("leading", shared);
  }
  std::string with, shared;
  bool projections = false;
  for (const TensorRule& rule : signature.inputs) {
    projections = projections || rule.draw.projection;
    if (!rule.optional || !dice.Chance(0.5)) continue;
    with += (with.empty() ? "" : "+") + rule.name;
    if (rule.per_pair)
      for (const char* axis : {":queries", ":keys"})
        if (dice.Chance(0.25))
          shared += (shared.empty() ? "" : "+") + rule.name + axis;
    DrawOfInput(probe, signature, rule.name, dice, values);
  }
  for (const TensorRule& rule : signature.outputs)
    if (rule.optional && dice.Chance(0.3))
      with += (with.empty() ? "" : "+") + rule.name;
  if (!with.empty()) values.emplace_back("with", with);
  if (!shared.empty()) values.emplace_back("shared", shared);
  if (projections && dice.Chance(0.3))
    values.emplace_back("omega", "orthogonal");
}

// Draws the lengths of packed sequences, and their positions if they have some,
// of which none is below `least_offset`.
void DrawPacking(const Problem& problem, int64_t least_offset, Dice& dice,
                 Values& values) {
  const int64_t count = dice.Between(2, 5);
  const auto split = [&](int64_t all) {
    std::vector<int64_t> cuts = {0, all};
    while (std::ssize(cuts) <= count) cuts.push_back(dice.Between(0, all));
    std::ranges::sort(cuts);
    IntegerList lengths;
    for (size_t s = 1; s < cuts.size(); ++s)
      lengths.push_back(cuts[s] - cuts[s - 1]);
    return lengths;
  };
  const IntegerList queries = split(problem.queries);
  const IntegerList keys = problem.queries == problem.keys && dice.Chance(0.5)
                               ? queries
                               : split(problem.keys);
  const auto text = [](const IntegerList& list) {
    std::string joined;
    for (const int64_t entry : list)
      joined += (joined.empty() ? "" : "+") + std::to_string(entry);
    return joined;
  };
  values.emplace_back("packed_q", text(queries));
  values.emplace_back("packed_k", text(keys));
  if (!dice.Chance(0.4)) return;
  IntegerList offsets;
  for (size_t s = 0; s < keys.size(); ++s)
    offsets.push_back(std::max(least_offset, dice.Chance(0.6)
                                                 ? keys[s] - queries[s]
                                                 : dice.Between(-3, 20)));
  std::erase_if(
      values, [](const auto& value) { return value.first == "query_offset"; });
  values.emplace_back("query_offset", text(offsets));
}

// Draws packed sequences or key lengths (padding) if the operator has them.
void DrawKeyLengths(const CaseRequest& request, Dice& dice, Values& values) {
  const Case probe = MakeCase(request);
  const auto rules = probe.op->ParamRules(probe.params);
  if (std::ranges::count(rules, "packed_q", &ParamRule::name) > 0 &&
      !probe.params.Has("height") && dice.Chance(0.25))
    return DrawPacking(
        ProblemOf(probe),
        std::ranges::find(rules, "query_offset", &ParamRule::name)->min, dice,
        values);
  if (std::ranges::count(rules, "key_lengths", &ParamRule::name) == 0 ||
      !dice.Chance(0.25))
    return;
  const Problem problem = ProblemOf(probe);
  std::string lengths;
  for (int64_t item = 0; item < problem.Batch(); ++item)
    lengths += (item > 0 ? "+" : "") +
               std::to_string(dice.Chance(0.1) ? 0 : dice.Size(problem.keys));
  values.emplace_back("key_lengths", lengths);
}

double WorkOf(const Case& test_case) {
  const Problem problem = ProblemOf(test_case);
  double work = 0;
  for (size_t o = 0; o < problem.outputs.size(); ++o) {
    const auto output = static_cast<int>(o);
    const OutputLayout layout = LayoutOf(problem, output);
    work += static_cast<double>(layout.heads * layout.rows) *
            WorkOfRow(problem, output);
  }
  return work;
}

}  // namespace

const std::vector<std::string>& RandomInputs() {
  static const std::vector<std::string> inputs = {
      "normal",   "dropping", "growing", "decaying",
      "opposite", "repeated", "masked",  "unit"};
  return inputs;
}

std::optional<Case> RandomCases::Draw(uint64_t index) const {
  Dice dice(seed, index);
  CaseRequest request;
  request.op = dice.OneOf(operators);
  request.scalar = dice.OneOf(scalars);
  request.seed = seed;
  const bool plain = dice.Chance(0.5);
  const std::string& kind = dice.OneOf(RandomInputs());
  request.input = input ? *input : plain ? "normal" : kind;
  request.n = dice.Size(kLargestSize);
  try {
    DrawParams(*request.op, *request.n, dice, request.values);
    // Images have two axes of their own.
    const Params none;
    for (const ParamRule& rule : request.op->ParamRules(none))
      if (rule.follows_n && dice.Chance(0.8))
        request.values.emplace_back(rule.name, std::to_string(dice.Size(26)));
    DrawSizes(request, dice, request.values);
    DrawKeyLengths(request, dice, request.values);
    Case test_case = MakeCase(request);
    if (WorkOf(test_case) > kMostWork) return std::nullopt;
    // The round trip through the id ensures that the id repeats the case.
    return MakeCase(ParseCaseId(test_case.Id()));
  } catch (const InvalidInput&) {
    return std::nullopt;
  }
}

std::vector<Case> SimplerCases(const Case& test_case) {
  const CaseRequest request = ParseCaseId(test_case.Id());
  std::vector<Case> simpler;
  std::set<std::string> ids = {test_case.Id()};
  const auto add = [&](const CaseRequest& changed) {
    try {
      Case made = MakeCase(changed);
      if (ids.insert(made.Id()).second) simpler.push_back(std::move(made));
    } catch (const InvalidInput&) {
      // The drawn values are incompatible.
    }
  };
  if (request.n)
    for (const int64_t n : {int64_t{1}, *request.n / 2, *request.n - 1})
      if (n >= 1 && n < *request.n) {
        CaseRequest changed = request;
        changed.n = n;
        add(changed);
      }
  for (size_t i = 0; i < request.values.size(); ++i) {
    const auto& [name, text] = request.values[i];
    // Without this value the default applies.
    if (!test_case.sizes.contains(name)) {
      CaseRequest changed = request;
      changed.values.erase(changed.values.begin() +
                           static_cast<std::ptrdiff_t>(i));
      add(changed);
    }
    const auto number = ParseNumber<int64_t>(text);
    if (!number) continue;
    for (const int64_t less :
         {int64_t{0}, int64_t{1}, *number / 2, *number - 1})
      if (less >= 0 && less < *number) {
        CaseRequest changed = request;
        changed.values[i].second = std::to_string(less);
        add(changed);
      }
  }
  // Shrinks both lengths at once if they have separate names.
  for (const int64_t part : {2, 1}) {
    CaseRequest changed = request;
    bool any = false;
    for (auto& [name, text] : changed.values) {
      const auto number = ParseNumber<int64_t>(text);
      if (!test_case.sizes.contains(name) || !number || *number < 2) continue;
      text = std::to_string(part == 2 ? *number / 2 : *number - 1);
      any = true;
    }
    if (any) add(changed);
  }
  if (request.input != "normal") {
    CaseRequest changed = request;
    changed.input = "normal";
    add(changed);
  }
  return simpler;
}

}  // namespace subquad
