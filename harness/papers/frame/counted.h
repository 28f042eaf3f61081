// A scalar that counts what is done with it, and Toeplitz products as templates
// over the scalar: what an algorithm costs is counted while it runs, and taken
// from no formula. The same templates on double give the results, which are
// compared with the definitions.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numbers>
#include <vector>

namespace subquad {

// A number that counts sums, differences, products and quotients.
class Counted {
 public:
  Counted(double value = 0) : value_(value) {}  // NOLINT: as a number is
  double value() const { return value_; }

  static int64_t operations() { return operations_; }
  static void Reset() { operations_ = 0; }

  friend Counted operator+(Counted a, Counted b) {
    return Done(a.value_ + b.value_);
  }
  friend Counted operator-(Counted a, Counted b) {
    return Done(a.value_ - b.value_);
  }
  friend Counted operator*(Counted a, Counted b) {
    return Done(a.value_ * b.value_);
  }
  friend Counted operator/(Counted a, Counted b) {
    return Done(a.value_ / b.value_);
  }
  Counted& operator+=(Counted b) { return *this = *this + b; }

 private:
  static Counted Done(double value) {
    ++operations_;
    return value;
  }

  static inline thread_local int64_t operations_ = 0;
  double value_;
};

template <typename T>
using Row = std::vector<T>;

template <typename T>
struct Complex {
  T re = 0, im = 0;
};

// In place, for a power of two; `sign` is that of the exponent. The factors of
// a length are known beforehand, as a plan's are.
template <typename T>
void Transform(std::vector<Complex<T>>& x, int sign) {
  const size_t n = x.size();
  for (size_t i = 1, j = 0; i < n; ++i) {
    size_t bit = n >> 1;
    for (; j & bit; bit >>= 1) j ^= bit;
    j ^= bit;
    if (i < j) std::swap(x[i], x[j]);
  }
  for (size_t half = 1; half < n; half *= 2)
    for (size_t k = 0; k < half; ++k) {
      const double angle = sign * std::numbers::pi * static_cast<double>(k) /
                           static_cast<double>(half);
      const T re = std::cos(angle), im = std::sin(angle);
      for (size_t i = k; i < n; i += 2 * half) {
        Complex<T>&a = x[i], &b = x[i + half];
        const Complex<T> c = {b.re * re - b.im * im, b.re * im + b.im * re};
        b = {a.re - c.re, a.im - c.im};
        a = {a.re + c.re, a.im + c.im};
      }
    }
}

// FastRPB appendix B: the Toeplitz matrix as a corner of a circulant one, which
// a transform makes diagonal. out[i] = sum_j w[j - i + n - 1] v[j], column by
// column; the spectrum of the weights is made once.
template <typename T>
Row<T> ToeplitzByTransform(const Row<T>& w, const Row<T>& v, size_t columns) {
  const size_t n = v.size() / columns;
  size_t length = 1;
  while (length < 2 * n - 1) length *= 2;
  std::vector<Complex<T>> weights(length);
  // Circular correlation: index -t holds the weight of offset t.
  for (size_t t = 0; t < 2 * n - 1; ++t)
    weights[(length + n - 1 - t) % length].re = w[t];
  Transform(weights, -1);
  Row<T> out(v.size());
  for (size_t c = 0; c < columns; ++c) {
    std::vector<Complex<T>> x(length);
    for (size_t j = 0; j < n; ++j) x[j].re = v[j * columns + c];
    Transform(x, -1);
    for (size_t k = 0; k < length; ++k)
      x[k] = {x[k].re * weights[k].re - x[k].im * weights[k].im,
              x[k].re * weights[k].im + x[k].im * weights[k].re};
    Transform(x, 1);
    const T scale = 1.0 / static_cast<double>(length);
    for (size_t i = 0; i < n; ++i) out[i * columns + c] = x[i].re * scale;
  }
  return out;
}

template <typename T>
Row<T> ToeplitzDirect(const Row<T>& w, const Row<T>& v, size_t columns) {
  const size_t n = v.size() / columns;
  Row<T> out(v.size());
  for (size_t i = 0; i < n; ++i)
    for (size_t j = 0; j < n; ++j)
      for (size_t c = 0; c < columns; ++c)
        out[i * columns + c] += w[j + n - 1 - i] * v[j * columns + c];
  return out;
}

}  // namespace subquad
