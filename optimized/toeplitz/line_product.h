// A square 1-D Toeplitz product of a few columns on one thread, [n, e] -> [n,
// e], with its adjoint and the gradient of its weights: used for the sums of an
// image's rows or columns.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>

#include "optimized/base/buffer.h"
#include "optimized/toeplitz/fft_columns.h"

namespace subquad {

template <typename T>
class LineProduct {
 public:
  // Up to this many points the product by definition is faster than transforms.
  static constexpr int64_t kDirectLength = 64;

  LineProduct(Layout& layout, int64_t n, int64_t e, bool backward)
      : n_(n), e_(e) {
    if (n_ <= kDirectLength) return;
    fft_.emplace(layout, n, n);
    spectrum_ = Buffer<T>(layout, fft_->SpectrumSize(), OnLine{});
    scratch_ = Buffer<T>(layout,
                         backward ? fft_->GradientScratchSize(Block())
                                  : fft_->ScratchSize(Block()),
                         OnLine{});
    if (backward) gradient_ = Buffer<T>(layout, Offsets(), OnLine{});
  }

  // Computes out[i] = sum_j w(j - i) in[j].
  void Run(const T* weights, const T* in, T* out) const {
    if (!fft_) return RunDirect(weights, 1, in, out);
    fft_->Spectrum(weights, Offsets(), spectrum_.data(), scratch_.data());
    ForBlocks([&](int64_t first, int64_t count) {
      fft_->Apply(spectrum_.data(), in + first, e_, n_, count, out + first, e_,
                  false, scratch_.data());
    });
  }

  // Computes out[j] = sum_i w(j - i) in[i].
  void RunTransposed(const T* weights, const T* in, T* out) const {
    if (!fft_) return RunDirect(weights, -1, in, out);
    fft_->Spectrum(weights, Offsets(), spectrum_.data(), scratch_.data());
    ForBlocks([&](int64_t first, int64_t count) {
      fft_->ApplyTransposed(spectrum_.data(), in + first, e_, count,
                            out + first, e_, n_, false, scratch_.data());
    });
  }

  // Computes weights[j - i + n - 1] += <grad[i], values[j]>. Overwrites the
  // spectrum.
  void AddGradient(const T* grad, const T* values, T* weights) const {
    if (!fft_) return AddGradientDirect(grad, values, weights);
    T* const sum = spectrum_.data();
    std::fill_n(sum, fft_->SpectrumSize(), T{0});
    ForBlocks([&](int64_t first, int64_t count) {
      fft_->AccumulateWeightGradient(grad + first, e_, values + first, e_, n_,
                                     count, sum, scratch_.data());
    });
    fft_->WeightGradient(sum, Offsets(), gradient_.data(), scratch_.data());
    for (int64_t t = 0; t < Offsets(); ++t) weights[t] += gradient_[t];
  }

  double Flops() const {
    return fft_ ? fft_->Flops(e_) : 2.0 * static_cast<double>(e_ * n_ * n_);
  }

 private:
  int64_t Offsets() const { return 2 * n_ - 1; }
  int64_t Block() const {
    return std::min(ToeplitzColumns<T>::kBlockColumns, e_);
  }
  // Calls work(first column, columns).
  template <typename Work>
  void ForBlocks(const Work& work) const {
    for (int64_t first = 0; first < e_; first += Block())
      work(first, std::min(Block(), e_ - first));
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

  int64_t n_, e_;
  std::optional<ToeplitzColumns<T>> fft_;
  Buffer<T> spectrum_, scratch_, gradient_;
};

}  // namespace subquad
