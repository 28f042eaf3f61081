// The pseudo-inverse of nystrom_attention by iteration, with its bound.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "reference/base/functions.h"

namespace subquad {

// Returns the squares of the singular values of m [size, size], by Jacobi's
// method on m m^T (Golub and Van Loan, section 8.5).
inline std::vector<double> SquaredSingularValues(const std::vector<double>& m,
                                                 int64_t size) {
  std::vector<double> g(static_cast<size_t>(size * size));
  for (int64_t i = 0; i < size; ++i)
    for (int64_t j = 0; j < size; ++j)
      for (int64_t a = 0; a < size; ++a)
        g[i * size + j] += m[i * size + a] * m[j * size + a];
  double trace = 0;
  for (int64_t i = 0; i < size; ++i) trace += g[i * size + i];
  constexpr int kSweeps = 12;
  for (int sweep = 0; sweep < kSweeps; ++sweep)
    for (int64_t p = 0; p < size; ++p)
      for (int64_t q = p + 1; q < size; ++q) {
        const double off = g[p * size + q];
        if (std::abs(off) <= 1e-18 * trace) continue;
        const double theta = (g[q * size + q] - g[p * size + p]) / (2 * off);
        const double t = std::copysign(
            1 / (std::abs(theta) + sqrt(theta * theta + 1)), theta);
        const double c = 1 / sqrt(t * t + 1), s = t * c;
        for (int64_t a = 0; a < size; ++a) {
          const double x = g[a * size + p], y = g[a * size + q];
          g[a * size + p] = c * x - s * y;
          g[a * size + q] = s * x + c * y;
        }
        for (int64_t a = 0; a < size; ++a) {
          const double x = g[p * size + a], y = g[q * size + a];
          g[p * size + a] = c * x - s * y;
          g[q * size + a] = s * x + c * y;
        }
      }
  std::vector<double> squares;
  for (int64_t i = 0; i < size; ++i)
    squares.push_back(std::max(0.0, g[i * size + i]));
  return squares;
}

// Computes Z of a matrix A [size, size], and its error.
template <typename Real>
class NystromInverse {
 public:
  NystromInverse(const std::vector<Real>& matrix, int64_t size,
                 int64_t iterations)
      : size_(size), matrix_(matrix) {
    const auto at = [&](int64_t i, int64_t j) { return i * size + j; };
    Real rows = 0, columns = 0;
    for (int64_t i = 0; i < size; ++i) {
      Real row = 0, column = 0;
      for (int64_t j = 0; j < size; ++j) {
        row += abs(matrix[at(i, j)]);
        column += abs(matrix[at(j, i)]);
      }
      rows = std::max(rows, row);
      columns = std::max(columns, column);
    }
    scale_ = static_cast<double>(rows * columns);
    z_.resize(matrix.size());
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        z_[at(i, j)] = matrix[at(j, i)] / (rows * columns);
    AsRows(z_);
    for (int64_t t = 0; t < iterations; ++t) {
      before_.push_back(z_);
      const std::vector<Real> az = Times(matrix_, z_);
      std::vector<Real> inner = Less(7, az);
      inner = Less(15, Times(az, inner));
      inner = Less(13, Times(az, inner));
      z_ = Times(z_, inner);
      for (Real& value : z_) value /= 4;
      AsRows(z_);
    }
  }

  const std::vector<Real>& z() const { return z_; }
  double norm() const { return NormOf(z_); }  // Frobenius

  // Returns |dZ|_F in units of the roundoff if A is off by `matrix_units` in
  // that norm; infinite where there is no bound.
  double Units(double matrix_units, double roundoff) const {
    std::vector<double> exact(matrix_.begin(), matrix_.end());
    const std::vector<double> squares = SquaredSingularValues(exact, size_);
    const auto size = static_cast<size_t>(size_);
    const auto terms = static_cast<double>(size_ + 2);
    const double largest = sqrt(*std::ranges::max_element(squares));
    std::vector<double> s, z;
    for (double square : squares) {
      s.push_back(sqrt(square));
      z.push_back(sqrt(square) / scale_);
    }
    // Products of the factors c_ij that errors of A and of each step are
    // multiplied by, pair by pair.
    std::vector<double> of_a(size * size),
        of_transposed(size * size, 1 / scale_);
    std::vector<std::vector<double>> left;
    std::vector<double> own, of_scale = z;
    // The scale is a product of two sums of `size` numbers, followed by a
    // quotient.
    const double scale_units = 2 * matrix_units * sqrt(terms) + 2 * terms;
    const auto units_now = [&] {
      double gain = 0, of_scales = 0;
      for (size_t at = 0; at < of_a.size(); ++at)
        gain = std::max(gain, std::abs(of_a[at]) + std::abs(of_transposed[at]));
      for (double value : of_scale) of_scales += value * value;
      double units = gain * matrix_units + sqrt(of_scales) * scale_units;
      for (size_t step = 0; step < own.size(); ++step) {
        double most = 0;
        for (double value : left[step]) most = std::max(most, std::abs(value));
        units += most * own[step];
      }
      return units;
    };
    for (const std::vector<Real>& before : before_) {
      const double z_largest = *std::ranges::max_element(z);
      const double units = units_now();
      if (!(largest * units * roundoff < kFarthest))
        return std::numeric_limits<double>::infinity();
      const double second_order =
          roundoff * (1.1 * 3.75 * largest * units * units +
                      21 * z_largest * matrix_units * units +
                      2.5 * z_largest * z_largest * z_largest * matrix_units *
                          matrix_units);
      std::vector<double> w;
      for (size_t i = 0; i < size; ++i) w.push_back(s[i] * z[i]);
      for (size_t i = 0; i < size; ++i)
        for (size_t j = 0; j < size; ++j) {
          const double x = w[i], y = w[j];
          const double square = x * x + x * y + y * y;
          const double c = (13 - 15 * (x + y) + 7 * square -
                            (x * x * x + x * x * y + x * y * y + y * y * y)) /
                           4;
          const double a = (-15 + 7 * (x + y) - square) / 4;
          const size_t at = i * size + j;
          of_a[at] = c * of_a[at] + a * z[i] * z[j];
          of_transposed[at] *= c;
          if (i == j) of_scale[i] *= c;
          for (auto& earlier : left) earlier[at] *= c;
        }
      own.push_back(
          StepUnits(exact, {before.begin(), before.end()}, z_largest) +
          second_order);
      left.emplace_back(size * size, 1.0);
      for (size_t i = 0; i < size; ++i)
        z[i] *= (13 - w[i] * (15 - w[i] * (7 - w[i]))) / 4;
    }
    const double units = units_now();
    return largest * units * roundoff < kFarthest
               ? units
               : std::numeric_limits<double>::infinity();
  }

 private:
  // Limit of |A|_2 |dZ|_F, beyond which third orders are no longer small.
  static constexpr double kFarthest = 0.2;

  // Returns the rounding errors of one step, z being |Z|_2.
  double StepUnits(const std::vector<double>& a,
                   const std::vector<double>& z_before, double z) const {
    const auto terms = static_cast<double>(size_ + 2);
    const auto rounding = [&](std::vector<double> x, std::vector<double> y) {
      for (auto* m : {&x, &y})
        for (double& value : *m) value = std::abs(value);
      return terms * NormOf(Times(x, y));
    };
    const std::vector<double> az = Times(a, z_before);
    const std::vector<double> seven = Less(7, az),
                              fifteen = Less(15, Times(az, seven)),
                              thirteen = Less(13, Times(az, fifteen));
    const double passed_on = 15 * rounding(a, z_before) + NormOf(seven) +
                             rounding(az, seven) + NormOf(fifteen) +
                             rounding(az, fifteen) + NormOf(thirteen);
    return (z * passed_on + rounding(z_before, thirteen)) / 4;
  }

  template <typename Number>
  std::vector<Number> Times(const std::vector<Number>& a,
                            const std::vector<Number>& b) const {
    std::vector<Number> product(a.size());
    for (int64_t i = 0; i < size_; ++i)
      for (int64_t x = 0; x < size_; ++x)
        AddScaledRow(&product[i * size_], a[i * size_ + x], &b[x * size_],
                     size_);
    AsRows(product);
    return product;
  }

  // Returns number I - m.
  template <typename Number>
  std::vector<Number> Less(int number, std::vector<Number> m) const {
    for (Number& value : m) value = -value;
    for (int64_t i = 0; i < size_; ++i)
      m[i * size_ + i] += static_cast<Number>(number);
    AsRows(m);
    return m;
  }

  template <typename Number>
  void AsRows(std::vector<Number>& m) const {
    for (int64_t i = 0; i < size_; ++i) AsRow(&m[i * size_], size_);
  }

  template <typename Number>
  static double NormOf(const std::vector<Number>& m) {
    double squares = 0;
    for (const Number& value : m)
      squares += static_cast<double>(value) * static_cast<double>(value);
    return sqrt(squares);
  }

  const int64_t size_;
  const std::vector<Real> matrix_;
  double scale_ = 0;
  std::vector<Real> z_;
  std::vector<std::vector<Real>> before_;  // Z before each step
};

}  // namespace subquad
