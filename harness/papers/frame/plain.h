// Plain loops for formulas that are typed in as printed.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <vector>

#include "harness/judging/operator_run.h"

namespace subquad {

// NaN stays.
inline double LeastOf(double a, double b) {
  return std::isnan(a) || b >= a ? a : b;
}
inline double LargestOf(double a, double b) {
  return std::isnan(a) || b <= a ? a : b;
}
inline double LargestAbsolute(const Numbers& x) {
  double largest = 0;
  for (double value : x) largest = LargestOf(largest, std::abs(value));
  return largest;
}

// An erratum's difference where something has rows too many or too few.
inline double ShapeGap(double rows) { return rows > 0 ? HUGE_VAL : rows; }

// |x| + 0.1, as features and weights are: no sum cancels.
inline Numbers Positive(Numbers x) {
  for (double& value : x) value = std::abs(value) + 0.1;
  return x;
}

inline Numbers Elu1(Numbers x) {
  for (double& value : x) value = value > 0 ? value + 1 : std::exp(value);
  return x;
}

Numbers Identity(int64_t n);

// Row i of a [., d] with row j of b [., d].
double Dot(const Numbers& a, int64_t i, const Numbers& b, int64_t j, int64_t d);

// m [rows, inner] times x [inner, e].
Numbers MatrixProduct(const Numbers& m, const Numbers& x, int64_t inner);

// Rows first .. end-1 of x [., width], and the rows in another order.
Numbers RowsOf(const Numbers& x, int64_t width, int64_t first, int64_t end);
Numbers Reordered(const Numbers& x, int64_t width,
                  const std::vector<int64_t>& order);
// i + by modulo n: no token stays in its place.
std::vector<int64_t> Rotated(int64_t n, int64_t by);

// A block of m [., columns], row by row.
Numbers Block(const Numbers& m, int64_t columns, int64_t first_row,
              int64_t end_row, int64_t first_column, int64_t end_column);

// sum_j A_ij v_j / sum_j A_ij.
Numbers Normalised(int64_t n, const Numbers& v,
                   const std::function<double(int64_t, int64_t)>& weight);

// Bytes that a program takes beyond its inputs and its output; NaN where they
// cannot be counted (under a sanitizer).
double BytesOf(const std::string& op, const std::string& program, int64_t n,
               const std::vector<std::pair<std::string, std::string>>& values);

}  // namespace subquad
