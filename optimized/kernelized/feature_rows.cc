#include "optimized/kernelized/feature_rows.h"

#include <cmath>

#include "optimized/base/elementwise.h"
#include "optimized/base/lanes.h"
#include "optimized/base/product.h"

namespace subquad {
namespace {

// Returns max over c of |x[c]|.
template <typename T>
T LargestSize(const T* x, int64_t count) {
  constexpr int64_t kCount = kLaneCount<T>;
  Lanes<T> sizes = {};
  int64_t c = 0;
  for (; c + kCount <= count; c += kCount) {
    const Lanes<T> value = LoadLanes(x + c);
    const Lanes<T> size = value < 0 ? -value : value;
    sizes = size > sizes ? size : sizes;
  }
  T largest = 0;
  for (; c < count; ++c) largest = std::max(largest, std::abs(x[c]));
  for (int64_t l = 0; l < kCount; ++l) largest = std::max(largest, sizes[l]);
  return largest;
}

// Returns the sum over c of (factor x[c])^2, in an order that does not depend
// on the address of x.
template <typename T>
T SumOfSquares(const T* x, T factor, int64_t count) {
  constexpr int64_t kCount = kLaneCount<T>;
  Lanes<T> sums = {};
  int64_t c = 0;
  for (; c + kCount <= count; c += kCount) {
    const Lanes<T> value = LoadLanes(x + c) * factor;
    sums += value * value;
  }
  T sum = 0;
  for (; c < count; ++c) sum += (x[c] * factor) * (x[c] * factor);
  for (int64_t l = 0; l < kCount; ++l) sum += sums[l];
  return sum;
}

}  // namespace

template <typename T>
void FeatureRows<T>::ScaleRows(const T* x, int64_t rows, T* scaled) const {
  const int64_t d = spec_.d;
  const T root = static_cast<T>(spec_.root_scale);
  for (int64_t r = 0; r < rows; ++r) {
    const T* in = x + r * d;
    T* out = scaled + r * d;
    T factor = root, power = 1;
    if (spec_.normalize) {
      // Divides by the largest entry's power of two, so that no square over- or
      // underflows.
      const T largest = LargestSize(in, d);
      power = largest > 0 ? std::ldexp(T{1}, -std::ilogb(largest)) : T{1};
      factor = root / std::sqrt(SumOfSquares(in, power, d));
    }
    for (int64_t c = 0; c < d; ++c) out[c] = factor * (in[c] * power);
  }
}

template <typename T>
void FeatureRows<T>::Products(const T* x, int64_t rows, const T* omega,
                              T* half_squares, T* products) const {
  const int64_t d = spec_.d, p = spec_.projections;
  Multiply(T{1}, RowsOf(x, rows, d), RowsOf(omega, p, d).transpose(),
           RowsOf(products, rows, p, f_));
  for (int64_t r = 0; r < rows; ++r)
    half_squares[r] =
        Eigen::Map<const Eigen::Array<T, Eigen::Dynamic, 1>>(x + r * d, d)
            .square()
            .sum() /
        2;
}

template <typename T>
void FeatureRows<T>::Project(const T* x, int64_t rows, const T* omega,
                             T* half_squares, T* mantissa, T* exponent) const {
  const int64_t p = spec_.projections;
  Products(x, rows, omega, half_squares, mantissa);
  for (int64_t r = 0; r < rows; ++r) {
    const T half_square = half_squares[r];
    T* m = mantissa + r * f_;
    T* k = exponent + r * f_;
    if (spec_.id == FeatureMapId::kTrf) {
      T power = 0;
      const T factor = SplitExpFast(half_square, &power);
      Elementwise(m, p, m + p,
                  [&](const auto& angle) { return angle.cos() * factor; });
      Elementwise(m, p, m,
                  [&](const auto& angle) { return angle.sin() * factor; });
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
      // The second factor is u rotated by v: two contiguous runs.
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

// Returns the rows that the maps are applied to; if they are new, `rest` moves
// behind them.
template <typename T>
const T* FeatureRows<T>::Scaled(const T* x, int64_t rows, T** rest) const {
  if (!spec_.normalize && spec_.root_scale == 1) return x;
  T* scaled = *rest;
  ScaleRows(x, rows, scaled);
  *rest += rows * spec_.d;
  return scaled;
}

template <typename T>
void FeatureRows<T>::Compute(const T* x, int64_t rows, const T* omega,
                             T* scratch, T* mantissa, T* exponent) const {
  T* half_squares = scratch;
  T* rest = scratch + rows;
  x = Scaled(x, rows, &rest);
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
    case FeatureMapId::kIdentity:
      for (int64_t i = 0; i < count; ++i)
        mantissa[i] = SplitValue(x[i], exponent + i);
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

namespace {

// Returns exp(y), bit for bit as SplitExpFast does, for plain features.
template <typename T>
inline T PlainExp(T y) {
  using Bits = FloatBits<T>;
  T exponent;
  const T mantissa = SplitExpWithin(y, &exponent);
  const T power = std::bit_cast<T>(static_cast<typename Bits::Integer>(
      std::bit_cast<typename Bits::Integer>(exponent +
                                            (Bits::kRound + Bits::kBias))
      << Bits::kFraction));
  return mantissa * power;
}

// Logarithms of the smallest and the largest plain feature.
template <typename T>
inline constexpr T kLeastLogarithm =
    static_cast<T>(kPlainLow* std::numbers::ln2);
template <typename T>
inline constexpr T kLargestLogarithm =
    static_cast<T>(kPlainHigh* std::numbers::ln2);
template <typename T>
inline constexpr T kLeastPlain = 1 / static_cast<T>(1 << -kPlainLow);
template <typename T>
inline constexpr T kLargestPlain = static_cast<T>(1 << kPlainHigh);

// Computes values[i] = make(x[i]), for any x; returns whether all x are in
// [low, high]. Checking arguments instead of values avoids clamping every
// exponential to its range first.
template <typename T, typename Make>
inline bool FillWithin(T low, T high, const T* x, int64_t count, T* values,
                       const Make& make) {
  int outside = 0;
  for (int64_t i = 0; i < count; ++i) {
    const T y = x[i];
    values[i] = make(y);
    outside |= static_cast<int>(!(y >= low)) | static_cast<int>(!(y <= high));
  }
  return outside == 0;
}

}  // namespace

template <typename T>
bool FeatureRows<T>::Plain(const T* x, int64_t rows, const T* omega, T* scratch,
                           T* values) const {
  T* half_squares = scratch;
  T* rest = scratch + rows;
  const int64_t count = rows * spec_.d;
  const T low = kLeastLogarithm<T>, high = kLargestLogarithm<T>;
  switch (spec_.id) {
    case FeatureMapId::kElu1:
      x = Scaled(x, rows, &rest);
      return FillWithin(low, kLargestPlain<T> - 1, x, count, values, [](T y) {
        return (y > 0 ? y : T{0}) + PlainExp(y > 0 ? T{0} : y);
      });
    case FeatureMapId::kSikf:
      x = Scaled(x, rows, &rest);
      return FillWithin(low, high, x, count, values, PlainExp<T>);
    case FeatureMapId::kRelu: {
      x = Scaled(x, rows, &rest);
      int outside = 0;
      for (int64_t i = 0; i < count; ++i) {
        const T y = x[i];
        values[i] = y > 0 ? y : T{0};
        outside |=
            static_cast<int>(y > 0) & static_cast<int>(y < kLeastPlain<T>);
        outside |= static_cast<int>(!(y <= kLargestPlain<T>));
      }
      return outside == 0;
    }
    case FeatureMapId::kPrf: {
      x = Scaled(x, rows, &rest);
      Products(x, rows, omega, half_squares, values);
      bool plain = true;
      for (int64_t r = 0; r < rows; ++r) {
        T* row = values + r * f_;
        for (int64_t a = 0; a < f_; ++a) row[a] -= half_squares[r];
        plain &= FillWithin(low, high, row, f_, row, PlainExp<T>);
      }
      return plain;
    }
    default:
      return false;
  }
}

template class FeatureRows<float>;
template class FeatureRows<double>;

}  // namespace subquad
