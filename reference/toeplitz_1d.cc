#include "reference/toeplitz_1d.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "reference/base/gradients.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"

namespace subquad {
namespace {

template <typename Real>
class Toeplitz1dReference : public Reference<Real> {
 public:
  Toeplitz1dReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        weights_(inputs["weights"]),
        values_(inputs["values"]),
        grad_(problem.backward ? &inputs["grad"] : nullptr),
        n_q_(problem.Dim("n_q")),
        n_k_(problem.Dim("n_k")),
        e_(problem.Dim("e")),
        visible_(problem) {}

  void Row(const RowId& id, Real* value, double* units) override {
    if (!problem_.backward) return Out(id.head, id.row, value, units);
    if (problem_.outputs[id.output].name == "grad_values")
      return GradValues(id.head, id.row, value, units);
    GradWeights(id.head, id.row, value, units);
  }

 private:
  Real Weight(int64_t head, int64_t offset) const {
    return static_cast<Real>(weights_.Head(head)[offset + n_q_ - 1]);
  }

  void Out(int64_t head, int64_t i, Real* value, double* units) const {
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> sums(width);
    if (units) std::fill_n(units, e_, 0.0);
    const double* v = values_.Head(head);
    for (int64_t j = 0; visible_.Sees(head, i, j); ++j)
      Add(Weight(head, j - i), v + j * e_, n_k_, sums, units);
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c);
  }

  // Sums over the heads that share the values.
  void GradValues(int64_t slice, int64_t j, Real* value, double* units) const {
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> sums(width);
    if (units) std::fill_n(units, e_, 0.0);
    const std::vector<int64_t> heads = values_.slices.Readers(slice);
    const int64_t terms = n_q_ * static_cast<int64_t>(heads.size());
    for (int64_t head : heads) {
      const double* g = grad_->Head(head);
      for (int64_t i = 0; i < n_q_; ++i)
        if (visible_.Sees(head, i, j))
          Add(Weight(head, j - i), g + i * e_, terms, sums, units);
    }
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c);
  }

  // Sums over the heads that share the weights.
  void GradWeights(int64_t slice, int64_t t, Real* value, double* units) const {
    const int64_t offset = t - (n_q_ - 1);
    const std::vector<int64_t> heads = weights_.slices.Readers(slice);
    const double terms = static_cast<double>(std::min(n_q_, n_k_)) * e_ *
                         static_cast<double>(heads.size());
    Real sum = 0;
    double magnitude = 0;
    for (int64_t h : heads) {
      const double* g = grad_->Head(h);
      const double* v = values_.Head(h);
      for (int64_t i = std::max<int64_t>(0, -offset);
           i < n_q_ && i + offset < n_k_; ++i) {
        if (!visible_.Sees(h, i, i + offset)) continue;
        for (int64_t c = 0; c < e_; ++c) {
          const Real a = static_cast<Real>(g[i * e_ + c]);
          const Real b = static_cast<Real>(v[(i + offset) * e_ + c]);
          sum += a * b;
          if (units) magnitude += std::abs(static_cast<double>(a * b));
        }
      }
    }
    *value = sum;
    if (units) *units = 1.01 * terms * magnitude;
  }

  void Add(Real weight, const double* row, int64_t terms, LongSums<Real>& sums,
           double* units) const {
    sums.AddRow(weight, row, static_cast<size_t>(e_));
    sums.Next();
    if (!units) return;
    const double factor = 1.01 * static_cast<double>(terms) *
                          std::abs(static_cast<double>(weight));
    for (int64_t c = 0; c < e_; ++c) units[c] += factor * std::abs(row[c]);
  }

  const Problem& problem_;
  const Tensor& weights_;
  const Tensor& values_;
  const Tensor* grad_;
  const int64_t n_q_, n_k_, e_;
  const VisibleKeys visible_;
};

class Toeplitz1dOperator final : public OperatorWith<Toeplitz1dReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "toeplitz_1d", "out[i] = sum_j w(j-i) v[j]",
        "FastRPB section 3.2.1, eq. 11-18"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return VisibleKeysParams();
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"e", 64, "width of a value"}};
    TensorRule weights{"weights", {"n_q+n_k-1"}, Role::kParameter};
    weights.offset_axes = {OffsetAxis::OfIndices(0, "n_q")};
    TensorRule values{"values", {"n_k", "e"}};
    signature.inputs = {weights, values};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  bool HasGradientProgram() const override { return true; }

  double RowWork(const Problem& problem, int output) const override {
    const double terms = static_cast<double>(
        std::max(problem.Dim("n_q"), problem.Dim("n_k")) * problem.Dim("e"));
    return problem.outputs[output].name == "grad_weights"
               ? terms * static_cast<double>(problem.heads)
               : terms;
  }
};

}  // namespace

const Operator& Toeplitz1d() {
  static const Toeplitz1dOperator op;
  return op;
}

}  // namespace subquad
