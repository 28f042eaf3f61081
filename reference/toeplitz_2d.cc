#include "reference/toeplitz_2d.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/base/image.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"

namespace subquad {
namespace {

template <typename Real>
class Toeplitz2dReference : public Reference<Real> {
 public:
  Toeplitz2dReference(const Problem& problem, const Inputs& inputs)
      : weights_(inputs["weights"]),
        values_(inputs["values"]),
        height_(problem.Dim("height")),
        width_(problem.Dim("width")),
        e_(problem.Dim("e")) {}

  void Row(const RowId& id, Real* value, double* units) override {
    const int64_t pixels = height_ * width_;
    const auto width = static_cast<size_t>(e_);
    const double* v = values_.Head(id.head);
    const double* w = weights_.Head(id.head);
    LongSums<Real> sums(width);
    if (units) std::fill_n(units, e_, 0.0);
    for (int64_t j = 0; j < pixels; ++j) {
      const double& weight = w[BiasByOffset{pixels, width_}.Index(id.row, j)];
      sums.AddRow(static_cast<Real>(weight), v + j * e_, width);
      sums.Next();
      const double factor =
          1.01 * static_cast<double>(pixels) * std::abs(weight);
      for (int64_t c = 0; units && c < e_; ++c)
        units[c] += factor * std::abs(v[j * e_ + c]);
    }
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c);
  }

 private:
  const Tensor& weights_;
  const Tensor& values_;
  const int64_t height_, width_, e_;
};

class Toeplitz2dOperator final : public OperatorWith<Toeplitz2dReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "toeplitz_2d", "out[(r,c)] = sum_{r',c'} w(r'-r, c'-c) v[(r',c')]",
        "NPRF section 4.4; Swin's relative bias"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return ImageParams();
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {{"e", 64, "width of a value"}};
    TensorRule weights{
        "weights", {"2*height-1", "2*width-1"}, Role::kParameter};
    weights.offset_axes = {{0, "1-height"}, {1, "1-width"}};
    signature.inputs = {weights, TensorRule::Linear("values", {kPixels, "e"})};
    signature.outputs = {{"out", {kPixels, "e"}}};
    signature.queries = signature.keys = kPixels;
    return signature;
  }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    CompleteImage(n, params);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("height") * problem.Dim("width") *
                               problem.Dim("e"));
  }
};

}  // namespace

const Operator& Toeplitz2d() {
  static const Toeplitz2dOperator op;
  return op;
}

}  // namespace subquad
