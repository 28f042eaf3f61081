// Vector code that the kernels of softmax_tiles.cc and gradient_tiles.cc share:
// exponentials, and products in register tiles, up to 6 rows x 4 vectors of
// sums in registers.

#pragma once

#include <hwy/contrib/math/math-inl.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <type_traits>

#include "optimized/softmax/softmax_tiles.h"

namespace subquad::softmax_tiles {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using Vector = hn::Vec<Tag<T>>;
template <typename T>
inline constexpr int64_t kLanes = HWY_LANES(T);

// Sums of a register tile fill 24 of 32 registers, or 12 of 16.
inline constexpr int kRows = 6;
inline constexpr int kVectors = HWY_MAX_BYTES == 64 || HWY_ARCH_ARM_A64 ? 4 : 2;

// Coefficients for 2^r on [-1/2, 1/2], the highest power first: polynomials
// that interpolate (2^r - 1)/r in Chebyshev points, with relative errors of
// 5.1e-9 = 0.09 u and 8.4e-18 = 0.08 u.
template <typename T>
inline constexpr T kPowerOfTwo[] = {};
template <>
inline constexpr float kPowerOfTwo<float>[] = {1.5453162945120690e-4f,
                                               1.3390863364671234e-3f,
                                               9.6180825572778515e-3f,
                                               5.5503571142190778e-2f,
                                               2.4022650760568127e-1f,
                                               6.9314718802622879e-1f,
                                               1.0f};
template <>
inline constexpr double kPowerOfTwo<double>[] = {
    4.4549605981865183938e-10, 7.0725859492692236999e-9,
    1.0178062445845773521e-7,  1.3215442587921689653e-6,
    1.5252733829836118394e-5,  1.5403530441736050155e-4,
    1.3333558146416935310e-3,  9.6181291076068885273e-3,
    5.5504108664821594339e-2,  2.4022650695910098220e-1,
    6.9314718055994530942e-1,  1.0};

// Computes s[v] = exp(s[v] - m[v]) for s <= m, zero below 2^-125 and for -inf.
// The difference is computed first: only the error of s and m matters, and m
// may be any finite number. With x = (s - m) log2 e = n + r and n the nearest
// integer, found by adding a number whose last bit is worth one, n goes into
// the exponent of 2^r. With the roundings of the last two steps 2^x is off by
// less than 2 u.
//
// Each step is done for all vectors before the next: a single vector would wait
// for its own results.
template <typename T, int kV>
HWY_INLINE void ExpOfDifferences(const Vector<T> (&m)[kV], Vector<T> (&s)[kV]) {
  constexpr bool kWide = sizeof(T) == 8;
  constexpr int kFraction = kWide ? 52 : 23;
  const Tag<T> d;
  const hn::RebindToUnsigned<Tag<T>> bits;
  const auto log2e = hn::Set(d, static_cast<T>(1.4426950408889634074));
  const auto round =
      hn::Set(d, static_cast<T>(kWide ? 6755399441055744.0 : 12582912.0));
  const auto least = hn::Set(d, static_cast<T>(kWide ? -1021 : -125));
  constexpr int kTerms = static_cast<int>(std::size(kPowerOfTwo<T>));
  Vector<T> shifted[kV], r[kV], power[kV];
#pragma GCC unroll 8
  for (int v = 0; v < kV; ++v) s[v] = hn::Mul(hn::Sub(s[v], m[v]), log2e);
#pragma GCC unroll 8
  for (int v = 0; v < kV; ++v) shifted[v] = hn::Add(s[v], round);
#pragma GCC unroll 8
  for (int v = 0; v < kV; ++v) r[v] = hn::Sub(s[v], hn::Sub(shifted[v], round));
#pragma GCC unroll 8
  for (int v = 0; v < kV; ++v) power[v] = hn::Set(d, kPowerOfTwo<T>[0]);
#pragma GCC unroll 16
  for (int term = 1; term < kTerms; ++term)
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v)
      power[v] = hn::MulAdd(power[v], r[v], hn::Set(d, kPowerOfTwo<T>[term]));
#pragma GCC unroll 8
  for (int v = 0; v < kV; ++v) {
    const auto exponent =
        hn::ShiftLeft<kFraction>(hn::BitCast(bits, shifted[v]));
    s[v] = hn::IfThenElseZero(
        hn::Ge(s[v], least),
        hn::BitCast(d, hn::Add(hn::BitCast(bits, power[v]), exponent)));
  }
}

// Returns x / sum, or zero where the sum is zero: that of a query that sees no
// key.
template <typename V>
HWY_INLINE V QuotientOrZero(V x, V sum) {
  return hn::IfThenZeroElse(hn::Eq(sum, hn::Zero(hn::DFromV<V>())),
                            hn::Div(x, sum));
}

// Calls work with the number of rows or vectors as a constant.
template <int kMost, typename Work>
HWY_INLINE void WithConstant(int64_t count, const Work& work) {
  if constexpr (kMost > 1) {
    if (count < kMost) return WithConstant<kMost - 1>(count, work);
  }
  work(std::integral_constant<int, kMost>());
}

// Computes sums[x][v] = sum_t a(x, t) b(t, vector v), t < terms, in the order
// of t, where a(x, t) is a[x*stride + t], or with kAcross a[t*stride + x]; row
// t of b is at b + t*b_stride.
template <bool kAcross, int kX, int kV, typename T, typename Load>
HWY_INLINE void Product(const T* HWY_RESTRICT a, int64_t stride,
                        const T* HWY_RESTRICT b, int64_t b_stride,
                        int64_t terms, const Load& load,
                        Vector<T> (&sums)[kX][kV]) {
  const Tag<T> d;
#pragma GCC unroll 8
  for (int x = 0; x < kX; ++x)
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v) sums[x][v] = hn::Zero(d);
  for (int64_t t = 0; t < terms; ++t) {
    Vector<T> row[kV];
#pragma GCC unroll 8
    for (int v = 0; v < kV; ++v)
      row[v] = load(b + t * b_stride + v * kLanes<T>);
#pragma GCC unroll 8
    for (int x = 0; x < kX; ++x) {
      const auto factor =
          hn::Set(d, kAcross ? a[t * stride + x] : a[x * stride + t]);
#pragma GCC unroll 8
      for (int v = 0; v < kV; ++v)
        sums[x][v] = hn::MulAdd(factor, row[v], sums[x][v]);
    }
  }
}

template <typename T>
struct LoadAligned {
  HWY_INLINE Vector<T> operator()(const T* at) const {
    return hn::Load(Tag<T>(), at);
  }
};
template <typename T>
struct LoadAnywhere {
  HWY_INLINE Vector<T> operator()(const T* at) const {
    return hn::LoadU(Tag<T>(), at);
  }
};
template <typename T>
struct LoadFirst {
  int64_t count;
  HWY_INLINE Vector<T> operator()(const T* at) const {
    const Tag<T> d;
#if HWY_MEM_OPS_MIGHT_FAULT  // a masked load reads the whole vector there
    HWY_ALIGN T lanes[kLanes<T>] = {};
    std::copy_n(at, count, lanes);
    return hn::Load(d, lanes);
#else
    return hn::MaskedLoad(hn::FirstN(d, static_cast<size_t>(count)), d, at);
#endif
  }
};

// Calls work(first vector's offset, constant number of vectors) for the
// vectors that hold queries.
template <typename T, typename Work>
HWY_INLINE void ForVectors(const Tile<T>& tile, const Work& work) {
  const int64_t vectors = (tile.rows + kLanes<T> - 1) / kLanes<T>;
  for (int64_t first = 0; first < vectors; first += kVectors)
    WithConstant<kVectors>(vectors - first,
                           [&](auto count) { work(first * kLanes<T>, count); });
}

// Splits [0, count) into nearly equal pieces of at most kRows, the larger
// pieces first. Divides once: a division takes as long as a tenth of a piece.
template <typename Work>
HWY_INLINE void ForRows(int64_t count, const Work& work) {
  const int64_t pieces = (count + kRows - 1) / kRows;
  if (pieces == 0) return;
  const int64_t rows = count / pieces, larger = count - rows * pieces;
  int64_t first = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) {
    const int64_t own = rows + (piece < larger ? 1 : 0);
    WithConstant<kRows>(own, [&](auto constant) { work(first, constant); });
    first += own;
  }
}

}  // namespace subquad::softmax_tiles
