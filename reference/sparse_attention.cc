#include "reference/sparse_attention.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "reference/base/operator_with.h"
#include "reference/base/split_mix.h"
#include "reference/softmax/softmax_rows.h"
#include "reference/softmax/sparse_pattern.h"

namespace subquad {
namespace {

template <typename Real>
class SparseAttentionReference : public Reference<Real> {
 public:
  SparseAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs, "q"),
        k_(inputs, "k"),
        v_(inputs, "v"),
        bias_(problem.HasInput("bias") ? &inputs["bias"] : nullptr),
        n_(problem.Dim("n")),
        globals_(problem.HasInput("q_global") ? problem.Dim("g") : 0),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        scale_(SoftmaxScale<Real>(problem)),
        pattern_(problem.params, n_) {}

  void Row(const RowId& id, Real* value, double* units) override {
    // Output 1 has the rows of the global tokens.
    const int64_t i = id.output == 0 ? id.row : n_ + id.row;
    const double* q = q_.Row(id.head, i, n_, d_);
    SoftmaxRow<Real> row(problem_);
    for (int64_t j = 0; j < n_ + globals_; ++j) {
      if (!pattern_.Sees(i, j)) continue;
      const Score<Real> dot =
          ScaledDot<Real>(q, k_.Row(id.head, j, n_, d_), d_, scale_);
      if (!bias_ || i >= n_ || j >= n_) {
        row.See(j, dot);
        continue;
      }
      const double& bias = bias_->Head(id.head)[j - i + n_ - 1];
      if (bias != kHidden) row.See(j, dot.Plus(static_cast<Real>(bias)));
    }
    row.Write(
        e_, [&](int64_t j) { return v_.Row(id.head, j, n_, e_); }, value,
        units);
  }

 private:
  static constexpr double kHidden = -std::numeric_limits<double>::infinity();

  // The n rows of a tensor, followed by those of the global tokens.
  struct TokensAndGlobals {
    TokensAndGlobals(const Inputs& inputs, const std::string& name)
        : tokens(inputs[name]), globals(inputs.Find(name + "_global")) {}
    const double* Row(int64_t head, int64_t row, int64_t n,
                      int64_t width) const {
      return row < n ? tokens.Head(head) + row * width
                     : globals->Head(head) + (row - n) * width;
    }
    const Tensor& tokens;
    const Tensor* globals;  // null if there are none
  };

  const Problem& problem_;
  const TokensAndGlobals q_, k_, v_;
  const Tensor* const bias_;
  const int64_t n_, globals_, d_, e_;
  const Real scale_;
  const SparsePattern pattern_;
};

class SparseAttentionOperator final
    : public OperatorWith<SparseAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "sparse_attention",
        "out_i = softmax over the keys seen by i of (scale q_i.k_j + "
        "bias(j-i)), times v",
        "Transformers II, \"Making the attention matrix sparse\""};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    std::vector<ParamRule> rules = {
        ParamRule::Flag("causal", "query i sees keys j <= i only"),
        ParamRule::Scale("1/sqrt(d)"),
        ParamRule::Choice("pattern", "pattern of the keys that a query sees",
                          Patterns())};
    std::string pattern;
    if (params.Has("pattern"))
      if (const auto* text =
              std::get_if<std::string>(&params.values().at("pattern")))
        pattern = *text;
    const bool known = std::ranges::count(Patterns(), pattern) > 0;
    // While the pattern is unknown, all parameters are listed and none is
    // required.
    const auto add = [&](std::vector<std::string> patterns, ParamRule rule) {
      rule.required = known;
      if (!known || std::ranges::count(patterns, pattern) > 0)
        rules.push_back(rule);
    };
    const auto integer = [](const char* name, const char* meaning,
                            int64_t min) {
      return ParamRule::Integer(name, meaning, min);
    };
    const auto keys = [&](const char* name, const char* meaning, int64_t min) {
      ParamRule rule = integer(name, meaning, min);
      rule.counts_keys = true;
      return rule;
    };
    add({"local", "bigbird"}, keys("block", "positions in a block", 1));
    add({"sliding", "strided", "longformer", "periodic_full", "etc"},
        keys("window", "steps seen to each side", 0));
    add({"sliding", "longformer"},
        integer("dilation", "positions in a step of the window", 1));
    add({"strided", "periodic_full"},
        keys("stride", "distance of the far keys, or of the full queries", 1));
    add({"bigbird"}, keys("window_blocks", "blocks seen to each side", 0));
    add({"bigbird"},
        integer(
            "global_blocks",
            "number of first blocks that see all others and are seen by all",
            0));
    ParamRule globals{"globals", ParamType::kList,
                      "positions that see all others and are seen by all"};
    globals.min = 0;
    add({"longformer"}, globals);
    ParamRule random{"random", ParamType::kTable,
                     "additional key blocks for each query block"};
    random.min = 0;
    add({"bigbird"}, random);
    return rules;
  }

  Signature ForwardSignature(const Params& params) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "positions"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    TensorRule bias{"bias", {"2*n-1"}, Role::kParameter};
    bias.optional = true;
    bias.may_be_minus_infinity = true;
    bias.offset_axes = {{0, "1-n"}};
    signature.inputs = {
        {"q", {"n", "d"}}, {"k", {"n", "d"}}, {"v", {"n", "e"}}};
    signature.outputs = {{"out", {"n", "e"}}};
    if (params.Has("pattern") && params.Text("pattern") == "etc") {
      signature.sizes.push_back({"g", 8, "global tokens"});
      signature.inputs.push_back({"q_global", {"g", "d"}});
      signature.inputs.push_back({"k_global", {"g", "d"}});
      signature.inputs.push_back({"v_global", {"g", "e"}});
      signature.outputs.push_back({"out_global", {"g", "e"}});
    }
    signature.inputs.push_back(bias);
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

  // The defaults are windows of 64 with matching parameters, less where n is
  // small: a pattern that shows everything would test nothing.
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
    if (pattern != "local" && pattern != "bigbird") set("window", share(8));
    if (pattern == "sliding" || pattern == "longformer")
      set("dilation", int64_t{1});
    if (pattern == "strided" || pattern == "periodic_full")
      set("stride", share(4));
    if (pattern == "longformer") set("globals", IntegerList{0});
    if (pattern != "bigbird") return;
    set("window_blocks", int64_t{1});
    set("global_blocks", int64_t{1});
    const int64_t blocks =
        Blocks(n, std::max<int64_t>(1, params.Integer("block")));
    const auto draw = [&](int64_t at) {
      return static_cast<int64_t>(SplitMix64(static_cast<uint64_t>(at), seed) %
                                  static_cast<uint64_t>(blocks));
    };
    IntegerTable random;
    for (int64_t block = 0; block < blocks; ++block)
      random.push_back({draw(2 * block), draw(2 * block + 1)});
    set("random", random);
  }

  double RowWork(const Problem& problem, int) const override {
    const int64_t globals = problem.HasInput("q_global") ? problem.Dim("g") : 0;
    return static_cast<double>(problem.Dim("n") + globals) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }

 private:
  static const std::vector<std::string>& Patterns() {
    static const std::vector<std::string> names = {
        "local",   "sliding",       "strided", "longformer",
        "bigbird", "periodic_full", "etc"};
    return names;
  }
  static int64_t Blocks(int64_t n, int64_t block) {
    return (n + block - 1) / block;
  }
};

}  // namespace

const Operator& SparseAttention() {
  static const SparseAttentionOperator op;
  return op;
}

}  // namespace subquad
