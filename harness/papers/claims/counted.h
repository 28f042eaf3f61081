// The papers' algorithms as templates over the scalar, and a scalar that counts
// what is done with it: what an algorithm costs is counted while it runs, and
// taken from no formula. The same templates on double give the results, which
// are compared with the definitions.
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
  // Circular correlation: offset t of the key stands at -t.
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

// FastRPB appendix B.3 for a side x side image and one set of weights: sums
// over rows and columns of pixels, one Toeplitz product of each.
template <typename T>
Row<T> ImageBySums(const Row<T>& w, const Row<T>& v, size_t side) {
  Row<T> down(side), across(side), out(v.size());
  for (size_t y = 0; y < side; ++y)
    for (size_t x = 0; x < side; ++x) {
      down[y] += v[y * side + x];
      across[x] += v[y * side + x];
    }
  const Row<T> rows = ToeplitzByTransform(w, down, 1),
               columns = ToeplitzByTransform(w, across, 1);
  for (size_t y = 0; y < side; ++y)
    for (size_t x = 0; x < side; ++x) out[y * side + x] = rows[y] + columns[x];
  return out;
}

// Kernelized attention on given features [n, f]: the two sums that all rows
// share (`shared`), or a weight for every pair.
template <typename T>
Row<T> LinearAttention(const Row<T>& q, const Row<T>& k, const Row<T>& v,
                       size_t f, size_t e, bool shared) {
  const size_t n = q.size() / f;
  Row<T> out(n * e);
  Row<T> sum(f * e), total(f);
  for (size_t j = 0; shared && j < n; ++j)
    for (size_t a = 0; a < f; ++a) {
      total[a] += k[j * f + a];
      for (size_t c = 0; c < e; ++c)
        sum[a * e + c] += k[j * f + a] * v[j * e + c];
    }
  for (size_t i = 0; i < n; ++i) {
    T below = 0;
    T* const row = out.data() + i * e;
    for (size_t a = 0; shared && a < f; ++a) {
      below += q[i * f + a] * total[a];
      for (size_t c = 0; c < e; ++c) row[c] += q[i * f + a] * sum[a * e + c];
    }
    for (size_t j = 0; !shared && j < n; ++j) {
      T weight = 0;
      for (size_t a = 0; a < f; ++a) weight += q[i * f + a] * k[j * f + a];
      below += weight;
      for (size_t c = 0; c < e; ++c) row[c] += weight * v[j * e + c];
    }
    for (size_t c = 0; c < e; ++c) row[c] = row[c] / below;
  }
  return out;
}

// NPRF algorithm 1 on given features: D_1 and D_2 as Toeplitz products, with
// f e and f columns; or every pair.
template <typename T>
Row<T> KernelizedBias(const Row<T>& q, const Row<T>& k, const Row<T>& v,
                      const Row<T>& bias, size_t f, size_t e, bool transform) {
  const size_t n = q.size() / f, wide = f * (e + 1);
  Row<T> columns(n * wide);
  for (size_t j = 0; j < n; ++j)
    for (size_t a = 0; a < f; ++a) {
      for (size_t c = 0; c < e; ++c)
        columns[j * wide + a * e + c] = k[j * f + a] * v[j * e + c];
      columns[j * wide + f * e + a] = k[j * f + a];
    }
  const Row<T> sums = transform ? ToeplitzByTransform(bias, columns, wide)
                                : ToeplitzDirect(bias, columns, wide);
  Row<T> out(n * e);
  for (size_t i = 0; i < n; ++i) {
    T below = 0;
    for (size_t a = 0; a < f; ++a) {
      below += q[i * f + a] * sums[i * wide + f * e + a];
      for (size_t c = 0; c < e; ++c)
        out[i * e + c] += q[i * f + a] * sums[i * wide + a * e + c];
    }
    for (size_t c = 0; c < e; ++c) out[i * e + c] = out[i * e + c] / below;
  }
  return out;
}

// LRPE section III: S_rel V for offsets clipped at r, key before query first.
// `operations`, if given, gets the sums of values, the products of queries with
// embeddings, and the window, in that order.
template <typename T>
Row<T> ClippedProduct(const Row<T>& q, const Row<T>& rpe, const Row<T>& v,
                      size_t d, size_t r, int64_t* operations = nullptr) {
  const size_t rows = q.size() / d, keys = v.size() / d, wide = 2 * r + 1;
  const auto count = [&](int which) {
    if (!operations) return;
    operations[which] = Counted::operations();
    Counted::Reset();
  };
  Counted::Reset();
  Row<T> before((keys + 1) * d);
  for (size_t j = 0; j < keys; ++j)
    for (size_t c = 0; c < d; ++c)
      before[(j + 1) * d + c] = before[j * d + c] + v[j * d + c];
  count(0);
  Row<T> weights(rows * wide);
  for (size_t i = 0; i < rows; ++i)
    for (size_t s = 0; s < wide; ++s)
      for (size_t c = 0; c < d; ++c)
        weights[i * wide + s] += q[i * d + c] * rpe[s * d + c];
  count(1);
  Row<T> out(rows * d);
  for (size_t i = 0; i < rows; ++i) {
    const T* const w = weights.data() + i * wide;
    // Keys up to i - r, those between, and those from i + r on.
    const size_t left = std::min(i >= r ? i - r + 1 : 0, keys),
                 right = std::max(left, std::min(i + r, keys));
    for (size_t c = 0; c < d; ++c) {
      T sum = w[0] * before[left * d + c];
      for (size_t j = left; j < right; ++j) sum += w[j + r - i] * v[j * d + c];
      out[i * d + c] =
          sum + w[2 * r] * (before[keys * d + c] - before[right * d + c]);
    }
  }
  count(2);
  return out;
}

// Transformer-XL appendix B, terms (b) and (d) of L queries after M positions:
// (q_i + t) . w_kr r[M+i-j] for the visible keys, 0 elsewhere. `once`: w_kr r
// for every distance; otherwise for every pair. `products`, if given, gets the
// operations in w_kr r.
template <typename T>
Row<T> DistanceScores(const Row<T>& q, const Row<T>& t, const Row<T>& r,
                      const Row<T>& w, size_t d, size_t p, bool once,
                      int64_t* products = nullptr) {
  const size_t segment = q.size() / d, keys = r.size() / p,
               memory = keys - segment;
  Counted::Reset();
  int64_t counted = 0;
  const auto project = [&](size_t distance, T* to) {
    const int64_t from = Counted::operations();
    for (size_t a = 0; a < d; ++a) {
      to[a] = 0;
      for (size_t b = 0; b < p; ++b)
        to[a] += w[a * p + b] * r[distance * p + b];
    }
    counted += Counted::operations() - from;
  };
  Row<T> all(keys * d), one(d), out(segment * keys);
  for (size_t x = 0; once && x < keys; ++x) project(x, all.data() + x * d);
  for (size_t i = 0; i < segment; ++i) {
    Row<T> query(q.begin() + static_cast<std::ptrdiff_t>(i * d),
                 q.begin() + static_cast<std::ptrdiff_t>((i + 1) * d));
    for (size_t a = 0; a < d; ++a) query[a] += t[a];
    for (size_t j = 0; j <= memory + i; ++j) {
      const size_t distance = memory + i - j;
      if (!once) project(distance, one.data());
      const T* const row = once ? all.data() + distance * d : one.data();
      for (size_t a = 0; a < d; ++a) out[i * keys + j] += query[a] * row[a];
    }
  }
  if (products) *products = counted;
  return out;
}

}  // namespace subquad
