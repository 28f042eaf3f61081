#include "harness/cases/verification.h"

#include <algorithm>

namespace subquad {
namespace {

using Values = std::vector<std::pair<std::string, std::string>>;

// Every combination of the flags and choices that the operator takes; a choice
// may bring others with it.
void AddVariants(const Operator& op, const Params& chosen, Values values,
                 std::vector<Values>& variants) {
  Params known = chosen;
  op.CompleteParams(64, 1, known);
  for (const ParamRule& rule : op.ParamRules(chosen)) {
    if (chosen.Has(rule.name)) continue;
    std::vector<std::string> texts = rule.choices;
    if (rule.type == ParamType::kFlag) texts = {"0", "1"};
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

// Images that lengths alone do not lead to: higher than wide and wider than
// high, neither a multiple of a block, one axis too long for a short-cut.
struct Image {
  const char *height, *width;
  int64_t pixels;
};
constexpr Image kImages[] = {
    {"13", "11", 143}, {"11", "13", 143}, {"67", "3", 201}, {"3", "67", 201}};

// Height and width, by the names that the operator gives them.
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

// Leading axes that tensors share in several ways: a batch, of which all data
// but the first tensor is shared, and groups of heads.
std::vector<Values> SharedAxes(const Signature& signature) {
  std::vector<std::string> data;
  for (const TensorRule& rule : signature.inputs)
    if (rule.role == Role::kData && !rule.optional) data.push_back(rule.name);
  // One tensor alone is shared by parameters for each head.
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

// Queries that stand behind the first key, and padding: one token against a
// cache, a chunk of a prompt inside one, more keys than queries see, an offset
// beyond the last key, and batch items of one key and of all.
std::vector<Values> Positions(const std::string& queries,
                              const std::string& keys, int64_t middle) {
  const auto text = [](int64_t number) { return std::to_string(number); };
  const std::string half = text(middle / 2), last = text(middle - 1);
  return {{{queries, "1"}, {"query_offset", last}},
          {{queries, half}, {"query_offset", text(middle - middle / 2)}},
          {{"query_offset", "5"}},
          {{keys, text(middle / 4)}, {"query_offset", half}},
          {{"batch", "3"},
           {"heads", "2"},
           {"per_head", "1"},
           {"key_lengths", "1+" + half + "+" + text(middle)}},
          {{queries, half},
           {"batch", "2"},
           {"key_lengths", last + "+" + text(middle / 3)},
           {"query_offset", "3"}}};
}

}  // namespace

std::vector<Case> VerificationCases(const Operator& op,
                                    const std::vector<int64_t>& sizes,
                                    Scalar scalar, uint64_t seed) {
  std::vector<Values> variants;
  AddVariants(op, {}, {}, variants);
  std::vector<Case> cases;
  for (Values& variant : variants) {
    CaseRequest request;
    request.op = &op;
    request.scalar = scalar;
    request.seed = seed;
    const auto add = [&](int64_t n, Values more) {
      request.n = n;
      request.values = variant;
      request.values.insert(request.values.end(), more.begin(), more.end());
      cases.push_back(MakeCase(request));
    };
    request.n = 16;
    request.values = variant;
    const Case probe = MakeCase(request);
    const Signature signature = op.SignatureFor(probe.params, false);
    Values
        narrow;  // an awkward width keeps small cases cheap and blocks ragged
    if (HasSize(signature, "e")) narrow.emplace_back("e", "19");
    for (int64_t n : sizes) add(n, narrow);
    const int64_t middle = sizes[sizes.size() / 2];
    const auto with = [&](Values more) {
      more.insert(more.end(), narrow.begin(), narrow.end());
      return more;
    };
    add(middle, with({{"heads", "3"}}));
    add(middle, with({{"heads", "2"}, {"per_head", "1"}}));
    for (const Values& axes : SharedAxes(signature)) add(middle, with(axes));
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
        // One key is fewer than this operator takes (a stride of several).
      }
    }
    std::vector<Values> positions;
    if (HasParam(op, probe.params, "query_offset"))
      positions = Positions(queries, keys, middle);
    else if (HasParam(op, probe.params, "key_lengths"))
      positions = {{{"batch", "2"},
                    {"heads", "2"},
                    {"per_head", "1"},
                    {"key_lengths", "1+" + std::to_string(middle - 1)}}};
    for (const Values& position : positions) {
      add(middle, with(position));
      for (const TensorRule& rule : signature.inputs)
        if (rule.optional) {
          Values more = with(position);
          more.emplace_back("with", rule.name);
          add(middle, more);
        }
    }
    for (const TensorRule& rule : signature.inputs)
      if (rule.optional)
        for (int64_t n : {int64_t{1}, middle})
          add(n, with({{"with", rule.name}}));
    for (const TensorRule& rule : signature.inputs)
      if (rule.optional)
        add(middle, with({{"batch", "2"},
                          {"heads", "2"},
                          {"per_head", "1"},
                          {"with", rule.name}}));
    if (const auto axes = ImageAxes(op, probe.params); axes.size() == 2) {
      for (const Image& image : kImages) {
        const Values shape = {{axes[0], image.height}, {axes[1], image.width}};
        add(image.pixels, with(shape));
        for (const TensorRule& rule : signature.inputs)
          if (rule.optional) {
            Values more = with(shape);
            more.emplace_back("with", rule.name);
            add(image.pixels, more);
          }
      }
      const Image& image = kImages[0];
      add(image.pixels, with({{axes[0], image.height},
                              {axes[1], image.width},
                              {"heads", "2"},
                              {"per_head", "1"}}));
    }
    if (op.HasBackward()) {
      const std::string more = std::to_string(middle + 5);
      for (int64_t n : sizes) add(n, with({{"backward", "1"}}));
      add(middle, with({{"backward", "1"}, {"heads", "2"}}));
      add(middle, with({{"backward", "1"}, {"heads", "3"}, {"per_head", "1"}}));
      for (Values axes : SharedAxes(signature)) {
        axes.emplace_back("backward", "1");
        add(middle, with(axes));
      }
      for (Values position : positions) {
        position.emplace_back("backward", "1");
        add(middle, with(position));
      }
      for (const std::string& name : {keys, queries})
        if (HasSize(signature, name))
          add(middle, with({{"backward", "1"}, {name, more}}));
    }
  }
  return cases;
}

}  // namespace subquad
