// relative_logits_attention: softmax attention with a band of logits that the
// query makes for the last E positions, a bias of rank p whose content depends
// on the query.
//   With a = i + query_offset - j, the distance back to key j:
//   s_ij = scale q_i.k_j + (0 <= a < E ? r_i.table[:, a] : 0)
//   out  = softmax(s) v
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   r [n_q, p]     what a query says about distances
//   table [p, E]   column a belongs to the distance a
//   out [n_q, e]
//   causal         query i sees keys j <= i + query_offset only; default true
//   query_offset, key_lengths: see visible_keys.h
//   scale          default 1/sqrt(d); the band is not scaled
//
// What the inputs show: normal draws give a band as large as the scores, so
// that a distance that is off by one, a table read from its far end and a band
// that is cut short change all rows but those that see one key. E beyond the
// keys and E = 1 show ends that are handled wrongly; without `causal` keys
// after the query have no band.
//
// Bound: softmax_rows.h with the score's error: that of the scaled dot product,
// p + 1 roundings of the magnitudes sum|r||table| for the band, and one of the
// sum of both.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/base/flag_on.h"
#include "reference/base/operator.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {

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
    const int64_t i = id.row;
    const double* q = q_.Head(id.head) + i * d_;
    const double* k = k_.Head(id.head);
    const double* v = v_.Head(id.head);
    SoftmaxRow<Real> row(problem_, id.head, i);
    for (int64_t j = 0; j < visible_.Count(id.head, i); ++j) {
      Score<Real> score = ScaledDot<Real>(q, k + j * d_, d_, scale_);
      const int64_t a = i + visible_.offset() - j;
      if (0 <= a && a < E_) {
        const Score<Real> band = Band(id.head, i, a);
        score = score.Plus(band.value);
        score.units += band.units;
      }
      row.See(j, score);
    }
    row.Write(
        e_, [&](int64_t j) { return v + j * e_; }, value, units);
  }

 private:
  // r_i.table[:, a]
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

class RelativeLogitsAttention final
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

  Signature SignatureFor(const Params&, bool) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"},
                       {"p", 16, "rank of the band"},
                       {"E", 64, "distances of the band, from 0 on"}};
    TensorRule table{"table", {"p", "E"}, Role::kParameter};
    table.offset_axes = {1};
    signature.inputs = {{"q", {"n_q", "d"}},
                        {"k", {"n_k", "d"}},
                        {"v", {"n_k", "e"}},
                        {"r", {"n_q", "p"}, Role::kData, Draw::kMixing},
                        table};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n_k")) *
               static_cast<double>(problem.Dim("d") + problem.Dim("e")) +
           static_cast<double>(std::min(problem.Dim("n_k"), problem.Dim("E"))) *
               static_cast<double>(problem.Dim("p"));
  }
};

}  // namespace subquad
