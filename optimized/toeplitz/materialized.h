// The strong quadratic baseline of the Toeplitz family: the matrix in memory,
// times the values by a real GEMM.
#pragma once

#include <algorithm>
#include <cstdint>

#include "optimized/base/buffer.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"

namespace subquad {

template <typename T>
class MaterializedProduct {
 public:
  // Rows of the matrix that one task fills and multiplies.
  static constexpr int64_t kRowBlock = 256;

  MaterializedProduct(Layout& layout, int64_t n_q, int64_t n_k, int64_t e)
      : n_q_(n_q), n_k_(n_k), e_(e), matrix_(layout, n_q * n_k) {}

  // Counts the flops of one product with the matrix, for one head.
  double Flops() const {
    return 2.0 * static_cast<double>(n_q_) * static_cast<double>(n_k_) *
           static_cast<double>(e_);
  }

  // Computes out = M values, where fill_row(i, row) writes row i of M.
  template <typename FillRow>
  void Run(ThreadPool& pool, const FillRow& fill_row, const T* values, T* out) {
    const auto v = RowsOf(values, n_k_, e_);
    pool.For((n_q_ + kRowBlock - 1) / kRowBlock, [&](int64_t block, int) {
      const int64_t first = block * kRowBlock;
      const int64_t rows = std::min(kRowBlock, n_q_ - first);
      T* m = matrix_.data() + first * n_k_;
      for (int64_t i = 0; i < rows; ++i) fill_row(first + i, m + i * n_k_);
      Multiply(T{1}, RowsOf(m, rows, n_k_), v,
               RowsOf(out + first * e_, rows, e_));
    });
  }

  // Computes values = M^T out, using the matrix that Run or Fill left.
  template <typename FillRow>
  void RunTransposed(ThreadPool& pool, const FillRow& fill_row, const T* grad,
                     T* values) {
    pool.For((n_q_ + kRowBlock - 1) / kRowBlock, [&](int64_t block, int) {
      const int64_t first = block * kRowBlock;
      for (int64_t i = first; i < std::min(first + kRowBlock, n_q_); ++i)
        fill_row(i, matrix_.data() + i * n_k_);
    });
    const auto g = RowsOf(grad, n_q_, e_);
    const auto m = RowsOf(matrix_.data(), n_q_, n_k_);
    pool.For((n_k_ + kRowBlock - 1) / kRowBlock, [&](int64_t block, int) {
      const int64_t first = block * kRowBlock;
      const int64_t columns = std::min(kRowBlock, n_k_ - first);
      Multiply(T{1}, m.middleCols(first, columns).transpose(), g,
               RowsOf(values + first * e_, columns, e_));
    });
  }

  // Computes M = grad values^T; the caller then sums along its diagonals.
  const T* RunOuter(ThreadPool& pool, const T* grad, const T* values) {
    const auto v = RowsOf(values, n_k_, e_);
    pool.For((n_q_ + kRowBlock - 1) / kRowBlock, [&](int64_t block, int) {
      const int64_t first = block * kRowBlock;
      const int64_t rows = std::min(kRowBlock, n_q_ - first);
      const auto g = RowsOf(grad + first * e_, rows, e_);
      Multiply(T{1}, g, v.transpose(),
               RowsOf(matrix_.data() + first * n_k_, rows, n_k_));
    });
    return matrix_.data();
  }

 private:
  const int64_t n_q_, n_k_, e_;
  Buffer<T> matrix_;
};

}  // namespace subquad
