#include "reference/relative_logits_attention.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "reference/base/flag_on.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"
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
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        p_(problem.Dim("p")),
        E_(problem.Dim("E")),
        scale_(SoftmaxScale<Real>(problem)),
        visible_(problem) {}

  void Row(const RowId& id, Real* value, double* units) override {
    SoftmaxRow<Real> row(problem_);
    for (int64_t j = 0; j < visible_.End(id.head, id.row); ++j)
      row.See(j, ScoreOf(id.head, id.row, j));
    row.Write(
        e_, [&](int64_t j) { return v_.Head(id.head) + j * e_; }, value, units);
  }

 private:
  Score<Real> ScoreOf(int64_t head, int64_t i, int64_t j) const {
    const Score<Real> content = ScaledDot<Real>(
        q_.Head(head) + i * d_, k_.Head(head) + j * d_, d_, scale_);
    const int64_t distance = -visible_.Offset(i, j);
    if (distance < 0 || distance >= E_) return content;
    const Score<Real> band = Band(head, i, distance);
    Score<Real> score = content.Plus(band.value);
    score.units += band.units;
    return score;
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
  const int64_t d_, e_, p_, E_;
  const Real scale_;
  const VisibleKeys visible_;
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
                        TensorRule::Linear("v", {"n_k", "e"}),
                        {"r", {"n_q", "p"}, Role::kData, Draw::kMixing},
                        table};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    const int64_t keys = problem.Dim("n_k");
    return static_cast<double>(keys) *
               static_cast<double>(problem.Dim("d") + problem.Dim("e")) +
           static_cast<double>(std::min(keys, problem.Dim("E"))) *
               static_cast<double>(problem.Dim("p"));
  }
};

}  // namespace

const Operator& RelativeLogitsAttention() {
  static const RelativeLogitsAttentionOperator op;
  return op;
}

}  // namespace subquad
