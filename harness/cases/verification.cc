#include "harness/cases/verification.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "harness/registry/registry.h"

namespace subquad {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

// With more variants than this, each variant gets only one of the forms.
constexpr size_t kManyVariants = 12;

// Adds every combination of the operator's flags and choices. A choice may
// bring others with it.
void AddVariants(const Operator& op, const Params& chosen, Values values,
                 std::vector<Values>& variants) {
  Params known = chosen;
  op.CompleteParams(64, 1, known);
  for (const ParamRule& rule : op.ParamRules(chosen)) {
    if (chosen.Has(rule.name)) continue;
    std::vector<std::string> texts = rule.choices;
    // Sums without a normaliser have separate cases.
    if (rule.type == ParamType::kFlag && rule.name != "normalized" &&
        rule.of_input.empty())
      texts = {"0", "1"};
    if (texts.empty()) continue;
    for (const std::string& text : texts) {
      Params next = chosen;
      next.Set(rule.name, ParseParam(rule, text));
      Values more = values;
      more.emplace_back(rule.name, text);
      AddVariants(op, next, std::move(more), variants);
    }
    return;
  }
  variants.push_back(std::move(values));
}

// Images that are not square: higher than wide and wider than high, neither a
// multiple of a block, one axis too long for a short-cut.
struct Image {
  const char *height, *width;
  int64_t pixels;
};
constexpr Image kImages[] = {
    {"13", "11", 143}, {"11", "13", 143}, {"67", "3", 201}, {"3", "67", 201}};

// Returns the operator's names for height and width.
std::vector<std::string> ImageAxes(const Operator& op, const Params& params) {
  std::vector<std::string> axes;
  for (const ParamRule& rule : op.ParamRules(params))
    if (rule.follows_n) axes.push_back(rule.name);
  return axes;
}

bool HasParam(const Operator& op, const Params& params,
              const std::string& name) {
  return std::ranges::count(op.ParamRules(params), name, &ParamRule::name) > 0;
}

bool HasSize(const Signature& signature, const std::string& name) {
  return std::ranges::count(signature.sizes, name, &SizeRule::name) > 0;
}

}  // namespace

const std::vector<int64_t>& AwkwardSizes() {
  static const std::vector<int64_t> sizes = {1,  2,  3,  5,   16,  31,
                                             33, 64, 97, 128, 211, 257};
  return sizes;
}

namespace {

bool Gives(const Values& values, const std::string& name) {
  return std::ranges::count(values, name,
                            [](const auto& item) { return item.first; }) > 0;
}

// Returns several ways to share leading axes: a batch that shares all data but
// the first tensor, and groups of heads.
std::vector<Values> SharedAxes(const Signature& signature) {
  std::vector<std::string> data;
  for (const TensorRule& rule : signature.inputs)
    if (rule.role == Role::kData && !rule.optional) data.push_back(rule.name);
  // If there is only one tensor of data, the parameters of each head share it.
  if (data.size() > 1) data.erase(data.begin());
  const auto all = [&](const std::string& axes) {
    std::string text;
    for (const std::string& name : data)
      text += (text.empty() ? "" : "+") + name + ":" + axes;
    return text;
  };
  return {{{"batch", "3"}, {"heads", "2"}, {"per_head", "1"}},
          {{"batch", "2"},
           {"heads", "2"},
           {"per_head", "1"},
           {"leading", all("1x2")}},
          {{"heads", "4"}, {"per_head", "1"}, {"leading", all("2")}},
          {{"batch", "2"},
           {"heads", "4"},
           {"per_head", "1"},
           {"leading", all("2x2")}}};
}

// Returns several ways to share a tensor with an entry for each query and key:
// its axes, and those of batch and heads.
std::vector<Values> SharedPairs(const std::string& name) {
  const std::string queries = name + ":queries", keys = name + ":keys";
  return {{{"with", name}, {"shared", queries}},
          {{"with", name}, {"shared", keys}},
          {{"with", name}, {"shared", queries + "+" + keys}, {"heads", "2"}},
          {{"with", name},
           {"shared", queries},
           {"batch", "2"},
           {"heads", "3"},
           {"leading", name + ":2x1"}},
          {{"with", name},
           {"batch", "2"},
           {"heads", "4"},
           {"leading", name + ":1x2"}}};
}

// Returns cases with query offsets and padding: one token against a cache, a
// chunk of a prompt inside one, more keys than queries see, an offset beyond
// the last key, and batch items of no key, of one and of all keys. If
// `may_begin_early`, queries may be before the first key.
std::vector<Values> Positions(const std::string& queries,
                              const std::string& keys, int64_t middle,
                              bool may_begin_early) {
  const auto text = [](int64_t number) {
    return std::to_string(std::max<int64_t>(1, number));
  };
  const std::string half = text(middle / 2), last = text(middle - 1);
  std::vector<Values> positions = {
      {{queries, "1"}, {"query_offset", last}},
      {{queries, half}, {"query_offset", text(middle - middle / 2)}},
      {{"query_offset", "5"}},
      {{keys, text(middle / 4)}, {"query_offset", half}},
      {{"batch", "4"},
       {"heads", "2"},
       {"per_head", "1"},
       {"key_lengths", "0+1+" + half + "+" + text(middle)}},
      {{queries, half},
       {"batch", "2"},
       {"key_lengths", last + "+" + text(middle / 3)},
       {"query_offset", "3"}}};
  // Aligned at the last query and key: the first queries see nothing.
  if (may_begin_early)
    positions.push_back(
        {{keys, half},
         {"query_offset",
          std::to_string(std::min<int64_t>(
              -1, std::max<int64_t>(1, middle / 2) - middle))}});
  return positions;
}

// Returns the other forms of a problem: queries and keys at other positions,
// sums with eps and without a normaliser.
std::vector<Values> FormsOf(const Operator& op, const Params& params,
                            const Signature& signature, int64_t middle) {
  std::vector<Values> forms;
  const std::vector<ParamRule> rules = op.ParamRules(params);
  const auto offset =
      std::ranges::find(rules, "query_offset", &ParamRule::name);
  if (offset != rules.end())
    forms =
        Positions(signature.queries, signature.keys, middle, offset->min < 0);
  else if (HasParam(op, params, "key_lengths"))
    forms = {{{"batch", "3"},
              {"heads", "2"},
              {"per_head", "1"},
              {"key_lengths",
               "0+1+" + std::to_string(std::max<int64_t>(1, middle - 1))}}};
  if (!HasParam(op, params, "key_lengths"))
    std::erase_if(
        forms, [](const Values& form) { return Gives(form, "key_lengths"); });
  // Blocks of a mask: of more queries than keys, of fewer, of single ones.
  if (std::ranges::count(signature.inputs, "block_mask", &TensorRule::name) > 0)
    for (const char* block : {"16+5", "3+20", "1"})
      forms.push_back({{"block", block}});
  if (HasParam(op, params, "window_left")) {
    const std::string narrow = std::to_string(std::min<int64_t>(7, middle / 3));
    forms.push_back({{"window_left", narrow}});
    forms.push_back({{"window_left", narrow}, {"window_right", "2"}});
    forms.push_back({{"window_left", "1"}, {"query_offset", "3"}});
  }
  if (HasParam(op, params, "packed_q") && middle >= 8) {
    const auto list = [&](int64_t first, int64_t second) {
      return fmt::format("{}+{}+0+{}", first, second, middle - first - second);
    };
    const std::string equal = list(middle / 2, 1);
    const std::string fewer = list(middle / 8, middle / 2);
    forms.push_back({{"packed_q", equal}, {"packed_k", equal}});
    // Two sequences without queries, and one without keys.
    forms.push_back({{"packed_q", fmt::format("{}+0+{}+0", middle / 4,
                                              middle - middle / 4)},
                     {"packed_k", fewer}});
    // Each chunk is at the end of its sequence, if it may begin before it.
    const int64_t second = std::max(offset->min, middle / 4 - middle / 2);
    forms.push_back(
        {{"packed_q", fmt::format("{}+{}", middle / 4, middle - middle / 4)},
         {"packed_k", fmt::format("{}+{}", middle / 2, middle - middle / 2)},
         {"query_offset",
          fmt::format("{}+{}", middle / 2 - middle / 4, second)},
         {"batch", "2"},
         {"heads", "2"}});
  }
  if (HasParam(op, params, "softcap")) forms.push_back({{"softcap", "0.75"}});
  if (HasParam(op, params, "eps")) {
    // Random features of long rows are so small that eps would dominate.
    const bool projects =
        params.Has("feature_map") &&
        std::ranges::count(signature.inputs, "omega", &TensorRule::name) > 0;
    if (!projects || params.Flag("normalize"))
      forms.push_back({{"eps", "0.5"}});
    forms.push_back({{"normalized", "0"}});
  }
  return forms;
}

// Returns all forms, or one of them if there is a turn: a different one in each
// turn. After a full round the order is shifted, so that alternating flags do
// not always meet the same form.
std::vector<Values> InTurn(std::vector<Values> all,
                           std::optional<size_t> turn) {
  if (!turn || all.empty()) return all;
  return {all[(*turn + *turn / all.size()) % all.size()]};
}

// Returns the inputs and outputs that a case names to have them.
std::vector<std::string> OptionalTensors(const Signature& signature) {
  std::vector<std::string> names;
  for (const auto& rules : {signature.inputs, signature.outputs})
    for (const TensorRule& rule : rules)
      if (rule.optional) names.push_back(rule.name);
  return names;
}

// Adds the cases of one variant, with a turn only one of the forms. A case that
// contradicts the variant's own values is left out, and so is one that these
// values make impossible (positions beyond its keys). Throws InvalidInput if
// all of them are impossible.
void AddCases(const Operator& op, const Values& variant,
              const std::vector<int64_t>& sizes, Scalar scalar, uint64_t seed,
              std::optional<size_t> turn, std::vector<Case>& cases) {
  CaseRequest request;
  request.op = &op;
  request.scalar = scalar;
  request.seed = seed;
  const auto add = [&](int64_t n, Values more) {
    std::erase_if(more, [&](const auto& item) {
      return std::ranges::count(variant, item) > 0;
    });
    if (std::ranges::any_of(
            more, [&](const auto& item) { return Gives(variant, item.first); }))
      return;
    request.n = n;
    request.values = variant;
    request.values.insert(request.values.end(), more.begin(), more.end());
    try {
      cases.push_back(MakeCase(request));
    } catch (const InvalidInput&) {
      // The user's values and those of this case exclude each other.
      if (variant.empty()) throw;
    }
  };
  request.n = std::max<int64_t>(16, std::ranges::max(sizes));
  request.values = variant;
  const Case probe = MakeCase(request);
  const Signature signature = op.SignatureFor(probe.params, false);
  const std::vector<std::string> optional = OptionalTensors(signature);
  Values narrow;  // an awkward width keeps small cases cheap and blocks ragged
  if (HasSize(signature, "e") && !Gives(variant, "e"))
    narrow.emplace_back("e", "19");
  for (int64_t n : sizes) add(n, narrow);
  const int64_t middle = sizes[sizes.size() / 2];
  const auto with = [&](Values more) {
    more.insert(more.end(), narrow.begin(), narrow.end());
    return more;
  };
  add(middle, with({{"heads", "3"}}));
  add(middle, with({{"heads", "2"}, {"per_head", "1"}}));
  const std::vector<Values> shared = InTurn(SharedAxes(signature), turn);
  for (const Values& axes : shared) add(middle, with(axes));
  const std::string &queries = signature.queries, &keys = signature.keys;
  if (queries != keys && HasSize(signature, queries) &&
      HasSize(signature, keys)) {
    const std::string more = std::to_string(middle + middle / 3 + 1);
    add(middle, with({{queries, more}}));
    add(middle, with({{keys, more}}));
    add(middle, with({{queries, "1"}}));
    try {
      add(middle, with({{keys, "1"}}));
    } catch (const InvalidInput&) {
      // The operator needs more than one key (a stride of several).
    }
  }
  const std::vector<Values> forms =
      InTurn(FormsOf(op, probe.params, signature, middle), turn);
  for (const Values& values : forms) {
    add(middle, with(values));
    for (const std::string& name : optional) {
      Values more = with(values);
      more.emplace_back("with", name);
      add(middle, more);
    }
  }
  for (const std::string& name : optional) {
    for (int64_t n : {int64_t{1}, middle}) add(n, with({{"with", name}}));
    add(middle, with({{"batch", "2"},
                      {"heads", "2"},
                      {"per_head", "1"},
                      {"with", name}}));
  }
  for (const ParamRule& rule : op.ParamRules(probe.params)) {
    if (rule.of_input.empty()) continue;
    const bool is_flag = rule.type == ParamType::kFlag;
    for (const char* text : {is_flag ? "0" : "20", is_flag ? "1" : "50"}) {
      Values values = {{"with", rule.of_input}, {rule.name, text}};
      add(middle, with(values));
      values.emplace_back("backward", "1");
      add(middle, with(values));
    }
  }
  for (const TensorRule& rule : signature.inputs)
    if (rule.per_pair)
      for (Values values : SharedPairs(rule.name)) {
        add(middle, with(values));
        values.emplace_back("backward", "1");
        add(middle, with(values));
      }
  if (const auto axes = ImageAxes(op, probe.params); axes.size() == 2) {
    Params of_image = probe.params;
    for (const std::string& axis : axes) of_image.Set(axis, int64_t{13});
    const std::vector<std::string> of_images =
        OptionalTensors(op.SignatureFor(of_image, false));
    for (const Image& image : kImages) {
      const Values shape = {{axes[0], image.height}, {axes[1], image.width}};
      add(image.pixels, with(shape));
      for (const std::string& name : of_images) {
        Values more = with(shape);
        more.emplace_back("with", name);
        add(image.pixels, more);
      }
    }
    const Image& image = kImages[0];
    const Values headed = with({{axes[0], image.height},
                                {axes[1], image.width},
                                {"heads", "2"},
                                {"per_head", "1"}});
    add(image.pixels, headed);
    for (const std::string& name : of_images) {
      Values more = headed;
      more.emplace_back("with", name);
      add(image.pixels, more);
    }
  }
  const std::string more = std::to_string(middle + 5);
  for (int64_t n : sizes) add(n, with({{"backward", "1"}}));
  for (const TensorRule& rule : op.SignatureFor(probe.params, true).inputs)
    if (rule.optional) {
      const Values axes = {{"backward", "1"}, {"with", rule.name}};
      // Diagonals are summed in pieces, whose ends depend on the size.
      const bool by_offset = !rule.offset_axes.empty();
      for (int64_t n : by_offset ? sizes : std::vector<int64_t>{1, middle})
        add(n, with(axes));
      for (const auto& places : {shared, forms})
        for (Values place : places) {
          place.insert(place.end(), axes.begin(), axes.end());
          add(middle, with(place));
        }
    }
  add(middle, with({{"backward", "1"}, {"heads", "2"}}));
  add(middle, with({{"backward", "1"}, {"heads", "3"}, {"per_head", "1"}}));
  for (Values axes : shared) {
    axes.emplace_back("backward", "1");
    add(middle, with(axes));
  }
  for (Values values : forms) {
    values.emplace_back("backward", "1");
    add(middle, with(values));
  }
  for (const std::string& name : {keys, queries})
    if (queries != keys && HasSize(signature, name))
      add(middle, with({{"backward", "1"}, {name, more}}));
}

// Returns the cases of all variants, forward and backward.
std::vector<Case> AllCases(const Operator& op,
                           const std::vector<int64_t>& sizes, Scalar scalar,
                           uint64_t seed) {
  std::vector<Values> variants;
  AddVariants(op, {}, {}, variants);
  std::vector<Case> cases;
  const bool many = variants.size() > kManyVariants;
  for (size_t x = 0; x < variants.size(); ++x)
    AddCases(op, variants[x], sizes, scalar, seed,
             many ? std::optional<size_t>(x) : std::nullopt, cases);
  return cases;
}

}  // namespace

std::vector<Case> CasesWith(const Operator& op, const Values& values,
                            const std::vector<int64_t>& sizes, Scalar scalar,
                            uint64_t seed) {
  std::vector<Case> cases;
  AddCases(op, values, sizes, scalar, seed, {}, cases);
  return cases;
}

std::vector<Case> VerificationCases(const Operator& op,
                                    const std::vector<int64_t>& sizes,
                                    Scalar scalar, uint64_t seed) {
  std::vector<Case> cases = AllCases(op, sizes, scalar, seed);
  if (!HasBackward(op))
    std::erase_if(cases,
                  [](const Case& test_case) { return test_case.backward; });
  return cases;
}

std::vector<Case> GradientCases(const Operator& op,
                                const std::vector<int64_t>& sizes,
                                Scalar scalar, uint64_t seed) {
  std::vector<Case> cases = AllCases(op, sizes, scalar, seed);
  std::erase_if(cases,
                [](const Case& test_case) { return !test_case.backward; });
  return cases;
}

}  // namespace subquad
