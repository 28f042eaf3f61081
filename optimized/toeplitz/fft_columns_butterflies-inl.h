// Butterflies of fft_columns.h: one radix of one row of every leg, in
// registers.
//
// y_q = sum_j x_j omega^j zeta^(+-jq), zeta = exp(2 pi i / R), where omega is
// given by the powers that each radix names.
//
// Error, to first order in the unit roundoff u. A butterfly y = a + w b,
// z = 2a - y makes errors |dy| <= u (2|y| + |b|) and |dz| <= |dy| + u |z|; with
// S^2 = |y|^2 + |z|^2 = 2 (|a|^2 + |b|^2) that is at most
// u (2 sqrt(2) |y| + sqrt(2) |b| + |z|) <= 4 u S in 2-norm, and the rounding of
// w adds less than u S. So a transform of N points errs by at most
// 5 u log2(N) relative to its exact 2-norm (radices 3 and 5 err less per
// binary level). With E the error of all three transforms and the product,
// ||dV^||_2 <= E sqrt(N) ||v||_2 and ||W^||_2 <= sqrt(N) ||w||_2,
// Cauchy-Schwarz over the N terms of the last sum bounds each element of the
// result:
//   |d out[i]| <= 16 u log2(N) ||w||_2 ||v||_2.
// Errors that are independent add as squares: measured on white data, the
// 2-norm of a whole column's error is u sqrt(log2 N) ||w||_2 ||v||_2 to 20 %.

#pragma once

#include <hwy/highway.h>

#include <cstdint>
#include <utility>

namespace subquad::fft_columns {

namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
using Tag = hn::ScalableTag<T>;
template <typename T>
using Vector = hn::Vec<Tag<T>>;

template <typename T>
struct Complex {
  Vector<T> re, im;
};

template <typename T>
HWY_INLINE int64_t Lanes() {
  return static_cast<int64_t>(hn::Lanes(Tag<T>()));
}

template <typename T>
HWY_INLINE Complex<T> LoadPair(const T* pair) {
  const Tag<T> d;
  return {hn::Load(d, pair), hn::Load(d, pair + Lanes<T>())};
}

template <typename T>
HWY_INLINE void StorePair(const Complex<T>& x, T* pair) {
  const Tag<T> d;
  hn::Store(x.re, d, pair);
  hn::Store(x.im, d, pair + Lanes<T>());
}

template <typename T>
HWY_INLINE Complex<T> Constant(const T* p) {
  const Tag<T> d;
  return {hn::Set(d, p[0]), hn::Set(d, p[1])};
}

// Twiddles of a node: the same in every lane or, if each lane is a node of its
// own, the entries of the nodes `stride` apart.
template <typename T>
struct Broadcast {
  const T* base;
  HWY_INLINE Complex<T> operator()(int i) const {
    return Constant(base + 2 * i);
  }
};

template <typename T>
using Index = hn::Vec<hn::RebindToSigned<Tag<T>>>;

template <typename T>
struct Gather {
  const T* base;
  Index<T> index;
  HWY_INLINE Complex<T> operator()(int i) const {
    const Tag<T> d;
    return {hn::GatherIndex(d, base + 2 * i, index),
            hn::GatherIndex(d, base + 2 * i + 1, index)};
  }
};

template <typename T>
HWY_INLINE Complex<T> Times(const Complex<T>& a, const Complex<T>& w) {
  return {hn::NegMulAdd(a.im, w.im, hn::Mul(a.re, w.re)),
          hn::MulAdd(a.im, w.re, hn::Mul(a.re, w.im))};
}

// Computes a, b <- a + w b, a - w b.
template <typename T>
HWY_INLINE void AddTimes(Complex<T>& a, Complex<T>& b, const Complex<T>& w) {
  const auto two = hn::Set(Tag<T>(), T{2});
  const auto re = hn::NegMulAdd(w.im, b.im, hn::MulAdd(w.re, b.re, a.re));
  const auto im = hn::MulAdd(w.im, b.re, hn::MulAdd(w.re, b.im, a.im));
  b = {hn::MulSub(two, a.re, re), hn::MulSub(two, a.im, im)};
  a = {re, im};
}

// Computes a, b <- a + s i w b, a - s i w b with s = kSign.
template <int kSign, typename T>
HWY_INLINE void AddTimesI(Complex<T>& a, Complex<T>& b, const Complex<T>& w) {
  const auto two = hn::Set(Tag<T>(), T{2});
  Vector<T> re, im;
  if constexpr (kSign > 0) {
    re = hn::NegMulAdd(w.im, b.re, hn::NegMulAdd(w.re, b.im, a.re));
    im = hn::NegMulAdd(w.im, b.im, hn::MulAdd(w.re, b.re, a.im));
  } else {
    re = hn::MulAdd(w.im, b.re, hn::MulAdd(w.re, b.im, a.re));
    im = hn::MulAdd(w.im, b.im, hn::NegMulAdd(w.re, b.re, a.im));
  }
  b = {hn::MulSub(two, a.re, re), hn::MulSub(two, a.im, im)};
  a = {re, im};
}

// Computes a, b <- a + b, a - b.
template <typename T>
HWY_INLINE void AddSub(Complex<T>& a, Complex<T>& b) {
  const Complex<T> sum = {hn::Add(a.re, b.re), hn::Add(a.im, b.im)};
  b = {hn::Sub(a.re, b.re), hn::Sub(a.im, b.im)};
  a = sum;
}

// Computes a, b <- a + s i b, a - s i b.
template <int kSign, typename T>
HWY_INLINE void AddSubI(Complex<T>& a, Complex<T>& b) {
  const Complex<T> plus = {hn::Sub(a.re, b.im), hn::Add(a.im, b.re)};
  const Complex<T> minus = {hn::Add(a.re, b.im), hn::Sub(a.im, b.re)};
  a = kSign > 0 ? plus : minus;
  b = kSign > 0 ? minus : plus;
}

// Computes a, b <- a + w b, a - w b for real a and b (imaginary parts not set
// yet).
template <typename T>
HWY_INLINE void AddTimesReal(Complex<T>& a, Complex<T>& b,
                             const Complex<T>& w) {
  const auto real = a.re;
  a = {hn::MulAdd(w.re, b.re, real), hn::Mul(w.im, b.re)};
  b = {hn::NegMulAdd(w.re, b.re, real), hn::Neg(a.im)};
}

// The legs of one butterfly and its twiddles, by radix. `Load` fills the legs,
// `Run` transforms them, `Leg(q)` is output q; everything unrolls to registers.
template <typename T, int kRadix>
struct Butterfly;

template <typename T>
struct Butterfly<T, 8> {
  static constexpr int kConstants = 8;  // w^4, w^2, w, w zeta_8^(+-1)
  Complex<T> x0, x1, x2, x3, x4, x5, x6, x7;

  struct Twiddles {
    Complex<T> w4, w2, w1, w3;
    template <class At>
    explicit HWY_INLINE Twiddles(const At& at)
        : w4(at(0)), w2(at(1)), w1(at(2)), w3(at(3)) {}
  };

  template <class Input>
  HWY_INLINE void Load(const Input& row) {
    x0 = row(0), x1 = row(1), x2 = row(2), x3 = row(3);
    x4 = row(4), x5 = row(5), x6 = row(6), x7 = row(7);
  }
  template <class Output>
  HWY_INLINE void Store(const Output& row) const {
    row(0, x0), row(4, x1), row(2, x2), row(6, x3);
    row(1, x4), row(5, x5), row(3, x6), row(7, x7);
  }
  HWY_INLINE void Reorder() {  // so that leg q is output q
    const Complex<T> y1 = x4, y3 = x6, y4 = x1, y6 = x3;
    x1 = y1, x3 = y3, x4 = y4, x6 = y6;
  }
  template <int kSign>
  HWY_INLINE void Rest(const Twiddles& t) {
    AddTimes(x0, x2, t.w2);
    AddTimes(x1, x3, t.w2);
    AddTimesI<kSign>(x4, x6, t.w2);
    AddTimesI<kSign>(x5, x7, t.w2);
    AddTimes(x0, x1, t.w1);
    AddTimesI<kSign>(x2, x3, t.w1);
    AddTimes(x4, x5, t.w3);
    AddTimesI<kSign>(x6, x7, t.w3);
  }
  template <int kSign>
  HWY_INLINE void Run(const Twiddles& t) {
    AddTimes(x0, x4, t.w4);
    AddTimes(x1, x5, t.w4);
    AddTimes(x2, x6, t.w4);
    AddTimes(x3, x7, t.w4);
    Rest<kSign>(t);
  }
  HWY_INLINE void RunReal(const Twiddles& t) {
    AddTimesReal(x0, x4, t.w4);
    AddTimesReal(x1, x5, t.w4);
    AddTimesReal(x2, x6, t.w4);
    AddTimesReal(x3, x7, t.w4);
    Rest<1>(t);
  }
  template <int kSign>
  HWY_INLINE void RunPlain() {
    const Tag<T> d;
    constexpr T kHalfRoot = T(0.70710678118654752440L);
    const Complex<T> zeta = {hn::Set(d, kHalfRoot),
                             hn::Set(d, kSign * kHalfRoot)};
    AddSub(x0, x4);
    AddSub(x1, x5);
    AddSub(x2, x6);
    AddSub(x3, x7);
    AddSub(x0, x2);
    AddSub(x1, x3);
    AddSubI<kSign>(x4, x6);
    AddSubI<kSign>(x5, x7);
    AddSub(x0, x1);
    AddSubI<kSign>(x2, x3);
    AddTimes(x4, x5, zeta);
    AddTimesI<kSign>(x6, x7, zeta);
  }
};

template <typename T>
struct Butterfly<T, 4> {
  static constexpr int kConstants = 4;  // w^2, w
  Complex<T> x0, x1, x2, x3;

  struct Twiddles {
    Complex<T> w2, w1;
    template <class At>
    explicit HWY_INLINE Twiddles(const At& at) : w2(at(0)), w1(at(1)) {}
  };

  template <class Input>
  HWY_INLINE void Load(const Input& row) {
    x0 = row(0), x1 = row(1), x2 = row(2), x3 = row(3);
  }
  template <class Output>
  HWY_INLINE void Store(const Output& row) const {
    row(0, x0), row(2, x1), row(1, x2), row(3, x3);
  }
  HWY_INLINE void Reorder() { std::swap(x1, x2); }
  template <int kSign>
  HWY_INLINE void Rest(const Twiddles& t) {
    AddTimes(x0, x1, t.w1);
    AddTimesI<kSign>(x2, x3, t.w1);
  }
  template <int kSign>
  HWY_INLINE void Run(const Twiddles& t) {
    AddTimes(x0, x2, t.w2);
    AddTimes(x1, x3, t.w2);
    Rest<kSign>(t);
  }
  HWY_INLINE void RunReal(const Twiddles& t) {
    AddTimesReal(x0, x2, t.w2);
    AddTimesReal(x1, x3, t.w2);
    Rest<1>(t);
  }
  template <int kSign>
  HWY_INLINE void RunPlain() {
    AddSub(x0, x2);
    AddSub(x1, x3);
    AddSub(x0, x1);
    AddSubI<kSign>(x2, x3);
  }
};

template <typename T>
struct Butterfly<T, 3> {
  static constexpr int kConstants = 4;  // w, w^2
  Complex<T> x0, x1, x2;

  struct Twiddles {
    Complex<T> w1, w2;
    template <class At>
    explicit HWY_INLINE Twiddles(const At& at) : w1(at(0)), w2(at(1)) {}
  };

  template <class Input>
  HWY_INLINE void Load(const Input& row) {
    x0 = row(0), x1 = row(1), x2 = row(2);
  }
  template <class Output>
  HWY_INLINE void Store(const Output& row) const {
    row(0, x0), row(1, x1), row(2, x2);
  }
  template <int kSign>
  HWY_INLINE void Run(const Twiddles& t) {
    const Tag<T> d;
    const auto minus_half = hn::Set(d, T(-0.5));
    const auto sine = hn::Set(d, T(kSign * 0.86602540378443864676L));
    x1 = Times(x1, t.w1);
    AddTimes(x1, x2, t.w2);  // x1, x2 are now the sum and the difference
    const Complex<T> h = {hn::MulAdd(minus_half, x1.re, x0.re),
                          hn::MulAdd(minus_half, x1.im, x0.im)};
    x0 = {hn::Add(x0.re, x1.re), hn::Add(x0.im, x1.im)};
    x1 = {hn::NegMulAdd(sine, x2.im, h.re), hn::MulAdd(sine, x2.re, h.im)};
    x2 = {hn::MulAdd(sine, x2.im, h.re), hn::NegMulAdd(sine, x2.re, h.im)};
  }
};

template <typename T>
struct Butterfly<T, 5> {
  static constexpr int kConstants = 8;  // w, w^2, w^3, w^4
  Complex<T> x0, x1, x2, x3, x4;

  struct Twiddles {
    Complex<T> w1, w2, w3, w4;
    template <class At>
    explicit HWY_INLINE Twiddles(const At& at)
        : w1(at(0)), w2(at(1)), w3(at(2)), w4(at(3)) {}
  };

  template <class Input>
  HWY_INLINE void Load(const Input& row) {
    x0 = row(0), x1 = row(1), x2 = row(2), x3 = row(3), x4 = row(4);
  }
  template <class Output>
  HWY_INLINE void Store(const Output& row) const {
    row(0, x0), row(1, x1), row(2, x2), row(3, x3), row(4, x4);
  }
  template <int kSign>
  HWY_INLINE void Run(const Twiddles& t) {
    const Tag<T> d;
    const auto c1 = hn::Set(d, T(0.30901699437494742410L));   // cos 72
    const auto c2 = hn::Set(d, T(-0.80901699437494742410L));  // cos 144
    const auto s1 = hn::Set(d, T(kSign * 0.95105651629515357212L));
    const auto s2 = hn::Set(d, T(kSign * 0.58778525229247312917L));
    x1 = Times(x1, t.w1);
    x2 = Times(x2, t.w2);
    AddTimes(x1, x4, t.w4);  // sum and difference of legs 1 and 4
    AddTimes(x2, x3, t.w3);
    const Complex<T> m1 = {hn::MulAdd(c2, x2.re, hn::MulAdd(c1, x1.re, x0.re)),
                           hn::MulAdd(c2, x2.im, hn::MulAdd(c1, x1.im, x0.im))};
    const Complex<T> m2 = {hn::MulAdd(c1, x2.re, hn::MulAdd(c2, x1.re, x0.re)),
                           hn::MulAdd(c1, x2.im, hn::MulAdd(c2, x1.im, x0.im))};
    const Complex<T> n1 = {hn::MulAdd(s2, x3.re, hn::Mul(s1, x4.re)),
                           hn::MulAdd(s2, x3.im, hn::Mul(s1, x4.im))};
    const Complex<T> n2 = {hn::NegMulAdd(s1, x3.re, hn::Mul(s2, x4.re)),
                           hn::NegMulAdd(s1, x3.im, hn::Mul(s2, x4.im))};
    x0 = {hn::Add(x0.re, hn::Add(x1.re, x2.re)),
          hn::Add(x0.im, hn::Add(x1.im, x2.im))};
    x1 = {hn::Sub(m1.re, n1.im), hn::Add(m1.im, n1.re)};
    x4 = {hn::Add(m1.re, n1.im), hn::Sub(m1.im, n1.re)};
    x2 = {hn::Sub(m2.re, n2.im), hn::Add(m2.im, n2.re)};
    x3 = {hn::Add(m2.re, n2.im), hn::Sub(m2.im, n2.re)};
  }
};

}  // namespace subquad::fft_columns
