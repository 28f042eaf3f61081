// toeplitz_2d_xy: a row bias and a column bias on an image
//   out[(r,c)] = sum_{r',c'} ( w_rows(r'-r) + w_cols(c'-c) ) v[(r',c')]
// (FastRPB section 3.2.2 and appendix B.3; there H = W and both weights equal.)
//
//   weights_rows [2H-1], weights_cols [2W-1]   by increasing offset
//   values [H*W, e]   pixel (r, c) is row r*W + c
//   out    [H*W, e]
//
// What the inputs show: rows swapped with columns change the answer unless
// H = W and the weights are equal, so the default image is not square.
//
// Bound: HW products, each with a weight that is itself one rounded sum.
#pragma once

#include <algorithm>
#include <cmath>

#include "reference/base/image.h"
#include "reference/base/operator.h"

namespace subquad {

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
    const double* w_rows = rows_.Head(id.head);
    const double* w_cols = cols_.Head(id.head);
    const double* v = values_.Head(id.head);
    const int64_t r = id.row / width_, c = id.row % width_;
    const double terms = 1.01 * static_cast<double>(height_ * width_ + 1);
    std::fill_n(value, e_, Real{0});
    if (units) std::fill_n(units, e_, 0.0);
    for (int64_t rr = 0; rr < height_; ++rr) {
      for (int64_t cc = 0; cc < width_; ++cc) {
        const double a = w_rows[rr - r + height_ - 1];
        const double b = w_cols[cc - c + width_ - 1];
        const Real weight = static_cast<Real>(a) + static_cast<Real>(b);
        const double* row = v + (rr * width_ + cc) * e_;
        for (int64_t x = 0; x < e_; ++x)
          value[x] += weight * static_cast<Real>(row[x]);
        if (!units) continue;
        const double magnitude = terms * (std::abs(a) + std::abs(b));
        for (int64_t x = 0; x < e_; ++x)
          units[x] += magnitude * std::abs(row[x]);
      }
    }
  }

 private:
  const Tensor& rows_;
  const Tensor& cols_;
  const Tensor& values_;
  const int64_t height_, width_, e_;
};

class Toeplitz2dXy final : public OperatorWith<Toeplitz2dXyReference> {
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

  Signature SignatureFor(const Params&, bool) const override {
    Signature signature;
    signature.sizes = {{"e", 64, "width of a value"}};
    TensorRule rows{"weights_rows", {"2*height-1"}, Role::kParameter};
    TensorRule cols{"weights_cols", {"2*width-1"}, Role::kParameter};
    rows.offset_axes = cols.offset_axes = {0};
    signature.inputs = {rows, cols, {"values", {kPixels, "e"}}};
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

}  // namespace subquad
