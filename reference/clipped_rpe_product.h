// clipped_rpe_product: S_ij = q_i . rpe[clip(j-i, -r, r) + r], out = S v
// (LRPE section III; no softmax and no normaliser)
//
//   q      [n_q, d]
//   rpe    [2r+1, d]   one embedding per clipped offset j - i, increasing
//   v      [n_k, e]
//   out    [n_q, e]
//   causal             query i sees keys j <= i only
//
// As printed the note takes clip(i - j), which turns the embeddings around, and
// its sum over the keys after the window stops too early: both are shown in
// tests/harness/errata_test.cc.
//
// What the inputs show: normal draws show an embedding taken at i - j and a
// window that is one key too wide or too narrow. n_k > n_q + r shows a tail on
// the right that is cut off, n_q > n_k + r one on the left, r = 0 a key that is
// counted in both tails, r > n an embedding read before its first row.
//
// Bound: a score is off by at most (d u) sum |q||rpe| (Higham 2002, eq. 3.5)
// and each of the n_k terms then passes through one product and n_k additions,
// in whatever order they are grouped: 1.01 (n_k + d + 2) u sum_j sum_a
// |q||rpe||v|. A product of three small numbers may fall below the normal
// range, where it is off by half of the smallest subnormal number instead.
#pragma once

#include <algorithm>
#include <cmath>

#include "reference/base/operator.h"

namespace subquad {

template <typename Real>
class ClippedRpeProductReference : public Reference<Real> {
 public:
  ClippedRpeProductReference(const Problem& problem, const Inputs& inputs)
      : q_(inputs["q"]),
        rpe_(inputs["rpe"]),
        v_(inputs["v"]),
        n_k_(problem.Dim("n_k")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        r_(problem.Dim("r")),
        causal_(problem.params.Flag("causal")),
        subnormal_(Subnormal(problem.scalar) /
                   Info(problem.scalar).unit_roundoff) {}

  void Row(const RowId& id, Real* value, double* units) override {
    std::fill_n(value, e_, Real{0});
    if (units) std::fill_n(units, e_, 0.0);
    const double* q = q_.Head(id.head) + id.row * d_;
    const double* v = v_.Head(id.head);
    const double terms = 1.01 * static_cast<double>(n_k_ + d_ + 2);
    for (int64_t j = 0; j < n_k_ && (!causal_ || j <= id.row); ++j) {
      const int64_t t = std::clamp(j - id.row, -r_, r_) + r_;
      const double* rpe = rpe_.Head(id.head) + t * d_;
      Real score = 0;
      double magnitude = 0;
      for (int64_t a = 0; a < d_; ++a) {
        const Real product =
            static_cast<Real>(q[a]) * static_cast<Real>(rpe[a]);
        score += product;
        magnitude += std::abs(static_cast<double>(product));
      }
      for (int64_t c = 0; c < e_; ++c)
        value[c] += score * static_cast<Real>(v[j * e_ + c]);
      if (!units) continue;
      const double lost = static_cast<double>(d_) * subnormal_;
      for (int64_t c = 0; c < e_; ++c)
        units[c] +=
            (terms * magnitude + lost) * std::abs(v[j * e_ + c]) + subnormal_;
    }
  }

 private:
  static double Subnormal(Scalar scalar) {
    return scalar == Scalar::kFloat64 ? 0x1p-1074 : 0x1p-149;
  }

  const Tensor& q_;
  const Tensor& rpe_;
  const Tensor& v_;
  const int64_t n_k_, d_, e_, r_;
  const bool causal_;
  const double subnormal_;  // in units of the roundoff
};

class ClippedRpeProduct final
    : public OperatorWith<ClippedRpeProductReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "clipped_rpe_product",
        "out[i] = sum_j (q_i . rpe[clip(j-i,-r,r)+r]) v[j]",
        "LRPE section III; Shaw 2018"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return {ParamRule::Flag("causal", "query i sees keys j <= i only")};
  }

  Signature SignatureFor(const Params&, bool) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"d", 64, "width of a query"},
                       {"e", 64, "width of a value"},
                       {"r", 16, "offsets beyond it are clipped to it", 0}};
    TensorRule rpe{"rpe", {"2*r+1", "d"}, Role::kParameter};
    rpe.offset_axes = {0};
    signature.inputs = {{"q", {"n_q", "d"}}, rpe, {"v", {"n_k", "e"}}};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n_k")) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace subquad
