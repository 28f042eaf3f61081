// softmax_attention: out_i = softmax_j( scale q_i.k_j + bias(j - i) ) v
// (FastRPB eq. 1; NPRF eq. 1 and 6; Transformers II eq. 1 and 11)
//
//   q [n_q, d], k [n_k, d], v [n_k, e]
//   bias [n_q+n_k-1]  optional, by increasing offset: entry t is the bias of
//                     j - i = t - (n_q-1); -inf hides the key
//   out  [n_q, e]
// With height and width, q, k, v are the pixels of an image, and
//   bias [2H-1, 2W-1]  optional, by the offsets of rows and of columns (Swin)
//   causal, query_offset, key_lengths: see visible_keys.h; of an image no
//                     query_offset. The entry of bias for key j and query i
//                     does not depend on them.
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

#include "reference/base/image.h"
#include "reference/base/operator.h"
#include "reference/base/visible_keys.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {

// Throws for the first pixel that sees no pixel through a mask of offsets.
inline void CheckEveryPixelSees(const Problem& problem, const Tensor& bias,
                                const BiasByOffset& by_offset) {
  const VisibleKeys visible(problem);
  for (int64_t head = 0; head < problem.heads; ++head) {
    const double* b = bias.Head(head);
    for (int64_t i = 0; i < by_offset.n_q; ++i) {
      const int64_t count = visible.Count(head, i);
      int64_t j = 0;
      while (j < count && b[by_offset.Index(i, j)] ==
                              -std::numeric_limits<double>::infinity())
        ++j;
      if (j == count) ThrowSeesNothing(problem, head, i);
    }
  }
}

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
        by_offset_{problem.queries,
                   problem.params.Has("width") ? problem.Dim("width") : 0},
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        visible_(problem),
        scale_(SoftmaxScale<Real>(problem)) {
    if (!bias_) return;
    if (by_offset_.width > 0)
      CheckEveryPixelSees(problem, *bias_, by_offset_);
    else
      CheckEveryQuerySees(problem, *bias_);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const int64_t i = id.row;
    const double* q = q_.Head(id.head) + i * d_;
    const double* k = k_.Head(id.head);
    const double* v = v_.Head(id.head);
    SoftmaxRow<Real> row(problem_, id.head, i);
    for (int64_t j = 0; visible_.Sees(id.head, i, j); ++j) {
      const double bias =
          bias_ ? bias_->Head(id.head)[by_offset_.Index(i, j)] : 0;
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
  const BiasByOffset by_offset_;
  const int64_t d_, e_;
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

  std::vector<ParamRule> ParamRules(const Params& given) const override {
    const bool image = given.Has("height") || given.Has("width");
    std::vector<ParamRule> rules = VisibleKeysParams(image);
    rules.push_back(ParamRule::Scale("1/sqrt(d)"));
    for (ParamRule& rule : ImageParams()) {
      rule.required = image;
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  Signature SignatureFor(const Params& params, bool) const override {
    const bool image = params.Has("height");
    const std::string n_q = image ? kPixels : "n_q";
    const std::string n_k = image ? kPixels : "n_k";
    Signature signature;
    if (!image)
      signature.sizes = {SizeRule::Length("n_q", "queries"),
                         SizeRule::Length("n_k", "keys")};
    signature.sizes.push_back({"d", 64, "width of a query and a key"});
    signature.sizes.push_back({"e", 64, "width of a value"});
    TensorRule bias{"bias", {"n_q+n_k-1"}, Role::kParameter};
    bias.offset_axes = {0};
    if (image) {
      bias.shape = {"2*height-1", "2*width-1"};
      bias.offset_axes = {0, 1};
    }
    bias.optional = true;
    bias.may_be_minus_infinity = true;
    signature.inputs = {
        {"q", {n_q, "d"}}, {"k", {n_k, "d"}}, {"v", {n_k, "e"}}, bias};
    signature.outputs = {{"out", {n_q, "e"}}};
    signature.queries = n_q;
    signature.keys = n_k;
    return signature;
  }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    if (params.Has("height") || params.Has("width")) CompleteImage(n, params);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.keys) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace subquad
