#include "reference/toeplitz_2d_xy.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/base/image.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"

namespace subquad {
namespace {

template <typename Real>
class Toeplitz2dXyReference : public Reference<Real> {
 public:
  Toeplitz2dXyReference(const Problem& problem, const Inputs& inputs)
      : rows_(inputs["weights_rows"]),
        cols_(inputs["weights_cols"]),
        values_(inputs["values"]),
        height_(problem.Dim("height")),
        width_(problem.Dim("width")),
        e_(problem.Dim("e")) {}

  void Row(const RowId& id, Real* value, double* units) override {
    const int64_t pixels = height_ * width_;
    const auto width = static_cast<size_t>(e_);
    const double* v = values_.Head(id.head);
    const double* rows = rows_.Head(id.head) + height_ - 1 - id.row / width_;
    const double* cols = cols_.Head(id.head) + width_ - 1 - id.row % width_;
    LongSums<Real> sums(width);
    if (units) std::fill_n(units, e_, 0.0);
    for (int64_t j = 0; j < pixels; ++j) {
      const double &a = rows[j / width_], &b = cols[j % width_];
      sums.AddRow(static_cast<Real>(a) + static_cast<Real>(b), v + j * e_,
                  width);
      sums.Next();
      const double factor =
          1.01 * static_cast<double>(pixels + 1) * (std::abs(a) + std::abs(b));
      for (int64_t c = 0; units && c < e_; ++c)
        units[c] += factor * std::abs(v[j * e_ + c]);
    }
    for (size_t c = 0; c < width; ++c) value[c] = sums.Total(c);
  }

 private:
  const Tensor& rows_;
  const Tensor& cols_;
  const Tensor& values_;
  const int64_t height_, width_, e_;
};

class Toeplitz2dXyOperator final : public OperatorWith<Toeplitz2dXyReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "toeplitz_2d_xy",
        "out[(r,c)] = sum_{r',c'} (w_rows(r'-r) + w_cols(c'-c)) v[(r',c')]",
        "FastRPB section 3.2.2 and appendix B.3"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return ImageParams();
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {{"e", 64, "width of a value"}};
    TensorRule rows{"weights_rows", {"2*height-1"}, Role::kParameter};
    TensorRule cols{"weights_cols", {"2*width-1"}, Role::kParameter};
    rows.offset_axes = {{0, "1-height"}};
    cols.offset_axes = {{0, "1-width"}};
    signature.inputs = {rows, cols,
                        TensorRule::Linear("values", {kPixels, "e"})};
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

const Operator& Toeplitz2dXy() {
  static const Toeplitz2dXyOperator op;
  return op;
}

}  // namespace subquad
