#include "reference/dynamic_convolution.h"

#include <cmath>
#include <vector>

#include "reference/base/operator_with.h"
#include "reference/softmax/reduced_keys.h"

namespace subquad {
namespace {

template <typename Real>
class DynamicConvolutionReference : public Reference<Real> {
 public:
  DynamicConvolutionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        x_(inputs["x"]),
        phi_k_(inputs["phi_k"]),
        phi_v_(inputs["phi_v"]),
        n_(problem.Dim("n")),
        d_(problem.Dim("D")),
        taps_(problem.Dim("K")),
        e_(problem.Dim("e")),
        before_(problem.params.Flag("causal") ? taps_ - 1 : taps_ / 2) {}

  void Row(const RowId& id, Real* value, double* units) override {
    const double* x = x_.Head(id.head);
    ReducedRows<Real> values(taps_, e_);
    SoftmaxRow<Real> row(problem_);
    for (int64_t t = 0; t < taps_; ++t) {
      row.See(t, Logit(x + id.row * d_, phi_k_.Head(id.head) + t));
      const int64_t j = id.row + t - before_;
      if (j < 0 || j >= n_) continue;
      for (int64_t a = 0; a < d_; ++a)
        values.Add(t, x[j * d_ + a], phi_v_.Head(id.head) + a * e_, d_);
    }
    values.Finish();
    row.Write(
        e_, [&](int64_t t) { return values.Row(t); },
        [&](int64_t t) { return values.Units(t); }, value, units);
  }

 private:
  // Returns x times a column of phi_k, given by its first entry.
  Score<Real> Logit(const double* x, const double* column) const {
    Score<Real> sum;
    double magnitude = 0;
    for (int64_t a = 0; a < d_; ++a) {
      const Real product =
          static_cast<Real>(x[a]) * static_cast<Real>(column[a * taps_]);
      sum.value += product;
      magnitude += std::abs(static_cast<double>(product));
    }
    sum.units = 1.01 * static_cast<double>(d_) * magnitude;
    return sum;
  }

  const Problem& problem_;
  const Tensor &x_, &phi_k_, &phi_v_;
  const int64_t n_, d_, taps_, e_, before_;
};

class DynamicConvolutionOperator final
    : public OperatorWith<DynamicConvolutionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "dynamic_convolution",
        "out_i = sum_t softmax(x_i phi_k)_t (x phi_v)_{i+t-c}",
        "Transformers II, \"Attention as a hypernetwork\""};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return {ParamRule::Flag("causal",
                            "a token sees itself and the K - 1 before it")};
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"D", 64, "width of a token"},
                       {"K", 7, "places of the window"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {
        {"x", {"n", "D"}},
        {"phi_k", {"D", "K"}, Role::kParameter, Draw::kMixingRows},
        TensorRule::Linear("phi_v", {"D", "e"}, Role::kParameter,
                           Draw::kMixingRows)};
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("K") * problem.Dim("D")) *
           static_cast<double>(problem.Dim("e") + 1);
  }
};

}  // namespace

const Operator& DynamicConvolution() {
  static const DynamicConvolutionOperator op;
  return op;
}

}  // namespace subquad
