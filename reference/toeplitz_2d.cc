#include "reference/toeplitz_2d.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "reference/base/gradients.h"
#include "reference/base/image.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"

namespace subquad {
namespace {

template <typename Real>
class Toeplitz2dReference : public Reference<Real> {
 public:
  Toeplitz2dReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        weights_(inputs["weights"]),
        values_(inputs["values"]),
        grad_(problem.backward ? &inputs["grad"] : nullptr),
        height_(problem.Dim("height")),
        width_(problem.Dim("width")),
        e_(problem.Dim("e")) {}

  void Row(const RowId& id, Real* value, double* units) override {
    if (!problem_.backward) return Out(id, value, units);
    if (problem_.outputs[id.output].name == "grad_values")
      return GradValues(id, value, units);
    GradWeights(id, value, units);
  }

 private:
  // Returns w(j - i) of a head for pixels i and j.
  const double& Weight(int64_t head, int64_t i, int64_t j) const {
    return weights_.Head(
        head)[BiasByOffset{height_ * width_, width_}.Index(i, j)];
  }

  void Out(const RowId& id, Real* value, double* units) const {
    const int64_t pixels = height_ * width_;
    const double* v = values_.Head(id.head);
    LongSums<Real> sums(static_cast<size_t>(e_));
    if (units) std::fill_n(units, e_, 0.0);
    for (int64_t j = 0; j < pixels; ++j)
      Add(Weight(id.head, id.row, j), v + j * e_, pixels, sums, units);
    Write(sums, value);
  }

  // Sums over the heads that share the values.
  void GradValues(const RowId& id, Real* value, double* units) const {
    const int64_t pixels = height_ * width_;
    const std::vector<int64_t> heads = values_.slices.Readers(id.head);
    const int64_t terms = pixels * static_cast<int64_t>(heads.size());
    LongSums<Real> sums(static_cast<size_t>(e_));
    if (units) std::fill_n(units, e_, 0.0);
    for (int64_t head : heads)
      for (int64_t i = 0; i < pixels; ++i)
        Add(Weight(head, i, id.row), grad_->Head(head) + i * e_, terms, sums,
            units);
    Write(sums, value);
  }

  // Writes one offset of rows and all offsets of columns, summed over the heads
  // that share the weights.
  void GradWeights(const RowId& id, Real* value, double* units) const {
    const int64_t rows = id.row - (height_ - 1);
    const std::vector<int64_t> heads = weights_.slices.Readers(id.head);
    for (int64_t t = 0; t < 2 * width_ - 1; ++t) {
      const int64_t columns = t - (width_ - 1);
      LongSums<Real> sum(1);
      double magnitude = 0;
      int64_t terms = 0;
      for (int64_t head : heads)
        for (int64_t r = std::max<int64_t>(0, -rows);
             r < std::min(height_, height_ - rows); ++r)
          for (int64_t c = std::max<int64_t>(0, -columns);
               c < std::min(width_, width_ - columns); ++c, terms += e_)
            AddDot(
                grad_->Head(head) + (r * width_ + c) * e_,
                values_.Head(head) + ((r + rows) * width_ + c + columns) * e_,
                sum, units ? &magnitude : nullptr);
      value[t] = sum.Total(0);
      if (units) units[t] = 1.01 * static_cast<double>(terms) * magnitude;
    }
  }

  void Add(const double& weight, const double* row, int64_t terms,
           LongSums<Real>& sums, double* units) const {
    sums.AddRow(static_cast<Real>(weight), row, static_cast<size_t>(e_));
    sums.Next();
    if (!units) return;
    const double factor = 1.01 * static_cast<double>(terms) * std::abs(weight);
    for (int64_t x = 0; x < e_; ++x) units[x] += factor * std::abs(row[x]);
  }

  void AddDot(const double* g, const double* v, LongSums<Real>& sum,
              double* magnitude) const {
    for (int64_t x = 0; x < e_; ++x) {
      const Real term = static_cast<Real>(g[x]) * static_cast<Real>(v[x]);
      sum.Add(0, term);
      sum.Next();
      if (magnitude) *magnitude += std::abs(static_cast<double>(term));
    }
  }

  void Write(const LongSums<Real>& sums, Real* value) const {
    for (int64_t x = 0; x < e_; ++x)
      value[x] = sums.Total(static_cast<size_t>(x));
  }

  const Problem& problem_;
  const Tensor& weights_;
  const Tensor& values_;
  const Tensor* grad_;
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
    signature.inputs = {weights, {"values", {kPixels, "e"}}};
    signature.outputs = {{"out", {kPixels, "e"}}};
    signature.queries = signature.keys = kPixels;
    return signature;
  }

  bool HasGradientProgram() const override { return true; }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    CompleteImage(n, params);
  }

  // A row of the gradient of the weights is one offset of rows.
  double RowWork(const Problem& problem, int output) const override {
    const double terms =
        static_cast<double>(problem.Dim("height") * problem.Dim("width")) *
        static_cast<double>(problem.Dim("e"));
    return problem.outputs[output].name == "grad_weights"
               ? terms *
                     static_cast<double>(problem.Dim("width") * problem.heads)
               : terms;
  }
};

}  // namespace

const Operator& Toeplitz2d() {
  static const Toeplitz2dOperator op;
  return op;
}

}  // namespace subquad
