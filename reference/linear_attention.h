// linear_attention: softmax's exp(q . k) replaced by a product of features
// (FastRPB eq. 3; Transformers II eq. 18-20; LRPE section II)
//
//   out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j)
//
//   q      [n_q, d]
//   k      [n_k, d]
//   v      [n_k, e]
//   omega  [f, d] or [p, d]   where the map projects (feature_map.h)
//   out    [n_q, e]
//   feature_map, nu (dpfp)    the map
//   causal, query_offset, key_lengths: see visible_keys.h
//   eps                       is added to the denominator; default 0
//   normalized = false        the numerator alone
//   scale                     phi is applied to sqrt(scale) x; default 1
//
// Test inputs: normal draws show any wrong index. A mean far from zero
// (exp features of e^95 and e^-97) shows a missing scale; keys that grow along
// the sequence show a scale computed over the future; signs that alternate make
// relu features vanish, and with them the normaliser, which is an error.
//
// Bound: kernelized/bound.h. Cost of a row: n_k (f + e).
#pragma once

#include "reference/kernelized/kernelized.h"

namespace subquad {

template <typename Real>
class LinearAttentionReference : public Reference<Real> {
 public:
  LinearAttentionReference(const Problem& problem, const Inputs& inputs)
      : rows_(problem, inputs) {}

  void Row(const RowId& id, Real* value, double* units) override {
    rows_.Row(id.head, id.row, value, units);
  }

 private:
  const KernelizedRows<Real> rows_;
};

class LinearAttention final : public OperatorWith<LinearAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "linear_attention",
        "out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j)",
        "FastRPB eq. 3; Transformers II eq. 18-20; LRPE section II"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    std::vector<ParamRule> rules = FeatureMapParams(params);
    std::ranges::move(VisibleKeysParams(), std::back_inserter(rules));
    std::ranges::move(NormaliserParams(), std::back_inserter(rules));
    rules.push_back(ParamRule::Scale("1"));
    return rules;
  }

  Signature SignatureFor(const Params& params, bool) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {
        {"q", {"n_q", "d"}}, {"k", {"n_k", "d"}}, {"v", {"n_k", "e"}}};
    AddOmega(params, signature);
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  void CompleteParams(int64_t, uint64_t, Params& params) const override {
    CompleteFeatureMap(params);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n_k")) *
           static_cast<double>(FeatureMapOf(problem).features() +
                               problem.Dim("e"));
  }
};

}  // namespace subquad
