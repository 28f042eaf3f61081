// toeplitz_2d: a full 2-D relative bias on an image
//   out[(r,c)] = sum_{r',c'} w(r'-r, c'-c) v[(r',c')]
// (block Toeplitz with Toeplitz blocks, as in Swin and NPRF section 4.4.)
//
//   weights [2H-1, 2W-1]   by increasing row offset, then column offset
//   values  [H*W, e]       pixel (r, c) is row r*W + c
//   out     [H*W, e]
//
// What the inputs show: a one-level embedding wraps the end of an image row
// into the next one; normal draws show it at every border.
//
// Bound: a sum of HW products, gamma_HW sum |a||b|.
#pragma once

#include <algorithm>
#include <cmath>

#include "reference/base/image.h"
#include "reference/base/operator.h"

namespace subquad {

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
    const double* w = weights_.Head(id.head);
    const double* v = values_.Head(id.head);
    const int64_t r = id.row / width_, c = id.row % width_;
    const double terms = 1.01 * static_cast<double>(height_ * width_);
    std::fill_n(value, e_, Real{0});
    if (units) std::fill_n(units, e_, 0.0);
    for (int64_t rr = 0; rr < height_; ++rr) {
      for (int64_t cc = 0; cc < width_; ++cc) {
        const double weight =
            w[(rr - r + height_ - 1) * (2 * width_ - 1) + cc - c + width_ - 1];
        const double* row = v + (rr * width_ + cc) * e_;
        for (int64_t x = 0; x < e_; ++x)
          value[x] += static_cast<Real>(weight) * static_cast<Real>(row[x]);
        if (!units) continue;
        for (int64_t x = 0; x < e_; ++x)
          units[x] += terms * std::abs(weight) * std::abs(row[x]);
      }
    }
  }

 private:
  const Tensor& weights_;
  const Tensor& values_;
  const int64_t height_, width_, e_;
};

class Toeplitz2d final : public OperatorWith<Toeplitz2dReference> {
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

  Signature SignatureFor(const Params&, bool) const override {
    Signature signature;
    signature.sizes = {{"e", 64, "width of a value"}};
    TensorRule weights{
        "weights", {"2*height-1", "2*width-1"}, Role::kParameter};
    weights.offset_axes = {0, 1};
    signature.inputs = {weights, {"values", {kPixels, "e"}}};
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
