// sparse_attention: out_i = softmax over the keys j that the pattern shows to
// query i of (scale q_i.k_j), times v   (Transformers II, "Making the
// attention matrix sparse")
//
//   q, k [n, d], v [n, e], out [n, e]
//   pattern  key j is seen by query i when
//     local       floor(i/block) == floor(j/block)
//     sliding     j-i is a multiple of dilation and |j-i| <= window dilation
//     strided     |j-i| <= window, or (i-j) mod stride == 0
//     longformer  the sliding rule, or i or j is among `globals`
//     bigbird     in blocks of `block` positions, I of the query and J of the
//                 key: |J-I| <= window_blocks, or I or J < global_blocks, or J
//                 is in random[I]
//   causal   and j <= i
//   scale    default 1/sqrt(d)
//
// Every pattern shows a query itself, so that no row is empty.
//
// What the inputs show: with normal draws each key seen or missed by mistake
// moves a row by about 1/(keys seen). Sizes that are not multiples of blocks,
// strides and dilations show ends that are handled wrongly.
//
// Bound: see softmax_rows.h, with the keys that are seen for n.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "reference/base/operator.h"
#include "reference/softmax/softmax_rows.h"
#include "reference/softmax/sparse_pattern.h"

namespace subquad {

template <typename Real>
class SparseAttentionReference : public Reference<Real> {
 public:
  SparseAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        k_(inputs["k"]),
        v_(inputs["v"]),
        n_(problem.Dim("n")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        scale_(SoftmaxScale<Real>(problem)),
        pattern_(problem.params, n_) {}

  void Row(const RowId& id, Real* value, double* units) override {
    const double* q = q_.Head(id.head) + id.row * d_;
    const double* k = k_.Head(id.head);
    const double* v = v_.Head(id.head);
    SoftmaxRow<Real> row(problem_, id.head, id.row);
    for (int64_t j = 0; j < n_; ++j)
      if (pattern_.Sees(id.row, j))
        row.See(j, ScaledDot<Real>(q, k + j * d_, d_, scale_));
    row.Write(
        e_, [&](int64_t j) { return v + j * e_; }, value, units);
  }

 private:
  const Problem& problem_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const int64_t n_, d_, e_;
  const Real scale_;
  const SparsePattern pattern_;
};

class SparseAttention final : public OperatorWith<SparseAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "sparse_attention",
        "out_i = softmax over the keys seen by i of (scale q_i.k_j), times v",
        "Transformers II, \"Making the attention matrix sparse\""};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& given) const override {
    std::vector<ParamRule> rules = {
        ParamRule::Flag("causal", "query i sees keys j <= i only"),
        ParamRule::Scale("1/sqrt(d)"),
        ParamRule::Choice("pattern", "which keys a query sees", Patterns())};
    std::string pattern;
    if (given.Has("pattern"))
      if (const auto* text =
              std::get_if<std::string>(&given.values().at("pattern")))
        pattern = *text;
    const bool known = std::ranges::count(Patterns(), pattern) > 0;
    // Until the pattern is known, all are listed and none is required.
    const auto add = [&](std::vector<std::string> of, ParamRule rule) {
      rule.required = known;
      if (!known || std::ranges::count(of, pattern) > 0) rules.push_back(rule);
    };
    const auto integer = [](const char* name, const char* meaning,
                            int64_t min) {
      return ParamRule::Integer(name, meaning, min);
    };
    add({"local", "bigbird"}, integer("block", "positions in a block", 1));
    add({"sliding", "strided", "longformer"},
        integer("window", "steps seen to each side", 0));
    add({"sliding", "longformer"},
        integer("dilation", "positions in a step of the window", 1));
    add({"strided"}, integer("stride", "distance of the far keys", 1));
    add({"bigbird"}, integer("window_blocks", "blocks seen to each side", 0));
    add({"bigbird"},
        integer("global_blocks", "first blocks that see and are seen", 0));
    ParamRule globals{"globals", ParamType::kList,
                      "positions that see and are seen by all"};
    globals.min = 0;
    add({"longformer"}, globals);
    ParamRule random{"random", ParamType::kTable,
                     "for each query block, more key blocks that it sees"};
    random.min = 0;
    add({"bigbird"}, random);
    return rules;
  }

  Signature SignatureFor(const Params&, bool) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "positions"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {
        {"q", {"n", "d"}}, {"k", {"n", "d"}}, {"v", {"n", "e"}}};
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    const int64_t n = problem.Dim("n");
    const Params& params = problem.params;
    const auto check = [](const std::string& subject, int64_t value,
                          int64_t end, const std::string& what) {
      if (value < 0 || value >= end)
        throw InvalidInput(subject,
                           what + " from 0 to " + std::to_string(end - 1),
                           std::to_string(value));
    };
    if (params.Has("globals"))
      for (int64_t position : params.List("globals"))
        check("parameter globals", position, n, "positions");
    if (!params.Has("random")) return;
    const int64_t blocks = Blocks(n, params.Integer("block"));
    const IntegerTable& random = params.Table("random");
    if (static_cast<int64_t>(random.size()) != blocks)
      throw InvalidInput(
          "parameter random",
          "one list for each of " + std::to_string(blocks) + " query blocks",
          std::to_string(random.size()) + " lists");
    for (size_t block = 0; block < random.size(); ++block)
      for (int64_t key_block : random[block])
        check("parameter random, list " + std::to_string(block), key_block,
              blocks, "key blocks");
  }

  // Windows of 64 and what goes with them, less where n is small: a pattern
  // that shows everything would test nothing.
  void CompleteParams(int64_t n, uint64_t seed, Params& params) const override {
    const auto set = [&](const char* name, ParamValue value) {
      if (!params.Has(name)) params.Set(name, std::move(value));
    };
    set("pattern", std::string("sliding"));
    const std::string pattern = params.Text("pattern");
    const auto share = [n](int64_t parts) {
      return std::clamp<int64_t>(n / parts, 1, 64);
    };
    if (pattern == "local" || pattern == "bigbird") set("block", share(8));
    if (pattern == "sliding" || pattern == "strided" || pattern == "longformer")
      set("window", share(8));
    if (pattern == "sliding" || pattern == "longformer")
      set("dilation", int64_t{1});
    if (pattern == "strided") set("stride", share(4));
    if (pattern == "longformer") set("globals", IntegerList{0});
    if (pattern != "bigbird") return;
    set("window_blocks", int64_t{1});
    set("global_blocks", int64_t{1});
    const int64_t blocks =
        Blocks(n, std::max<int64_t>(1, params.Integer("block")));
    IntegerTable random;
    uint64_t state = seed;
    for (int64_t block = 0; block < blocks; ++block)
      random.push_back({Draw(state, blocks), Draw(state, blocks)});
    set("random", random);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n")) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }

 private:
  static const std::vector<std::string>& Patterns() {
    static const std::vector<std::string> names = {
        "local", "sliding", "strided", "longformer", "bigbird"};
    return names;
  }
  static int64_t Blocks(int64_t n, int64_t block) {
    return (n + block - 1) / block;
  }
  // SplitMix64 (Steele, Lea and Flood 2014).
  static int64_t Draw(uint64_t& state, int64_t end) {
    uint64_t z = state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return static_cast<int64_t>((z ^ z >> 31) % static_cast<uint64_t>(end));
  }
};

}  // namespace subquad
