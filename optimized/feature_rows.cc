#include "optimized/feature_rows.h"

#include <cmath>

#include "optimized/materialized.h"

namespace subquad {

template <typename T>
void FeatureRows<T>::ScaleRows(const T* x, int64_t rows, T* scaled) const {
  const int64_t d = spec_.d;
  const T root = static_cast<T>(spec_.root_scale);
  for (int64_t r = 0; r < rows; ++r) {
    const T* in = x + r * d;
    T* out = scaled + r * d;
    T factor = root, power = 1;
    if (spec_.normalize) {
      // The largest entry is taken out, so that no square over- or underflows.
      T largest = 0, sum = 0;
      for (int64_t c = 0; c < d; ++c)
        largest = std::max(largest, std::abs(in[c]));
      power = largest > 0 ? std::ldexp(T{1}, -std::ilogb(largest)) : T{1};
      for (int64_t c = 0; c < d; ++c) sum += (in[c] * power) * (in[c] * power);
      factor = root / std::sqrt(sum);
    }
    for (int64_t c = 0; c < d; ++c) out[c] = factor * (in[c] * power);
  }
}

template <typename T>
void FeatureRows<T>::Project(const T* x, int64_t rows, const T* omega,
                             T* half_squares, T* mantissa, T* exponent) const {
  const int64_t d = spec_.d, p = spec_.projections;
  MatrixMap<T>(mantissa, rows, p, Eigen::OuterStride<>(f_)).noalias() =
      ConstMatrixMap<T>(x, rows, d, Eigen::OuterStride<>(d)) *
      ConstMatrixMap<T>(omega, p, d, Eigen::OuterStride<>(d)).transpose();
  for (int64_t r = 0; r < rows; ++r)
    half_squares[r] =
        Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>(x + r * d, d)
            .square()
            .sum() /
        2;
  for (int64_t r = 0; r < rows; ++r) {
    const T half_square = half_squares[r];
    T* m = mantissa + r * f_;
    T* k = exponent + r * f_;
    if (spec_.id == FeatureMapId::kTrf) {
      T power = 0;
      const T factor = SplitExpFast(half_square, &power);
      using Array = Eigen::Map<Eigen::Array<T, Eigen::Dynamic, 1>>;
      Array left(m, p), right(m + p, p);
      right = left.cos() * factor;
      left = left.sin() * factor;
      std::fill_n(k, f_, power);
      continue;
    }
    if (spec_.id == FeatureMapId::kPrfHyperbolic)
      for (int64_t a = 0; a < p; ++a)
        m[a + p] = SplitExpFast(-m[a] - half_square, k + a + p);
    for (int64_t a = 0; a < p; ++a)
      m[a] = SplitExpFast(m[a] - half_square, k + a);
  }
}

template <typename T>
void FeatureRows<T>::Dpfp(const T* x, int64_t rows, T* scratch, T* mantissa,
                          T* exponent) const {
  const int64_t d = spec_.d, twice = 2 * d;
  T* u = scratch;
  T* power = scratch + twice;
  for (int64_t r = 0; r < rows; ++r) {
    for (int64_t c = 0; c < d; ++c) {
      const T value = x[r * d + c];
      u[c] = SplitValue(value > 0 ? value : T{0}, power + c);
      u[c + d] = SplitValue(value < 0 ? -value : T{0}, power + c + d);
    }
    for (int64_t v = 1; v <= spec_.nu; ++v) {
      T* m = mantissa + r * f_ + (v - 1) * twice;
      T* k = exponent + r * f_ + (v - 1) * twice;
      // The second factor is u rotated by v: two straight runs.
      const int64_t turn = v % twice;
      for (int64_t i = 0; i < twice - turn; ++i) {
        m[i] = u[i] * u[i + turn];
        k[i] = power[i] + power[i + turn];
      }
      for (int64_t i = twice - turn; i < twice; ++i) {
        m[i] = u[i] * u[i + turn - twice];
        k[i] = power[i] + power[i + turn - twice];
      }
    }
  }
}

template <typename T>
void FeatureRows<T>::Compute(const T* x, int64_t rows, const T* omega,
                             T* scratch, T* mantissa, T* exponent) const {
  T* half_squares = scratch;
  T* rest = scratch + rows;
  if (spec_.normalize || spec_.root_scale != 1) {
    ScaleRows(x, rows, rest);
    x = rest;
    rest += rows * spec_.d;
  }
  const int64_t count = rows * spec_.d;
  switch (spec_.id) {
    case FeatureMapId::kElu1:
      for (int64_t i = 0; i < count; ++i) {
        T below_power, above_power;
        const T y = x[i];
        const T below = SplitExpFast(y < 0 ? y : T{0}, &below_power);
        const T above = SplitValue(y > 0 ? y + 1 : T{1}, &above_power);
        mantissa[i] = y > 0 ? above : below;
        exponent[i] = y > 0 ? above_power : below_power;
      }
      break;
    case FeatureMapId::kRelu:
      for (int64_t i = 0; i < count; ++i)
        mantissa[i] = SplitValue(x[i] > 0 ? x[i] : T{0}, exponent + i);
      break;
    case FeatureMapId::kSikf:
      for (int64_t i = 0; i < count; ++i)
        mantissa[i] = SplitExpFast(x[i], exponent + i);
      break;
    case FeatureMapId::kDpfp:
      Dpfp(x, rows, rest, mantissa, exponent);
      break;
    default:
      Project(x, rows, omega, half_squares, mantissa, exponent);
  }
}

template class FeatureRows<float>;
template class FeatureRows<double>;

}  // namespace subquad
