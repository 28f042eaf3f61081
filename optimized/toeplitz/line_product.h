// A square 1-D Toeplitz product of a few columns on one thread, [n, e] -> [n,
// e], with its adjoint and the gradient of its weights: used for the sums of an
// image's rows or columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/toeplitz/fft_circulant.h"

namespace subquad {

template <typename T>
class LineProduct {
 public:
  // Up to this many points the product by definition is faster than transforms.
  static constexpr int64_t kDirectLength = 64;

  LineProduct(Layout& layout, int64_t n, int64_t e, bool backward)
      : n_(n), e_(e), length_(GoodFftLength(2 * n - 1)) {
    if (n_ <= kDirectLength) return;
    fft_ = std::make_unique<CirculantFft<T>>(layout,
                                             std::vector<int64_t>{length_});
    const int64_t size = fft_->column_size();
    spectrum_ = Buffer<T>(layout, size, OnLine{});
    columns_ = Buffer<T>(layout, Group() * size, OnLine{});
    if (!backward) return;
    others_ = Buffer<T>(layout, Group() * size, OnLine{});
    sum_ = Buffer<T>(layout, size, OnLine{});
  }

  // Computes out[i] = sum_j w(j - i) in[j].
  void Run(const T* weights, const T* in, T* out) const {
    if (fft_)
      RunByTransforms(weights, false, in, out);
    else
      RunDirect(weights, 1, in, out);
  }

  // Computes out[j] = sum_i w(j - i) in[i].
  void RunTransposed(const T* weights, const T* in, T* out) const {
    if (fft_)
      RunByTransforms(weights, true, in, out);
    else
      RunDirect(weights, -1, in, out);
  }

  // Computes weights[j - i + n - 1] += <grad[i], values[j]>.
  void AddGradient(const T* grad, const T* values, T* weights) const {
    if (!fft_) return AddGradientDirect(grad, values, weights);
    const int64_t size = fft_->column_size();
    T* const sum = sum_.data();
    std::fill_n(sum, size, T{0});
    for (int64_t first = 0; first < e_; first += Group()) {
      const int64_t count = std::min(Group(), e_ - first);
      Transform(grad + first, count, columns_.data());
      Transform(values + first, count, others_.data());
      for (int64_t c = 0; c < count; ++c)
        fft_->AddProduct(columns_.data() + c * size, others_.data() + c * size,
                         sum);
    }
    fft_->Backward(sum);
    for (int64_t m = 0; m < n_; ++m) weights[n_ - 1 - m] += sum[m];
    for (int64_t m = 1; m < n_; ++m) weights[n_ - 1 + m] += sum[length_ - m];
  }

  double Flops() const {
    const double columns = static_cast<double>(e_);
    if (!fft_)
      return 2 * columns * static_cast<double>(n_) * static_cast<double>(n_);
    return (2 * columns + 1) * fft_->TransformFlops();
  }

 private:
  int64_t Group() const { return std::min(kColumnGroup, e_); }

  void Transform(const T* rows, int64_t count, T* columns) const {
    GatherColumns(rows, n_, e_, count, n_, fft_->row_stride(),
                  fft_->column_size(), columns);
    for (int64_t c = 0; c < count; ++c)
      fft_->Forward(columns + c * fft_->column_size());
  }

  void RunByTransforms(const T* weights, bool transposed, const T* in,
                       T* out) const {
    T* const spectrum = spectrum_.data();
    std::fill_n(spectrum, fft_->column_size(), T{0});
    EmbedOffsets(weights + n_ - 1, n_, n_, length_, spectrum);
    fft_->Forward(spectrum);
    for (int64_t first = 0; first < e_; first += Group()) {
      const int64_t count = std::min(Group(), e_ - first);
      Transform(in + first, count, columns_.data());
      for (int64_t c = 0; c < count; ++c) {
        T* const column = columns_.data() + c * fft_->column_size();
        fft_->Multiply(spectrum, transposed, column);
        fft_->Backward(column);
      }
      ScatterColumns(columns_.data(), n_, e_, count, n_, fft_->row_stride(),
                     fft_->column_size(), out + first);
    }
  }

  // Computes out[i] = sum_j w(sign (j - i)) in[j].
  void RunDirect(const T* weights, int64_t sign, const T* in, T* out) const {
    for (int64_t i = 0; i < n_; ++i) {
      T* const row = out + i * e_;
      std::fill_n(row, e_, T{0});
      for (int64_t j = 0; j < n_; ++j) {
        const T weight = weights[sign * (j - i) + n_ - 1];
        for (int64_t x = 0; x < e_; ++x) row[x] += weight * in[j * e_ + x];
      }
    }
  }

  void AddGradientDirect(const T* grad, const T* values, T* weights) const {
    for (int64_t i = 0; i < n_; ++i)
      for (int64_t j = 0; j < n_; ++j) {
        T dot = 0;
        for (int64_t x = 0; x < e_; ++x)
          dot += grad[i * e_ + x] * values[j * e_ + x];
        weights[j - i + n_ - 1] += dot;
      }
  }

  int64_t n_, e_, length_;
  std::unique_ptr<CirculantFft<T>> fft_;
  Buffer<T> spectrum_, columns_, others_, sum_;
};

}  // namespace subquad
