// The Toeplitz product of a few rows by its definition, with the columns in
// vector registers: the speed that an FFT has to beat.
#pragma once

#include <algorithm>
#include <cstdint>

#include "optimized/base/buffer.h"
#include "optimized/base/lanes.h"

namespace subquad {

// Computes out[i, c] = sum_j w(j - i) v[j, c], v [n_k, e], out [n_q, e],
// row-major.
template <typename T>
class DirectToeplitz {
 public:
  // Measured against ToeplitzColumns in float32 with 64 columns: 0.4 of its
  // time at 16 rows, three quarters at 32, the same time near 52.
  static constexpr int64_t kRows = 32;
  static bool Serves(int64_t n_q, int64_t n_k) {
    return std::max(n_q, n_k) <= kRows;
  }

  DirectToeplitz(Layout& layout, int64_t n_q, int64_t n_k, int64_t e)
      : n_q_(n_q),
        n_k_(n_k),
        e_(e),
        work_(layout, WholeLines<T>(n_q + n_k - 1 + (n_q + n_k) * kCount)) {}

  double Flops() const {
    return 2.0 * static_cast<double>(n_q_) * static_cast<double>(n_k_) *
           static_cast<double>(e_);
  }

  // Uses the first `visible` of the weights [n_q + n_k - 1] and the first
  // `keys` of the values [n_k, e], as in ToeplitzColumns.
  void Apply(const T* weights, int64_t visible, const T* values, int64_t keys,
             T* out, int worker) const;

 private:
  static constexpr int64_t kCount = kLaneCount<T>;
  // Vectors of columns in a panel, with four rows of the result in registers.
  static constexpr int kPanel = kVectorRegisters / 8;

  template <int kVectors>
  void Panel(const T* weights, int64_t visible, const T* values, int64_t stride,
             int64_t keys, T* out, int64_t out_stride) const;

  const int64_t n_q_, n_k_, e_;
  // Holds the visible weights, and the last columns padded to a vector: [n_k]
  // of the values, [n_q] of the result.
  PerThread<T> work_;
};

extern template class DirectToeplitz<float>;
extern template class DirectToeplitz<double>;

}  // namespace subquad
