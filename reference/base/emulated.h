// Arithmetic whose rounding is chosen at run time. Random rounding shows how
// large the error of a plain program usually is; a format with fewer digits
// plants the fault of a program that multiplies or adds in that format.
//
// Random rounding is Monte Carlo arithmetic (Parker 1997): every result that is
// not exact is moved by a random part of its last place before it is rounded.
// Exact results stay exact; with `exact_too` they are moved by a random part of
// half a place as well.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <numbers>
#include <type_traits>

namespace subquad {

// Describes how the values of a floating-point type are spaced.
struct Format {
  int digits = 24;               // of the mantissa, including the leading one
  int smallest_exponent = -126;  // of a value with all digits
  double largest = 3.4028234663852886e38;

  static constexpr Format Float64() {
    return {53, -1022, std::numeric_limits<double>::max()};
  }
  static constexpr Format Float32() { return {}; }
  static constexpr Format BFloat16() { return {8, -126, 3.3895e38}; }
  static constexpr Format TensorFloat32() { return {11, -126, 3.4012e38}; }
  static constexpr Format Float16() { return {11, -14, 65504}; }
};

struct Arithmetic {
  Format result = Format::Float32();  // of all results but sums
  Format sum = Format::Float32();     // of sums and differences
  Format factor = Format::Float32();  // factors are rounded to it first
  bool random = false;                // results are rounded at random
  bool exact_too = false;             // rounds exact results at random, too
};

// Sets the arithmetic of Emulated values on this thread for its lifetime.
class ArithmeticScope {
 public:
  ArithmeticScope(const Arithmetic& arithmetic, uint64_t seed)
      : outer_(current_) {
    current_ = {arithmetic, seed, !KeepsFactors(arithmetic)};
  }
  ~ArithmeticScope() { current_ = outer_; }
  ArithmeticScope(const ArithmeticScope&) = delete;
  ArithmeticScope& operator=(const ArithmeticScope&) = delete;

  static long double Result(long double x) {
    return Round(x, current_.arithmetic.result);
  }
  static long double Sum(long double x) {
    return Round(x, current_.arithmetic.sum);
  }
  static long double Factor(long double x) {
    return current_.rounds_factors ? Nearest(x, current_.arithmetic.factor) : x;
  }

 private:
  struct State {
    Arithmetic arithmetic;
    uint64_t seed;
    bool rounds_factors;  // false where rounding changes no factor
  };

  static bool KeepsFactors(const Arithmetic& arithmetic) {
    const auto takes = [&](const Format& format) {
      return format.digits <= arithmetic.factor.digits &&
             format.smallest_exponent >= arithmetic.factor.smallest_exponent &&
             format.largest <= arithmetic.factor.largest;
    };
    return takes(arithmetic.result) && takes(arithmetic.sum);
  }

  // Replaces std::ilogb and std::ldexp(1, exponent), which took most of the
  // time: an x87 value stores its exponent in its last two bytes.
  static constexpr int kDigits = std::numeric_limits<long double>::digits;
  static constexpr bool kIsX87 = kDigits == 64;
  static constexpr int kX87Bias = 16383;
  struct X87 {
    uint64_t mantissa;
    uint16_t exponent;
  };
  static constexpr size_t kX87Bytes = 10;
  static constexpr int kNotFinite = 0x7FFF - kX87Bias;

  static int ExponentOf(long double x) {
    if constexpr (!kIsX87) return std::isfinite(x) ? std::ilogb(x) : kNotFinite;
    X87 bits;
    std::memcpy(&bits, &x, kX87Bytes);
    return (bits.exponent & 0x7FFF) - kX87Bias;
  }

  static long double PowerOfTwo(int exponent) {
    if constexpr (!kIsX87) return std::ldexp(1.0L, exponent);
    const X87 bits{uint64_t{1} << 63,
                   static_cast<uint16_t>(exponent + kX87Bias)};
    long double power = 0;
    std::memcpy(&power, &bits, kX87Bytes);
    return power;
  }

  // Computes PowerOfTwo for exponents from 0 to kDigits - 1.
  static long double PowerBelow(int exponent) {
    if constexpr (!kIsX87) return PowerOfTwo(exponent);
    return static_cast<long double>(uint64_t{1} << exponent);
  }

  static long double Nearest(long double x, const Format& format) {
    if (x == 0) return x;
    int digits = format.digits;
    const int exponent = ExponentOf(x);
    if (exponent == kNotFinite) return x;
    if (exponent < format.smallest_exponent) {
      digits -= format.smallest_exponent - exponent;
      if (digits < 1) {
        const long double least =
            PowerOfTwo(format.smallest_exponent - format.digits + 1);
        return std::abs(x) > least / 2 ? std::copysign(least, x) : x * 0;
      }
    }
    // Veltkamp's splitting keeps the upper digits of x.
    const long double spread = x * (PowerBelow(kDigits - digits) + 1);
    const long double rounded = spread - (spread - x);
    return std::abs(rounded) > static_cast<long double>(format.largest)
               ? std::copysign(std::numeric_limits<long double>::infinity(), x)
               : rounded;
  }

  static long double Round(long double x, const Format& format) {
    const long double nearest = Nearest(x, format);
    const Arithmetic& arithmetic = current_.arithmetic;
    if (x == 0 || !arithmetic.random || (nearest == x && !arithmetic.exact_too))
      return nearest;
    const int exponent = ExponentOf(x);
    if (exponent == kNotFinite || ExponentOf(nearest) == kNotFinite)
      return nearest;
    // Chooses the neighbour on the other side of x; the nearer that is, the
    // more often.
    const long double last_place = PowerOfTwo(
        std::max(exponent, format.smallest_exponent) - format.digits + 1);
    const long double error =
        nearest == x ? (Uniform() - 0.5L) * last_place : x - nearest;
    if (Uniform() * last_place >= std::abs(error)) return nearest;
    return Nearest(nearest + std::copysign(last_place, error), format);
  }

  // Returns the next value of splitmix64, scaled to [0, 1).
  static long double Uniform() {
    uint64_t z = current_.seed += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    // Signed integers are converted in one instruction, unsigned ones are not.
    return static_cast<long double>(static_cast<int64_t>((z ^ z >> 31) >> 1)) *
           0x1p-63L;
  }

  static inline thread_local State current_{{}, 0, false};
  State outer_;
};

template <typename T>
concept BuiltIn = std::is_arithmetic_v<T>;

class Emulated {
 public:
  Emulated() = default;
  template <BuiltIn Number>
  Emulated(Number value)
      : value_(ArithmeticScope::Result(static_cast<long double>(value))) {}
  operator long double() const { return value_; }

  friend Emulated operator*(Emulated x, Emulated y) {
    return Emulated(ArithmeticScope::Factor(x.value_) *
                    ArithmeticScope::Factor(y.value_));
  }
  friend Emulated operator/(Emulated x, Emulated y) {
    return Emulated(x.value_ / y.value_);
  }
  friend Emulated operator+(Emulated x, Emulated y) {
    return Sum(x.value_ + y.value_);
  }
  friend Emulated operator-(Emulated x, Emulated y) {
    return Sum(x.value_ - y.value_);
  }
  // Mixed operands need overloads of their own: the built-in operators would
  // match equally well, and the call would be ambiguous.
  template <BuiltIn Number>
  friend Emulated operator*(Emulated x, Number y) {
    return x * Emulated(y);
  }
  template <BuiltIn Number>
  friend Emulated operator*(Number x, Emulated y) {
    return Emulated(x) * y;
  }
  template <BuiltIn Number>
  friend Emulated operator/(Emulated x, Number y) {
    return x / Emulated(y);
  }
  template <BuiltIn Number>
  friend Emulated operator/(Number x, Emulated y) {
    return Emulated(x) / y;
  }
  template <BuiltIn Number>
  friend Emulated operator+(Emulated x, Number y) {
    return x + Emulated(y);
  }
  template <BuiltIn Number>
  friend Emulated operator+(Number x, Emulated y) {
    return Emulated(x) + y;
  }
  template <BuiltIn Number>
  friend Emulated operator-(Emulated x, Number y) {
    return x - Emulated(y);
  }
  template <BuiltIn Number>
  friend Emulated operator-(Number x, Emulated y) {
    return Emulated(x) - y;
  }
  Emulated operator-() const {
    Emulated negative;
    negative.value_ = -value_;
    return negative;
  }
  Emulated& operator*=(Emulated x) { return *this = *this * x; }
  Emulated& operator/=(Emulated x) { return *this = *this / x; }
  Emulated& operator+=(Emulated x) { return *this = *this + x; }
  Emulated& operator-=(Emulated x) { return *this = *this - x; }

 private:
  static Emulated Sum(long double value) {
    Emulated sum;
    sum.value_ = ArithmeticScope::Sum(value);
    return sum;
  }

  long double value_ = 0;
};

}  // namespace subquad

template <>
inline constexpr long double std::numbers::log2e_v<subquad::Emulated> =
    std::numbers::log2e_v<long double>;
template <>
inline constexpr long double std::numbers::pi_v<subquad::Emulated> =
    std::numbers::pi_v<long double>;
