// Features of many rows at once, as mantissas and exponents of two (see
// reference/contract/feature_range.h), and the scales that bring them into
// range.
//
// The exponents are integers stored in the type T, so that adding, comparing
// and turning them into powers of two stays in vector registers. Scaling is
// exact: algorithms that choose different scales still see the same features.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <numbers>

#include "optimized/base/lanes.h"
#include "reference/contract/feature_range.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad {

template <typename T>
struct FloatBits;
template <>
struct FloatBits<float> {
  using Integer = uint32_t;
  using Signed = int32_t;
  static constexpr int kFraction = 23;
  static constexpr int kBias = 127;
  static constexpr float kRound = 0x1.8p23f;
};
template <>
struct FloatBits<double> {
  using Integer = uint64_t;
  using Signed = int64_t;
  static constexpr int kFraction = 52;
  static constexpr int kBias = 1023;
  static constexpr double kRound = 0x1.8p52;
};

// Returns 2^t for an integer t, at most 127 (1023 in float64); zero below the
// normal range.
template <typename T>
inline T PowerOfTwo(T t) {
  using Bits = FloatBits<T>;
  const T least = -Bits::kBias;
  const T clamped = t > least ? t : least;
  // Adding the rounding constant puts the integer into the lowest bits.
  const T shifted = clamped + (Bits::kRound + Bits::kBias);
  return std::bit_cast<T>(static_cast<typename Bits::Integer>(
      std::bit_cast<typename Bits::Integer>(shifted) << Bits::kFraction));
}

// Computes exp(y) = mantissa * 2^exponent for |y| <= kLogarithmLimit. The first
// part of ln 2 is short, so that y - exponent ln 2 loses nothing; the
// polynomial is accurate to less than u / 10.
template <typename T>
inline T SplitExpWithin(T y, T* exponent) {
  using Bits = FloatBits<T>;
  constexpr T kLow =
      static_cast<T>(std::numbers::ln2_v<long double> - kLn2High);
  const T steps = (y * std::numbers::log2e_v<T> + Bits::kRound) - Bits::kRound;
  const T r = (y - steps * static_cast<T>(kLn2High)) - steps * kLow;
  constexpr int kDegree = sizeof(T) == 4 ? 7 : 13;
  constexpr auto kCoefficients = [] {
    std::array<T, kDegree + 1> c{};
    long double factorial = 1;
    for (int i = 0; i <= kDegree; ++i) {
      if (i > 0) factorial *= i;
      c[i] = static_cast<T>(1 / factorial);
    }
    return c;
  }();
  T sum = kCoefficients[kDegree];
  for (int i = kDegree - 1; i >= 0; --i) sum = sum * r + kCoefficients[i];
  *exponent = steps;
  return sum;
}

// Computes exp(y) for any y, clamped to the range.
template <typename T>
inline T SplitExpFast(T y, T* exponent) {
  constexpr T kLimit = static_cast<T>(kLogarithmLimit);
  y = y > -kLimit ? y : -kLimit;
  y = y < kLimit ? y : kLimit;
  return SplitExpWithin(y, exponent);
}

// The exponent of a feature that is zero, and a limit that all others exceed.
template <typename T>
inline constexpr T kNoExponent = static_cast<T>(kExponentOfZero);
template <typename T>
inline constexpr T kLeastExponent = static_cast<T>(kLeastExponentSum);

// Computes value = mantissa * 2^exponent with 1 <= |mantissa| < 2, or zero.
template <typename T>
inline T SplitValue(T value, T* exponent) {
  using Bits = FloatBits<T>;
  using Integer = typename Bits::Integer;
  constexpr Integer kMask =
      (Integer{1} << (sizeof(T) * 8 - 1 - Bits::kFraction)) - 1;
  const Integer bits = std::bit_cast<Integer>(value);
  const Integer field = bits >> Bits::kFraction & kMask;
  const T mantissa = std::bit_cast<T>(
      static_cast<Integer>((bits & ~(kMask << Bits::kFraction)) |
                           (Integer{Bits::kBias} << Bits::kFraction)));
  const T power = static_cast<T>(static_cast<typename Bits::Signed>(field)) -
                  static_cast<T>(Bits::kBias);
  *exponent = field == 0 ? kNoExponent<T> : power;
  return field == 0 ? T{0} : mantissa;
}

// Features are plain if each is 0 or within 2^kPlainLow .. 2^kPlainHigh: those
// of queries and keys can then be multiplied and added up without scaling, with
// room for 2^26 keys and for values of 2^-90 .. 2^80.
inline constexpr int kPlainLow = -16;
inline constexpr int kPlainHigh = 8;

template <typename T>
class FeatureRows {
 public:
  explicit FeatureRows(const FeatureMapSpec& spec)
      : spec_(spec), f_(spec.features()) {}

  int64_t features() const { return f_; }
  int64_t ScratchSize(int64_t rows) const {
    return rows * (spec_.d + 1) +
           (spec_.id == FeatureMapId::kDpfp ? 4 * spec_.d : 0);
  }
  // Returns the flops of one row by the usual count, an exponential as 16.
  double RowFlops() const {
    return 2.0 * static_cast<double>(spec_.projections * spec_.d) +
           20.0 * static_cast<double>(f_);
  }

  // Maps x [rows, d] to mantissa and exponent [rows, f]; omega as the map has
  // it.
  void Compute(const T* x, int64_t rows, const T* omega, T* scratch,
               T* mantissa, T* exponent) const;

  // Computes mantissa * 2^exponent [rows, f] itself, in about half the time, if
  // the features are plain. Otherwise returns false, and `values` is
  // unspecified.
  bool Plain(const T* x, int64_t rows, const T* omega, T* scratch,
             T* values) const;

 private:
  const T* Scaled(const T* x, int64_t rows, T** rest) const;
  void ScaleRows(const T* x, int64_t rows, T* scaled) const;
  // Computes omega x of all rows [rows, f], and |x|^2 / 2 of each.
  void Products(const T* x, int64_t rows, const T* omega, T* half_squares,
                T* products) const;
  void Project(const T* x, int64_t rows, const T* omega, T* half_squares,
               T* mantissa, T* exponent) const;
  void Dpfp(const T* x, int64_t rows, T* scratch, T* mantissa,
            T* exponent) const;

  const FeatureMapSpec spec_;
  const int64_t f_;
};

extern template class FeatureRows<float>;
extern template class FeatureRows<double>;

// Returns max over a of x[a] + y[a].
template <typename T>
inline T LargestSum(const T* x, const T* y, int64_t count) {
  constexpr int64_t kCount = kLaneCount<T>;
  const T least = 2 * kNoExponent<T>;
  // Uses two maxima, as each has to wait for its own previous value.
  Lanes<T> even = Lanes<T>{} + least, odd = even;
  int64_t a = 0;
  for (; a + 2 * kCount <= count; a += 2 * kCount) {
    const Lanes<T> left = LoadLanes(x + a) + LoadLanes(y + a);
    const Lanes<T> right =
        LoadLanes(x + a + kCount) + LoadLanes(y + a + kCount);
    even = left > even ? left : even;
    odd = right > odd ? right : odd;
  }
  even = odd > even ? odd : even;
  T largest = least;
  for (; a < count; ++a) largest = std::max(largest, x[a] + y[a]);
  for (int64_t l = 0; l < kCount; ++l) largest = std::max(largest, even[l]);
  return largest;
}

// Returns sum over a of mq[a] mk[a] 2^(eq[a] + ek[a] - top), using explicit
// lanes.
template <typename T>
inline T PairProduct(const T* mq, const T* eq, const T* mk, const T* ek, T top,
                     int64_t f) {
  constexpr int64_t kLanes = kLaneCount<T>;
  T lanes[kLanes] = {};
  int64_t a = 0;
  for (; a + kLanes <= f; a += kLanes)
    for (int64_t l = 0; l < kLanes; ++l)
      lanes[l] +=
          mq[a + l] * mk[a + l] * PowerOfTwo(eq[a + l] + ek[a + l] - top);
  for (int64_t l = 0; a < f; ++a, ++l)
    lanes[l] += mq[a] * mk[a] * PowerOfTwo(eq[a] + ek[a] - top);
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

// The scale 2^scale[a] of the key features in a state: 1 if a feature's first
// key is plain, else that of this key. A later key may exceed it by 2^kSlack;
// beyond that the state is brought to a new scale. `live` is the maximum over
// the keys so far, from which queries get their scale; neither depends on
// future values. Plain keys and queries stay unscaled, which changes no bit of
// a result: scales are powers of two.
template <typename T>
class RunningKeyScale {
 public:
  // Features of up to 2^40 on both sides of 2^26 terms leave room for values of
  // 2^60.
  static constexpr T kSlack = 40;

  // Both arrays have shape [f].
  RunningKeyScale(T* scale, T* live, int64_t f)
      : scale_(scale), live_(live), f_(f) {}

  void Clear() {
    std::fill_n(scale_, f_, kNoExponent<T>);
    std::fill_n(live_, f_, kNoExponent<T>);
  }
  const T* scale() const { return scale_; }
  const T* live() const { return live_; }

  // True if a key with these exponents is in range.
  bool Fits(const T* exponent) const {
    int outside = 0;
    for (int64_t a = 0; a < f_; ++a) {
      const T over = exponent[a] - scale_[a];
      // A feature's first key must not be far below a guessed scale.
      const T under = live_[a] > kLeastExponent<T> ? T{0} : -over;
      const T larger = over > under ? over : under;
      const int there = exponent[a] > kLeastExponent<T>;
      outside |= there & static_cast<int>(larger > kSlack);
    }
    return outside == 0;
  }

  // True if plain keys and queries need no scaling, which is so while all keys
  // were plain.
  bool Plain() const {
    int other = 0;
    for (int64_t a = 0; a < f_; ++a) {
      const int there = live_[a] > kLeastExponent<T>;
      const int scaled = scale_[a] != 0, large = live_[a] > T{kPlainHigh};
      other |= there & (scaled | large);
    }
    return other == 0;
  }

  // Records plain keys [rows, f] without scaling. `largest` [f] is scratch
  // space.
  void SeePlain(const T* values, int64_t rows, T* largest) {
    std::fill_n(largest, f_, T{0});
    for (int64_t j = 0; j < rows; ++j)
      for (int64_t a = 0; a < f_; ++a) {
        const T value = values[j * f_ + a];
        largest[a] = value > largest[a] ? value : largest[a];
      }
    for (int64_t a = 0; a < f_; ++a) SplitValue(largest[a], largest + a);
    See(largest);
    std::fill_n(scale_, f_, T{0});
  }

  // Raises the scale so that the key fits; factor[a] is the factor that a state
  // of the old scale must be multiplied by.
  void Raise(const T* exponent, T* factor) {
    T top = kNoExponent<T>;
    for (int64_t a = 0; a < f_; ++a) {
      const bool was = live_[a] > kLeastExponent<T>;
      const T old = scale_[a];
      const bool plain =
          exponent[a] >= T{kPlainLow - 1} && exponent[a] <= T{kPlainHigh};
      const T first = plain ? T{0} : exponent[a];
      scale_[a] = was ? std::max(old, exponent[a]) : first;
      factor[a] = was ? PowerOfTwo(old - scale_[a]) : T{1};
      top = std::max(top, scale_[a]);
    }
    // Guesses the scale of features without any key so far: they will probably
    // be near the others.
    for (int64_t a = 0; a < f_; ++a)
      if (!(scale_[a] > kLeastExponent<T>)) scale_[a] = top;
  }

  void See(const T* exponent) {
    for (int64_t a = 0; a < f_; ++a)
      live_[a] = exponent[a] > live_[a] ? exponent[a] : live_[a];
  }

  // Computes features of a key in this scale.
  void KeyValues(const T* mantissa, const T* exponent, T* values) const {
    for (int64_t a = 0; a < f_; ++a)
      values[a] = mantissa[a] * PowerOfTwo(exponent[a] - scale_[a]);
  }

  // Computes features of a query for keys in this scale, up to a power of two
  // for the whole row, whose exponent it returns: products of keys and queries
  // are larger by that factor. A feature without keys so far may have any
  // value.
  T QueryValues(const T* mantissa, const T* exponent, T* values) const {
    const T top = LargestSum(exponent, live_, f_);
    for (int64_t a = 0; a < f_; ++a) {
      const T power = exponent[a] + scale_[a] - top;
      values[a] = mantissa[a] * PowerOfTwo(power < kSlack ? power : kSlack);
    }
    return top;
  }

 private:
  T* scale_;
  T* live_;
  int64_t f_;
};

}  // namespace subquad
