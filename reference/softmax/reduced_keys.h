// Softmax attention to reduced keys and values, each of which is a sum over
// rows of the sequence. Shared by linformer_attention and
// memory_compressed_attention.
//
// Bound: a reduced key is a sum of t products and off by t u sum|c||k| (Higham
// 2002, eq. 3.5), which moves a score by scale sum|q| times that; a reduced
// value is off likewise. The rest is as in softmax_rows.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/softmax/softmax_rows.h"

namespace subquad {

// Rows of sums, with the bounds of their errors in units of the roundoff.
template <typename Real>
class ReducedRows {
 public:
  ReducedRows(int64_t rows, int64_t width)
      : width_(width), values_(rows * width), magnitudes_(rows * width) {}

  // Computes row += coefficient * source, one of `terms` such terms.
  void Add(int64_t row, const double& coefficient, const double* source,
           int64_t terms) {
    terms_ = terms;
    AddScaledRow(&values_[row * width_], static_cast<Real>(coefficient), source,
                 width_);
    for (int64_t x = 0; x < width_; ++x)
      magnitudes_[row * width_ + x] += std::abs(coefficient * source[x]);
  }

  // Sets a row that was computed elsewhere, with its bounds. Call it after
  // Finish.
  void Set(int64_t row, const Real* values, const double* units) {
    std::copy_n(values, width_, &values_[row * width_]);
    AsRow(&values_[row * width_], width_);
    std::copy_n(units, width_, &magnitudes_[row * width_]);
  }

  // Turns magnitudes into bounds once all terms are added.
  void Finish() {
    for (size_t first = 0; first < values_.size();
         first += static_cast<size_t>(width_))
      AsRow(&values_[first], width_);
    for (double& magnitude : magnitudes_)
      magnitude *= 1.01 * static_cast<double>(terms_);
  }

  const Real* Row(int64_t row) const { return &values_[row * width_]; }
  const double* Units(int64_t row) const { return &magnitudes_[row * width_]; }

 private:
  int64_t width_, terms_ = 1;
  std::vector<Real> values_;
  std::vector<double> magnitudes_;
};

// Attends from one query to `count` reduced keys and values.
template <typename Real>
void AttendToReduced(const Problem& problem, const double* q, int64_t d,
                     int64_t e, Real scale, int64_t count,
                     const ReducedRows<Real>& keys,
                     const ReducedRows<Real>& values, Real* value,
                     double* units) {
  SoftmaxRow<Real> row(problem);
  for (int64_t a = 0; a < count; ++a) {
    Score<Real> score = ScaledDot<Real>(q, keys.Row(a), d, scale);
    for (int64_t x = 0; x < d; ++x)
      score.units +=
          static_cast<double>(scale) * std::abs(q[x]) * keys.Units(a)[x];
    row.See(a, score);
  }
  row.Write(
      e, [&](int64_t a) { return values.Row(a); },
      [&](int64_t a) { return values.Units(a); }, value, units);
}

}  // namespace subquad
