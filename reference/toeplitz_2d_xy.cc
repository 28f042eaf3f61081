#include "reference/toeplitz_2d_xy.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "reference/base/gradients.h"
#include "reference/base/image.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"

namespace subquad {
namespace {

template <typename Real>
class Toeplitz2dXyReference : public Reference<Real> {
 public:
  Toeplitz2dXyReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        rows_(inputs["weights_rows"]),
        cols_(inputs["weights_cols"]),
        values_(inputs["values"]),
        grad_(problem.backward ? &inputs["grad"] : nullptr),
        height_(problem.Dim("height")),
        width_(problem.Dim("width")),
        e_(problem.Dim("e")) {}

  void Row(const RowId& id, Real* value, double* units) override {
    if (!problem_.backward) return Out(id, value, units);
    const std::string& name = problem_.outputs[id.output].name;
    if (name == "grad_values") return GradValues(id, value, units);
    if (name == "grad_weights_rows")
      GradWeights(rows_, {height_, width_, width_, 1}, id, value, units);
    else
      GradWeights(cols_, {width_, height_, 1, width_}, id, value, units);
  }

 private:
  // The pixels as `lines` of `length` pixels each; steps are in pixels.
  struct Lines {
    int64_t lines, length, line_step, step;
  };

  void Out(const RowId& id, Real* value, double* units) const {
    const int64_t pixels = height_ * width_;
    const double* v = values_.Head(id.head);
    LongSums<Real> sums(static_cast<size_t>(e_));
    if (units) std::fill_n(units, e_, 0.0);
    for (int64_t j = 0; j < pixels; ++j)
      Add(id.head, id.row, j, v + j * e_, pixels, sums, units);
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
        Add(head, i, id.row, grad_->Head(head) + i * e_, terms, sums, units);
    Write(sums, value);
  }

  // Computes the gradient for one offset of lines, summed over the heads that
  // share the weights.
  void GradWeights(const Tensor& weights, const Lines& image, const RowId& id,
                   Real* value, double* units) const {
    const int64_t offset = id.row - (image.lines - 1);
    const std::vector<int64_t> heads = weights.slices.Readers(id.head);
    LongSums<Real> total(1);
    double magnitude = 0;
    for (int64_t head : heads)
      for (int64_t line = std::max<int64_t>(0, -offset);
           line < std::min(image.lines, image.lines - offset); ++line) {
        const Sums g = SumOfLine(grad_->Head(head), image, line, units);
        const Sums v =
            SumOfLine(values_.Head(head), image, line + offset, units);
        Real dot = 0;
        for (size_t x = 0; x < static_cast<size_t>(e_); ++x) {
          dot += g.values[x] * v.values[x];
          if (units) magnitude += g.magnitudes[x] * v.magnitudes[x];
        }
        total.Add(0, dot);
        total.Next();
      }
    *value = total.Total(0);
    const auto lines =
        static_cast<double>(image.lines) * static_cast<double>(heads.size());
    if (units)
      *units = 1.01 *
               (2 * static_cast<double>(image.length) +
                static_cast<double>(e_) + lines + 1) *
               magnitude;
  }

  struct Sums {
    std::vector<Real> values;
    std::vector<double> magnitudes;
  };
  Sums SumOfLine(const double* pixels, const Lines& image, int64_t line,
                 const double* units) const {
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> sums(width);
    Sums result{std::vector<Real>(width),
                std::vector<double>(units ? width : 0)};
    for (int64_t p = 0; p < image.length; ++p) {
      const double* row =
          pixels + (line * image.line_step + p * image.step) * e_;
      sums.AddRow(static_cast<Real>(1), row, width);
      sums.Next();
      if (units)
        for (size_t x = 0; x < width; ++x)
          result.magnitudes[x] += std::abs(row[x]);
    }
    Write(sums, result.values.data());
    return result;
  }

  // Adds a row of values or gradients times the weight of pixels i and j.
  void Add(int64_t head, int64_t i, int64_t j, const double* row, int64_t terms,
           LongSums<Real>& sums, double* units) const {
    const double& a = rows_.Head(head)[j / width_ - i / width_ + height_ - 1];
    const double& b = cols_.Head(head)[j % width_ - i % width_ + width_ - 1];
    sums.AddRow(static_cast<Real>(a) + static_cast<Real>(b), row,
                static_cast<size_t>(e_));
    sums.Next();
    if (!units) return;
    const double factor =
        1.01 * static_cast<double>(terms + 1) * (std::abs(a) + std::abs(b));
    for (int64_t x = 0; x < e_; ++x) units[x] += factor * std::abs(row[x]);
  }

  void Write(const LongSums<Real>& sums, Real* value) const {
    for (int64_t x = 0; x < e_; ++x)
      value[x] = sums.Total(static_cast<size_t>(x));
  }

  const Problem& problem_;
  const Tensor& rows_;
  const Tensor& cols_;
  const Tensor& values_;
  const Tensor* grad_;
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
    signature.inputs = {rows, cols, {"values", {kPixels, "e"}}};
    signature.outputs = {{"out", {kPixels, "e"}}};
    signature.queries = signature.keys = kPixels;
    return signature;
  }

  bool HasGradientProgram() const override { return true; }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    CompleteImage(n, params);
  }

  // A gradient of a weight sums over all lines.
  double RowWork(const Problem& problem, int output) const override {
    const double terms =
        static_cast<double>(problem.Dim("height") * problem.Dim("width")) *
        static_cast<double>(problem.Dim("e"));
    return problem.outputs[output].name.starts_with("grad_weights")
               ? 2 * terms * static_cast<double>(problem.heads)
               : terms;
  }
};

}  // namespace

const Operator& Toeplitz2dXy() {
  static const Toeplitz2dXyOperator op;
  return op;
}

}  // namespace subquad
