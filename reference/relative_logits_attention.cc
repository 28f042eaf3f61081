#include "reference/relative_logits_attention.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "reference/base/flag_on.h"
#include "reference/base/gradients.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_gradient.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {
namespace {

template <typename Real>
class RelativeLogitsAttentionReference : public Reference<Real> {
 public:
  RelativeLogitsAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        k_(inputs["k"]),
        v_(inputs["v"]),
        r_(inputs["r"]),
        table_(inputs["table"]),
        n_q_(problem.Dim("n_q")),
        n_k_(problem.Dim("n_k")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        p_(problem.Dim("p")),
        E_(problem.Dim("E")),
        scale_(SoftmaxScale<Real>(problem)),
        visible_(problem) {
    if (problem.backward)
      gradient_.emplace(problem, *this, inputs["grad"], n_q_, n_k_, e_);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    if (problem_.backward) return Gradient(id, value, units);
    SoftmaxRow<Real> row(problem_, id.head, id.row);
    for (int64_t j = 0; j < visible_.Count(id.head, id.row); ++j)
      row.See(j, *See(id.head, id.row, j));
    row.Write(
        e_, [&](int64_t j) { return Value(id.head, j); }, value, units);
  }

  // Returns the score of a visible pair, for softmax_gradient.h.
  std::optional<Score<Real>> See(int64_t head, int64_t i, int64_t j) const {
    if (!visible_.Sees(head, i, j)) return std::nullopt;
    Score<Real> score = ScaledDot<Real>(q_.Head(head) + i * d_,
                                        k_.Head(head) + j * d_, d_, scale_);
    const int64_t a = Distance(i, j);
    if (0 <= a && a < E_) {
      const Score<Real> band = Band(head, i, a);
      score = score.Plus(band.value);
      score.units += band.units;
    }
    return score;
  }
  const double* Value(int64_t head, int64_t j) const {
    return v_.Head(head) + j * e_;
  }
  const double* ValueUnits(int64_t, int64_t) const { return nullptr; }

 private:
  using Pair = GradientPair<Real>;

  int64_t Distance(int64_t i, int64_t j) const {
    return i + visible_.offset() - j;
  }

  void Gradient(const RowId& id, Real* value, double* units) const {
    const std::string& name = problem_.outputs[id.output].name;
    const auto readers = [&](const Tensor& tensor) {
      return tensor.slices.Readers(id.head);
    };
    if (name == "grad_v")
      return gradient_->ValueRow(readers(v_), id.row, value, units);
    if (name == "grad_r") return GradR(readers(r_), id.row, value, units);
    if (name == "grad_table")
      return GradTable(readers(table_), id.row, value, units);
    if (name == "grad_q")
      return gradient_->QueryRow(readers(q_), id.row, k_, d_, scale_, value,
                                 units);
    gradient_->KeyRow(readers(k_), id.row, q_, d_, scale_, value, units);
  }

  void GradR(const std::vector<int64_t>& heads, int64_t i, Real* value,
             double* units) const {
    GradientRow<Real> row(p_, value, units);
    std::vector<double> column(static_cast<size_t>(p_));
    for (int64_t head : heads)
      gradient_->ForKeys(
          head, i, row.bounded(), [&](int64_t j, const Pair& pair) {
            const int64_t a = Distance(i, j);
            if (a < 0 || a >= E_) return;
            for (int64_t x = 0; x < p_; ++x)
              column[static_cast<size_t>(x)] = table_.Head(head)[x * E_ + a];
            row.Add(pair.score, column.data());
          });
    row.Finish();
  }

  // Writes row x of the table's gradient: its entries for all distances.
  void GradTable(const std::vector<int64_t>& heads, int64_t x, Real* value,
                 double* units) const {
    for (int64_t a = 0; a < E_; ++a) {
      GradientRow<Real> entry(1, value + a, units ? units + a : nullptr);
      for (int64_t head : heads)
        for (int64_t i = 0; i < n_q_; ++i) {
          const int64_t j = i + visible_.offset() - a;
          if (j < 0 || j >= n_k_) continue;
          if (const auto pair = gradient_->At(head, i, j, entry.bounded()))
            entry.Add(pair->score, r_.Head(head) + i * p_ + x);
        }
      entry.Finish();
    }
  }

  // Returns r_i.table[:, a].
  Score<Real> Band(int64_t head, int64_t i, int64_t a) const {
    const double* r = r_.Head(head) + i * p_;
    const double* table = table_.Head(head) + a;
    Real sum = 0;
    double magnitude = 0;
    for (int64_t x = 0; x < p_; ++x) {
      const Real product =
          static_cast<Real>(r[x]) * static_cast<Real>(table[x * E_]);
      sum += product;
      magnitude += std::abs(static_cast<double>(product));
    }
    return {sum, 1.01 * static_cast<double>(p_ + 1) * magnitude};
  }

  const Problem& problem_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor& r_;
  const Tensor& table_;
  const int64_t n_q_, n_k_, d_, e_, p_, E_;
  const Real scale_;
  const VisibleKeys visible_;
  std::optional<SoftmaxGradient<Real, RelativeLogitsAttentionReference>>
      gradient_;
};

class RelativeLogitsAttentionOperator final
    : public OperatorWith<RelativeLogitsAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "relative_logits_attention",
        "s_ij = scale q_i.k_j + r_i.table[:, i-j] where 0 <= i-j < E; "
        "out = softmax(s) v",
        "banded content-dependent bias; Transformer-XL appendix B at rank p"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    std::vector<ParamRule> rules = VisibleKeysParams();
    rules[0] = FlagOn("causal", rules[0].meaning);
    rules.push_back(ParamRule::Scale("1/sqrt(d)"));
    return rules;
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"},
                       {"p", 16, "rank of the band"},
                       {"E", 64, "distances of the band, from 0 on"}};
    TensorRule table{"table", {"p", "E"}, Role::kParameter};
    table.offset_axes = {{1, "0"}};
    signature.inputs = {{"q", {"n_q", "d"}},
                        {"k", {"n_k", "d"}},
                        {"v", {"n_k", "e"}},
                        {"r", {"n_q", "p"}, Role::kData, Draw::kMixing},
                        table};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  bool HasGradientProgram() const override { return true; }

  double RowWork(const Problem& problem, int output) const override {
    const int64_t pairs = problem.backward
                              ? std::max(problem.Dim("n_q"), problem.Dim("n_k"))
                              : problem.Dim("n_k");
    const double row =
        static_cast<double>(pairs) *
            static_cast<double>(problem.Dim("d") + problem.Dim("e")) +
        static_cast<double>(std::min(pairs, problem.Dim("E"))) *
            static_cast<double>(problem.Dim("p"));
    // A row of the table's gradient has a sum for every distance.
    return problem.outputs[static_cast<size_t>(output)].name == "grad_table"
               ? row * static_cast<double>(problem.Dim("E"))
               : row;
  }

  double SharedWorkOf(const Problem& problem) const override {
    return problem.backward ? static_cast<double>(problem.heads) *
                                  static_cast<double>(problem.Dim("n_q")) *
                                  RowWork(problem, 0)
                            : 0;
  }
};

}  // namespace

const Operator& RelativeLogitsAttention() {
  static const RelativeLogitsAttentionOperator op;
  return op;
}

}  // namespace subquad
