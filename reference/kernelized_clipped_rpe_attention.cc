#include "reference/kernelized_clipped_rpe_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"
#include "reference/base/term_order.h"
#include "reference/base/visible_keys.h"

namespace subquad {
namespace {

template <typename Real>
class KernelizedClippedRpeAttentionReference : public Reference<Real> {
 public:
  KernelizedClippedRpeAttentionReference(const Problem& problem,
                                         const Inputs& inputs)
      : scalar_(problem.scalar),
        q_(inputs["q"]),
        v_(inputs["v"]),
        rpe_(inputs["rpe"]),
        n_k_(problem.Dim("n_k")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        r_(problem.Dim("r")),
        visible_(problem),
        keys_(inputs["k"].slices) {
    for (const double& x : inputs["k"].values)
      key_features_.push_back(Elu1(static_cast<Real>(x)));
    for (size_t row = 0; row < key_features_.size();
         row += static_cast<size_t>(d_))
      AsRow(&key_features_[row], d_);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const int64_t i = id.row;
    if (visible_.End(id.head, i) == 0) {
      std::fill_n(value, e_, Real{0});
      if (units) std::fill_n(units, e_, 0.0);
      return;
    }
    std::vector<double> gaps(d_);
    const std::vector<Real> query = QueryFeatures(id.head, i, gaps);
    const double* v = v_.Head(id.head);
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> sums(width + 1);  // the last sum is the normaliser
    double normaliser_units = 0;
    std::vector<double> sum_units(e_);
    const auto seen = static_cast<size_t>(visible_.End(id.head, i));
    ForTerms(seen, [&](size_t term) {
      const auto j = static_cast<int64_t>(term);
      const Real* key =
          key_features_.data() + (keys_.Of(id.head) * n_k_ + j) * d_;
      const int64_t offset = visible_.Offset(i, j);
      const double* rpe =
          rpe_.Head(id.head) + (std::clamp(offset, -r_, r_) + r_) * d_;
      const Real weight =
          Dot<Real>(query.data(), key, d_) + Dot<Real>(query.data(), rpe, d_);
      sums.Add(width, weight);
      sums.AddRow(weight, v + j * e_, width);
      sums.Next();
      if (!units) return;
      const double weight_units = WeightUnits(query, gaps, key, rpe);
      normaliser_units += weight_units;
      for (int64_t c = 0; c < e_; ++c)
        sum_units[c] += weight_units * std::abs(v[j * e_ + c]);
    });
    const Real normaliser = Divisor(sums.Total(width));
    // In the problem's own type, rounding may cancel a nonzero sum to zero.
    if (normaliser == 0 &&
        static_cast<int64_t>(sizeof(Real)) > Info(ArithmeticOf(scalar_)).bytes)
      throw InvalidInput("normaliser", "a number other than zero",
                         "zero at query " + std::to_string(i));
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c) / normaliser;
    if (!units) return;
    const double least = std::abs(static_cast<double>(normaliser)) -
                         1.01 * ArithmeticRoundoff(scalar_) * normaliser_units;
    for (int64_t c = 0; c < e_; ++c) {
      const double out = std::abs(static_cast<double>(value[c]));
      units[c] =
          least > 0
              ? 1.01 * (sum_units[c] + out * normaliser_units) / least + out
              : std::numeric_limits<double>::infinity();
    }
  }

 private:
  static Real Elu1(Real x) { return x > 0 ? x + 1 : static_cast<Real>(exp(x)); }

  // Returns phi(q_i) with a factor that brings its largest entry to about one.
  std::vector<Real> QueryFeatures(int64_t head, int64_t i,
                                  std::vector<double>& gaps) const {
    const double* q = q_.Head(head) + i * d_;
    const double top = *std::max_element(q, q + d_);
    std::vector<Real> features;
    for (int64_t a = 0; a < d_; ++a) {
      const Real x = static_cast<Real>(q[a]);
      if (top <= 0) {
        features.push_back(exp(x - static_cast<Real>(top)));
        gaps[a] = top - q[a];
      } else {
        features.push_back(ldexp(Elu1(x), -ilogb(top + 1)));
      }
    }
    AsRow(features.data(), d_);
    return features;
  }

  double WeightUnits(const std::vector<Real>& query,
                     const std::vector<double>& gaps, const Real* key,
                     const double* rpe) const {
    const double roundings = static_cast<double>(d_ + n_k_) + 16;
    const double lost = (scalar_ == Scalar::kFloat64 ? 0x1p-1021 : 0x1p-125) /
                        ArithmeticRoundoff(scalar_);
    double units = 0;
    for (int64_t a = 0; a < d_; ++a) {
      const double size = static_cast<double>(key[a]) + std::abs(rpe[a]);
      const double feature = static_cast<double>(query[a]);
      units +=
          (roundings + gaps[a]) * feature * size + lost * (size + feature + 1);
    }
    return units;
  }

  const Scalar scalar_;
  const Tensor& q_;
  const Tensor& v_;
  const Tensor& rpe_;
  const int64_t n_k_, d_, e_, r_;
  const VisibleKeys visible_;
  const Slices keys_;
  std::vector<Real> key_features_;  // [slices, n_k, d]
};

class KernelizedClippedRpeAttentionOperator final
    : public OperatorWith<KernelizedClippedRpeAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "kernelized_clipped_rpe_attention",
        "A_ij = phi(q_i).(phi(k_j) + rpe[clip(j-i,-r,r)+r]); "
        "out_i = sum_j A_ij v_j / sum_j A_ij",
        "LRPE section IV"};
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
        {"d", 64, "width of a query and a key"},
        {"e", 64, "width of a value"},
        {"r", 16, "largest offset; larger ones are clipped to it", 0}};
    TensorRule rpe{"rpe", {"2*r+1", "d"}, Role::kParameter, Draw::kPositive};
    rpe.offset_axes = {{0, "-r"}};
    signature.inputs = {{"q", {"n_q", "d"}},
                        {"k", {"n_k", "d"}},
                        TensorRule::Linear("v", {"n_k", "e"}),
                        rpe};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n_k")) *
           static_cast<double>(2 * problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace

const Operator& KernelizedClippedRpeAttention() {
  static const KernelizedClippedRpeAttentionOperator op;
  return op;
}

}  // namespace subquad
