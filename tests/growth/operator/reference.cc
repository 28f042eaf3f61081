#include <cmath>
#include <vector>

#include "reference/average_attention.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"

namespace subquad {
namespace {

template <typename Real>
class AverageAttentionReference : public Reference<Real> {
 public:
  AverageAttentionReference(const Problem& problem, const Inputs& inputs)
      : v_(inputs["v"]), e_(problem.Dim("e")) {}

  void Row(const RowId& id, Real* value, double* units) override {
    const auto width = static_cast<size_t>(e_);
    const double* v = v_.Head(id.head);
    const int64_t terms = id.row + 1;
    LongSums<Real> sums(width);
    std::vector<double> magnitudes(width);
    for (int64_t j = 0; j < terms; ++j) {
      sums.AddRow(Real{1}, v + j * e_, width);
      sums.Next();
      for (size_t c = 0; c < width; ++c)
        magnitudes[c] += std::abs(v[j * e_ + static_cast<int64_t>(c)]);
    }
    for (size_t c = 0; c < width; ++c) {
      value[c] = sums.Total(c) / static_cast<Real>(terms);
      // 1.01: the roundings of roundings.
      if (units) units[c] = 1.01 * magnitudes[c];
    }
  }

 private:
  const Tensor& v_;
  const int64_t e_;
};

class AverageAttentionOperator final
    : public OperatorWith<AverageAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "average_attention", "out[i] = (v[0] + .. + v[i]) / (i + 1)",
        "Zhang et al. 2018 eq. 1"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override { return {}; }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"e", 64, "width of a value"}};
    signature.inputs = {{"v", {"n", "e"}}};
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n") * problem.Dim("e"));
  }
};

}  // namespace

const Operator& AverageAttention() {
  static const AverageAttentionOperator op;
  return op;
}

}  // namespace subquad
