#include "reference/position_attention.h"

#include <cmath>
#include <string>
#include <vector>

#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/position_scheme.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {
namespace {

template <typename Real>
class PositionAttentionReference : public Reference<Real> {
 public:
  PositionAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        inputs_(inputs),
        scheme_(PositionSchemeOf(problem.params)),
        n_(problem.Dim("n")),
        D_(problem.Dim("D")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        released_(TakesReleasedOrder(problem.params)),
        scale_(SoftmaxScale<Real>(problem)),
        visible_(problem) {
    for (int64_t h = 0; h < problem.heads; ++h) heads_.push_back(MakeHead(h));
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const Head& head = heads_[id.head];
    SoftmaxRow<Real> row(problem_);
    for (int64_t j = 0; j < visible_.End(id.head, id.row); ++j) {
      const Score<Real> score = PairScore(head, id.head, id.row, j);
      row.See(j, {scale_ * score.value,
                  1.01 * static_cast<double>(scale_) * score.units});
    }
    row.Write(
        e_, [&](int64_t j) { return head.v.value.data() + j * e_; },
        [&](int64_t j) { return head.v.units.data() + j * e_; }, value, units);
  }

 private:
  // Rows with the bounds of their errors.
  struct Rows {
    std::vector<Real> value;
    std::vector<double> units;
  };
  struct Head {
    Rows q, k, v;
    Rows position_q, position_k;  // pos or rel through u_q, u_k
    Rows rel;                     // as given
  };

  Head MakeHead(int64_t h) const {
    const auto in = [&](const char* name) { return inputs_[name].Head(h); };
    const double* x = in("x");
    const bool in_scores = scheme_ == PositionScheme::kAbsolute ||
                           scheme_ == PositionScheme::kAbsoluteScores;
    const bool in_values = scheme_ == PositionScheme::kAbsolute;
    Head head;
    head.q = Project(x, in_scores ? in("pos") : nullptr, n_, in("w_q"), d_);
    head.k = Project(x, in_scores ? in("pos") : nullptr, n_, in("w_k"), d_);
    head.v = Project(x, in_values ? in("pos") : nullptr, n_, in("w_v"), e_);
    if (scheme_ == PositionScheme::kUntied) {
      head.position_q = Project(in("pos"), nullptr, n_, in("u_q"), d_);
      head.position_k = Project(in("pos"), nullptr, n_, in("u_k"), d_);
    }
    if (scheme_ == PositionScheme::kDeberta) {
      head.position_q = Project(in("rel"), nullptr, 2 * n_ - 1, in("u_q"), d_);
      head.position_k = Project(in("rel"), nullptr, 2 * n_ - 1, in("u_k"), d_);
    }
    if (scheme_ == PositionScheme::kShaw) {
      const double* rel = in("rel");
      for (int64_t t = 0; t < 2 * n_ - 1; ++t) {
        for (int64_t a = 0; a < d_; ++a)
          head.rel.value.push_back(static_cast<Real>(rel[t * d_ + a]));
        AsRow(&head.rel.value[t * d_], d_);
      }
      head.rel.units.assign(head.rel.value.size(), 0);
    }
    return head;
  }

  // Computes (x + pos) w, row by row; pos may be null.
  Rows Project(const double* x, const double* pos, int64_t rows,
               const double* w, int64_t width) const {
    const auto size = static_cast<size_t>(rows * width);
    Rows out{std::vector<Real>(size), std::vector<double>(size)};
    for (int64_t i = 0; i < rows; ++i) {
      Real* const row = &out.value[i * width];
      for (int64_t b = 0; b < D_; ++b) {
        Real entry = static_cast<Real>(x[i * D_ + b]);
        double magnitude = std::abs(x[i * D_ + b]);
        if (pos) {
          entry += static_cast<Real>(pos[i * D_ + b]);
          magnitude += std::abs(pos[i * D_ + b]);
        }
        AddScaledRow(row, entry, w + b * width, width);
        for (int64_t a = 0; a < width; ++a)
          out.units[i * width + a] += 1.01 * static_cast<double>(D_ + 2) *
                                      magnitude * std::abs(w[b * width + a]);
      }
      AsRow(row, width);
    }
    return out;
  }

  Score<Real> PairScore(const Head& head, int64_t h, int64_t i,
                        int64_t j) const {
    const int64_t after = j - i + n_ - 1, before = i - j + n_ - 1;
    const Score<Real> content = Product(head.q, i, head.k, j);
    switch (scheme_) {
      case PositionScheme::kAbsolute:
      case PositionScheme::kAbsoluteScores:
        return content;
      case PositionScheme::kUntied:
        return Sum(content, Product(head.position_q, i, head.position_k, j));
      case PositionScheme::kShaw:
        return Sum(content, Product(head.q, i, head.rel, after));
      case PositionScheme::kBias: {
        const double& bias = inputs_["bias"].Head(h)[after];
        return Sum(content, {static_cast<Real>(bias), 6 * std::abs(bias)});
      }
      case PositionScheme::kMultiplicative: {
        const double& bias = inputs_["bias"].Head(h)[after];
        return {content.value * static_cast<Real>(bias),
                content.units * std::abs(bias)};
      }
      case PositionScheme::kDeberta:
        return Sum(
            Sum(content, Product(head.q, i, head.position_k, after)),
            Product(head.position_q, released_ ? after : before, head.k, j));
    }
    return content;
  }

  static Score<Real> Sum(const Score<Real>& a, const Score<Real>& b) {
    return {a.value + b.value, a.units + b.units};
  }

  Score<Real> Product(const Rows& a, int64_t i, const Rows& b,
                      int64_t j) const {
    const double u = ArithmeticRoundoff(problem_.scalar);
    Score<Real> dot{Dot<Real>(&a.value[i * d_], &b.value[j * d_], d_), 0};
    for (int64_t x = 0; x < d_ && !kCarriesBounds<Real>; ++x) {
      const Real left = a.value[i * d_ + x], right = b.value[j * d_ + x];
      const double left_size = std::abs(static_cast<double>(left));
      const double right_size = std::abs(static_cast<double>(right));
      const double da = a.units[i * d_ + x], db = b.units[j * d_ + x];
      dot.units += left_size * db + right_size * da + u * da * db +
                   static_cast<double>(d_ + 6) * left_size * right_size;
    }
    return dot;
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const PositionScheme scheme_;
  const int64_t n_, D_, d_, e_;
  const bool released_;
  const Real scale_;
  const VisibleKeys visible_;
  std::vector<Head> heads_;
};

class PositionAttentionOperator final
    : public OperatorWith<PositionAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "position_attention",
        "out = softmax(scale s) x w_v, s_ij = q_i.k_j with positions by scheme",
        "Transformers II eq. 5-13; FastRPB eq. 7"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    std::vector<ParamRule> rules = {
        ParamRule::Choice("scheme", "position scheme of the scores",
                          PositionSchemeNames()),
        ParamRule::Scale("1/sqrt(d)")};
    for (ParamRule& rule : VisibleKeysParams())
      if (rule.name != "query_offset") rules.push_back(std::move(rule));
    rules[2].meaning = "query i sees keys j <= i only";
    const auto scheme = params.values().find("scheme");
    if (scheme == params.values().end() ||
        scheme->second != ParamValue(std::string("deberta")))
      return rules;
    ParamRule p2c = ParamRule::Choice(
        "p2c", "the offset of deberta's last term", {"paper", "released"});
    p2c.required = false;
    p2c.default_value = "paper";
    rules.push_back(p2c);
    return rules;
  }

  Signature ForwardSignature(const Params& params) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"D", 64, "width of a token"},
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    const auto parameter = [](const char* name,
                              std::vector<std::string> shape) {
      return TensorRule{name, std::move(shape), Role::kParameter};
    };
    const auto projection = [](const char* name, const char* width) {
      return TensorRule{name, {"D", width}, Role::kParameter, Draw::kMixing};
    };
    auto& inputs = signature.inputs;
    inputs = {{"x", {"n", "D"}},
              projection("w_q", "d"),
              projection("w_k", "d"),
              projection("w_v", "e")};
    inputs.back().linear = true;
    const PositionScheme scheme = PositionSchemeOf(params);
    const bool untied = scheme == PositionScheme::kUntied;
    const bool deberta = scheme == PositionScheme::kDeberta;
    if (scheme == PositionScheme::kAbsolute ||
        scheme == PositionScheme::kAbsoluteScores || untied)
      inputs.push_back(parameter("pos", {"n", "D"}));
    if (scheme == PositionScheme::kShaw || deberta)
      inputs.push_back(parameter("rel", {"2*n-1", deberta ? "D" : "d"}));
    if (scheme == PositionScheme::kBias ||
        scheme == PositionScheme::kMultiplicative)
      inputs.push_back(parameter("bias", {"2*n-1"}));
    if (inputs.back().name != "pos") inputs.back().offset_axes = {{0, "1-n"}};
    if (untied || deberta) {
      inputs.push_back(projection("u_q", "d"));
      inputs.push_back(projection("u_k", "d"));
    }
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  void CompleteParams(int64_t, uint64_t, Params& params) const override {
    if (!params.Has("scheme")) params.Set("scheme", std::string("shaw"));
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n")) *
           static_cast<double>(3 * problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace

const Operator& PositionAttention() {
  static const PositionAttentionOperator op;
  return op;
}

}  // namespace subquad
