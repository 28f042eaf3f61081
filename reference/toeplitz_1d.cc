#include "reference/toeplitz_1d.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"

namespace subquad {
namespace {

template <typename Real>
class Toeplitz1dReference : public Reference<Real> {
 public:
  Toeplitz1dReference(const Problem& problem, const Inputs& inputs)
      : weights_(inputs["weights"]),
        values_(inputs["values"]),
        n_q_(problem.Dim("n_q")),
        n_k_(problem.Dim("n_k")),
        e_(problem.Dim("e")),
        visible_(problem) {}

  void Row(const RowId& id, Real* value, double* units) override {
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> sums(width);
    if (units) std::fill_n(units, e_, 0.0);
    const double* v = values_.Head(id.head);
    const double* w = weights_.Head(id.head) + n_q_ - 1;
    for (int64_t j = 0; visible_.Sees(id.head, id.row, j); ++j) {
      const double& weight = w[j - id.row];
      sums.AddRow(static_cast<Real>(weight), v + j * e_, width);
      sums.Next();
      const double factor = 1.01 * static_cast<double>(n_k_) * std::abs(weight);
      for (int64_t c = 0; units && c < e_; ++c)
        units[c] += factor * std::abs(v[j * e_ + c]);
    }
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c);
  }

 private:
  const Tensor& weights_;
  const Tensor& values_;
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
    TensorRule values = TensorRule::Linear("values", {"n_k", "e"});
    signature.inputs = {weights, values};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n_k") * problem.Dim("e"));
  }
};

}  // namespace

const Operator& Toeplitz1d() {
  static const Toeplitz1dOperator op;
  return op;
}

}  // namespace subquad
