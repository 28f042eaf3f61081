#include "reference/sparse_attention.h"

#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "reference/base/operator_with.h"
#include "reference/base/split_mix.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/block_sizes.h"
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
        block_mask_(inputs.Find("block_mask")),
        n_q_(problem.queries),
        n_k_(problem.keys),
        globals_(problem.HasInput("q_global") ? problem.Dim("g") : 0),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        scale_(SoftmaxScale<Real>(problem)),
        pattern_(problem.params, n_q_, n_k_) {}

  void Row(const RowId& id, Real* value, double* units) override {
    // Output 1 has the rows of the global tokens.
    const int64_t i = id.output == 0 ? id.row : n_q_ + id.row;
    const double* q = q_.Row(id.head, i, n_q_, d_);
    const double* block_mask =
        block_mask_ ? block_mask_->Head(id.head) : nullptr;
    SoftmaxRow<Real> row(problem_);
    for (int64_t j = 0; j < n_k_ + globals_; ++j) {
      if (!pattern_.Sees(i, j, block_mask)) continue;
      const Score<Real> dot =
          ScaledDot<Real>(q, k_.Row(id.head, j, n_k_, d_), d_, scale_);
      if (!bias_ || i >= n_q_ || j >= n_k_) {
        row.See(j, dot);
        continue;
      }
      const double& bias = bias_->Head(id.head)[j - i + n_q_ - 1];
      if (bias != kHidden) row.See(j, dot.Plus(static_cast<Real>(bias)));
    }
    row.Write(
        e_, [&](int64_t j) { return v_.Row(id.head, j, n_k_, e_); }, value,
        units);
  }

 private:
  static constexpr double kHidden = -std::numeric_limits<double>::infinity();

  // The rows of a tensor, followed by those of the global tokens.
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
  const Tensor* const block_mask_;
  const int64_t n_q_, n_k_, globals_, d_, e_;
  const Real scale_;
  const SparsePattern pattern_;
};

// Draws a block mask: the blocks on the diagonal and half of the others are
// visible, and the queries of one of 8 blocks see nothing.
double SeesDiagonalAndHalf(double drawn, const Element& element) {
  const int64_t rows = element.shape.front(), columns = element.shape.back();
  const int64_t row = element.index / columns;
  if (row % 8 == 5) return 0;
  return element.index % columns == row * columns / rows || drawn < 0.5 ? 1 : 0;
}

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
    const std::string pattern = PatternOf(params);
    const bool known = std::ranges::count(Patterns(), pattern) > 0;
    std::vector<ParamRule> rules = {
        ParamRule::Flag("causal", "query i sees keys j <= i only"),
        ParamRule::Scale("1/sqrt(d)"),
        ParamRule::Choice("pattern", "pattern of the keys that a query sees",
                          Patterns())};
    if (HasPositions(pattern)) {
      const auto of_positions =
          VisibleKeysParams({.least_offset = -kMaxInteger});
      for (const ParamRule& rule : of_positions) {
        if (rule.name == "causal") rules.front() = rule;
        if (rule.name == "query_offset") rules.push_back(rule);
      }
    }
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
    ParamRule block = keys("block", "positions in a block", 1);
    if (pattern == "blocks") {
      block.meaning +=
          ", or two numbers: those of queries, as stored, and of keys";
      block.may_be_list = true;
    }
    add({"local", "bigbird", "blocks"}, block);
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
    const std::string pattern = PatternOf(params);
    Signature signature;
    TensorRule bias{"bias", {"2*n-1"}, Role::kParameter};
    bias.offset_axes = {{0, "1-n"}};
    signature.queries = signature.keys = "n";
    signature.sizes = {SizeRule::Length("n", "queries, and as many keys")};
    if (HasPositions(pattern)) {
      bias.shape = {"n_q+n_k-1"};
      bias.offset_axes = {OffsetAxis::OfIndices(0, "n_q")};
      signature.queries = "n_q";
      signature.keys = "n_k";
      signature.sizes = {SizeRule::Length("n_q", "queries"),
                         SizeRule::Length("n_k", "keys")};
    }
    bias.optional = true;
    bias.may_be_minus_infinity = true;
    signature.sizes.push_back({"d", 64, "width of a query and a key"});
    signature.sizes.push_back({"e", 64, "width of a value"});
    const std::string &n_q = signature.queries, &n_k = signature.keys;
    signature.inputs = {{"q", {n_q, "d"}},
                        {"k", {n_k, "d"}},
                        TensorRule::Linear("v", {n_k, "e"})};
    signature.outputs = {{"out", {n_q, "e"}}};
    if (pattern == "blocks") {
      signature.inputs.push_back(BlockMask(params));
    } else if (pattern == "etc") {
      signature.sizes.push_back({"g", 8, "global tokens"});
      signature.inputs.push_back({"q_global", {"g", "d"}});
      signature.inputs.push_back({"k_global", {"g", "d"}});
      signature.inputs.push_back(TensorRule::Linear("v_global", {"g", "e"}));
      signature.outputs.push_back({"out_global", {"g", "e"}});
    }
    signature.inputs.push_back(bias);
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    const int64_t n = problem.queries;
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
    const bool in_blocks =
        pattern == "local" || pattern == "bigbird" || pattern == "blocks";
    set(in_blocks ? "block" : "window", share(8));
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
    return static_cast<double>(problem.keys + globals) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }

 private:
  static const std::vector<std::string>& Patterns() {
    static const std::vector<std::string> names = {
        "local",   "sliding",       "strided", "longformer",
        "bigbird", "periodic_full", "etc",     "blocks"};
    return names;
  }
  // Returns the pattern, or an empty text if none is given.
  static std::string PatternOf(const Params& params) {
    if (!params.Has("pattern")) return "";
    const auto* text = std::get_if<std::string>(&params.values().at("pattern"));
    return text ? *text : "";
  }
  // True if queries have positions among the keys, of which there may be more
  // or less. The other patterns are of self-attention.
  static bool HasPositions(const std::string& pattern) {
    return pattern == "local" || pattern == "sliding" || pattern == "blocks";
  }
  static TensorRule BlockMask(const Params& params) {
    std::string queries = "block", keys = "block";
    if (params.Has("block") &&
        !std::holds_alternative<int64_t>(params.values().at("block"))) {
      const BlockSizes block = BlockSizesOf(params);
      queries = std::to_string(block.queries);
      keys = std::to_string(block.keys);
    }
    TensorRule rule{"block_mask",
                    {"ceil(n_q/" + queries + ")", "ceil(n_k/" + keys + ")"},
                    Role::kParameter,
                    Draw{Draw::From::kUniform, SeesDiagonalAndHalf}};
    rule.fixed = rule.zero_or_one = true;
    return rule;
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
