#include "reference/clipped_rpe_product.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"

namespace subquad {
namespace {

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
        visible_(problem),
        subnormal_(Subnormal(problem.scalar) /
                   ArithmeticRoundoff(problem.scalar)) {}

  void Row(const RowId& id, Real* value, double* units) override {
    const double* q = q_.Head(id.head) + id.row * d_;
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> sums(width);
    if (units) std::fill_n(units, e_, 0.0);
    for (int64_t j = 0; visible_.Sees(id.head, id.row, j); ++j) {
      const int64_t offset = visible_.Offset(id.row, j);
      const double* rpe =
          rpe_.Head(id.head) + (std::clamp(offset, -r_, r_) + r_) * d_;
      const double* v = v_.Head(id.head) + j * e_;
      sums.AddRow(Dot<Real>(q, rpe, d_), v, width);
      sums.Next();
      if (!units) continue;
      double magnitude = 0;
      for (int64_t a = 0; a < d_; ++a) magnitude += std::abs(q[a] * rpe[a]);
      const auto d = static_cast<double>(d_);
      const double factor =
          1.01 * (static_cast<double>(n_k_) + d + 2) * magnitude +
          d * subnormal_;
      for (int64_t c = 0; c < e_; ++c)
        units[c] += factor * std::abs(v[c]) + subnormal_;
    }
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c);
  }

 private:
  static double Subnormal(Scalar scalar) {
    return scalar == Scalar::kFloat64 ? 0x1p-1074 : 0x1p-149;
  }

  const Tensor& q_;
  const Tensor& rpe_;
  const Tensor& v_;
  const int64_t n_k_, d_, e_, r_;
  const VisibleKeys visible_;
  const double subnormal_;  // in units of the roundoff
};

class ClippedRpeProductOperator final
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
    return VisibleKeysParams();
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {
        SizeRule::Length("n_q", "queries"),
        SizeRule::Length("n_k", "keys"),
        {"d", 64, "width of a query"},
        {"e", 64, "width of a value"},
        {"r", 16, "largest offset; larger ones are clipped to it", 0}};
    TensorRule rpe{"rpe", {"2*r+1", "d"}, Role::kParameter};
    rpe.offset_axes = {{0, "-r"}};
    signature.inputs = {
        {"q", {"n_q", "d"}}, rpe, TensorRule::Linear("v", {"n_k", "e"})};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n_k")) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace

const Operator& ClippedRpeProduct() {
  static const ClippedRpeProductOperator op;
  return op;
}

}  // namespace subquad
