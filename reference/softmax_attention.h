// softmax_attention: out_i = softmax_j( scale q_i.k_j + bias(j - i) ) v
// (FastRPB eq. 1; NPRF eq. 1 and 6; Transformers II eq. 1 and 11)
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   bias [n_q+n_k-1]  optional, by increasing offset: entry t is the bias of
//                     j - i = t - (n_q-1); -inf hides the key
//   out  [n_q, e]
//   causal, query_offset, key_lengths: see visible_keys.h. The entry of bias
//   for
//                     keys j and query i does not depend on them.
//   scale             default 1/sqrt(d)
//
// What the inputs show: normal draws give scores of order one, so that every
// key counts and a missing or doubled one shows. A bias read as i - j, or with
// its origin at n_k-1, changes all rows. "offset" and "huge" give scores far
// beyond the range of exp: a maximum that is not subtracted is inf/inf there.
// "dropping" makes rows whose largest score comes early or late, for the
// rescaling of partial sums. Padding that is seen, and a query that stands
// elsewhere, change which keys are in the mean.
//
// Bound: see softmax_rows.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>

#include "reference/base/operator.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {

// Throws for the first query that sees no key through a mask of offsets.
inline void CheckEveryQuerySees(const Problem& problem, const Tensor& bias) {
  const VisibleKeys visible(problem);
  const int64_t n_q = problem.Dim("n_q"), n_k = problem.Dim("n_k");
  for (int64_t slice = 0; slice < bias.slices.count(); ++slice) {
    const double* b = bias.Slice(slice);
    std::vector<int64_t> finite(n_q + n_k);  // among the first t offsets
    for (int64_t t = 0; t < n_q + n_k - 1; ++t)
      finite[t + 1] =
          finite[t] + (b[t] != -std::numeric_limits<double>::infinity());
    for (int64_t head : bias.slices.Readers(slice))
      for (int64_t i = 0; i < n_q; ++i)
        if (finite[n_q - 1 - i + visible.Count(head, i)] == finite[n_q - 1 - i])
          ThrowSeesNothing(problem, head, i);
  }
}

template <typename Real>
class SoftmaxAttentionReference : public Reference<Real> {
 public:
  SoftmaxAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        k_(inputs["k"]),
        v_(inputs["v"]),
        bias_(problem.HasInput("bias") ? &inputs["bias"] : nullptr),
        n_q_(problem.Dim("n_q")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        visible_(problem),
        scale_(SoftmaxScale<Real>(problem)) {
    if (bias_) CheckEveryQuerySees(problem, *bias_);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const int64_t i = id.row;
    const double* q = q_.Head(id.head) + i * d_;
    const double* k = k_.Head(id.head);
    const double* v = v_.Head(id.head);
    SoftmaxRow<Real> row(problem_, id.head, i);
    for (int64_t j = 0; visible_.Sees(id.head, i, j); ++j) {
      const double bias = bias_ ? bias_->Head(id.head)[j - i + n_q_ - 1] : 0;
      if (bias == -std::numeric_limits<double>::infinity()) continue;
      const Score<Real> dot = ScaledDot<Real>(q, k + j * d_, d_, scale_);
      row.See(j, bias_ ? dot.Plus(static_cast<Real>(bias)) : dot);
    }
    row.Write(
        e_, [&](int64_t j) { return v + j * e_; }, value, units);
  }

 private:
  const Problem& problem_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor* bias_;
  const int64_t n_q_, d_, e_;
  const VisibleKeys visible_;
  const Real scale_;
};

class SoftmaxAttention final : public OperatorWith<SoftmaxAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "softmax_attention", "out_i = softmax_j(scale q_i.k_j + bias(j-i)) v",
        "FastRPB eq. 1; NPRF eq. 1, 6; Transformers II eq. 1, 11"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    std::vector<ParamRule> rules = VisibleKeysParams();
    rules.push_back(ParamRule::Scale("1/sqrt(d)"));
    return rules;
  }

  Signature SignatureFor(const Params&, bool) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    TensorRule bias{"bias", {"n_q+n_k-1"}, Role::kParameter};
    bias.optional = true;
    bias.may_be_minus_infinity = true;
    bias.offset_axes = {0};
    signature.inputs = {
        {"q", {"n_q", "d"}}, {"k", {"n_k", "d"}}, {"v", {"n_k", "e"}}, bias};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n_k")) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace subquad
