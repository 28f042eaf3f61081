// The doubly stochastic matrix of sinkhorn_attention, with its bound.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/long_sums.h"
#include "reference/base/term_order.h"

namespace subquad {

// Computes exp(logits) with rows and columns divided by their sums alternately.
template <typename Real>
class SinkhornMatrix {
 public:
  SinkhornMatrix(const double* logits, int64_t blocks, int64_t iterations)
      : logits_(logits),
        blocks_(blocks),
        rows_(static_cast<size_t>(blocks)),
        columns_(static_cast<size_t>(blocks)) {
    for (int64_t t = 0; t < iterations; ++t) {
      Normalise(rows_, columns_, blocks, 1);
      Normalise(columns_, rows_, 1, blocks);
    }
  }

  Real At(int64_t row, int64_t column) const {
    return exp(ExponentAt(row, column));
  }
  // Returns the error of an entry in units of the roundoff.
  double UnitsAt(int64_t row, int64_t column, double roundoff) const {
    const auto exponent = static_cast<double>(ExponentAt(row, column));
    const double units =
        2 * steps_units_ +
        6 * (std::abs(exponent) + std::abs(logits_[row * blocks_ + column]) +
             std::abs(static_cast<double>(rows_[row]))) +
        4;
    // The error is not linearised: large exponents have no digit left, but an
    // entry that is certainly zero stays so.
    const double off = units * roundoff;
    return (off < 1 ? exp(exponent) * std::expm1(off) : exp(exponent + off)) /
           roundoff;
  }

 private:
  Real ExponentAt(int64_t row, int64_t column) const {
    return static_cast<Real>(logits_[row * blocks_ + column]) + rows_[row] +
           columns_[column];
  }

  // Computes of_own[x] = -log sum_y exp(logits + of_others[y]); entry (x, y) of
  // the logits is at x own_stride + y stride.
  void Normalise(std::vector<Real>& of_own, const std::vector<Real>& of_others,
                 int64_t own_stride, int64_t stride) {
    double largest = 0;
    for (int64_t x = 0; x < blocks_; ++x) {
      const auto exponent = [&](int64_t y) {
        return static_cast<Real>(logits_[x * own_stride + y * stride]) +
               of_others[y];
      };
      Real top = exponent(0);
      for (int64_t y = 1; y < blocks_; ++y) top = std::max(top, exponent(y));
      top = AsConstant(top);
      LongSums<Real> sum(1);
      ForTerms(static_cast<size_t>(blocks_), [&](size_t y) {
        const Real term = exponent(static_cast<int64_t>(y));
        largest = std::max(largest, std::abs(static_cast<double>(term)));
        sum.Add(0, exp(term - top));
        sum.Next();
      });
      of_own[x] = -(top + log(sum.Total(0)));
      largest = std::max(largest, std::abs(static_cast<double>(of_own[x])));
    }
    const auto count = static_cast<double>(blocks_);
    steps_units_ += 1.01 * (2 * largest + 3 * log(count) + count + 6);
  }

  const double* const logits_;
  const int64_t blocks_;
  std::vector<Real> rows_, columns_;  // f, g
  double steps_units_ = 0;
};

}  // namespace subquad
