// The backward pass of a softmax whose weights are in memory: gradients of
// scores and values of one head, by GEMMs, for the dense implementations of all
// operators with a softmax (formulas: reference/softmax/softmax_rows.h).
//
//   DenseGradient<T> gradient(layout, n_q, n_k, e);
//   for each block of queries [first, first + rows), on any thread:
//     write their scores to gradient.Weights(first), rows n_k() apart
//     for each query i: gradient.Exponentiate(i, first, visible, bias);
//     gradient.Scores(first, rows, keys, g, v);   // dS of these rows
//     gradient.ScoreRows(..) times keys, for the queries
//   then, once all rows are there:
//     gradient.Values(first key, keys, first query, g, grad_v);
//     gradient.ScoreColumns(..), transposed, times queries, for the keys
//     gradient.Diagonals(pool, grad_bias);
//
// Keys that a query does not see have weights and gradients of zero. Every sum
// is split into fixed pieces, so that threads change no bit.
#pragma once

#include <algorithm>
#include <cstdint>

#include "optimized/base/buffer.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/softmax/softmax_tiles.h"

namespace subquad {

template <typename T>
class DenseGradient {
 public:
  DenseGradient(Layout& layout, int64_t n_q, int64_t n_k, int64_t e)
      : n_q_(n_q),
        n_k_(n_k),
        e_(e),
        weights_(layout, n_q * n_k),
        scores_(layout, n_q * n_k),
        dots_(layout, n_q) {}

  T* Weights(int64_t i) const { return weights_.data() + i * n_k_; }

  // Returns rows of dS: [rows, keys] from query `first` and the first key on.
  auto ScoreRows(int64_t first, int64_t rows, int64_t keys) const {
    return RowsOf(scores_.data() + first * n_k_, rows, keys, n_k_);
  }
  // Returns columns of dS: [queries from `first` on, keys] from key `key` on.
  auto ScoreColumns(int64_t first, int64_t key, int64_t keys) const {
    return RowsOf(scores_.data() + first * n_k_ + key, n_q_ - first, keys,
                  n_k_);
  }

  // Turns the scores of query i and of the keys [first, visible), plus the bias
  // of each, into weights; `bias` may be null, and -inf in it hides the key.
  // `sink` is null or points to one more score, which its weight replaces.
  void Exponentiate(int64_t i, int64_t first, int64_t visible, const T* bias,
                    T* sink = nullptr) const {
    T* const row = Weights(i);
    const T sum = ExponentiateRow(row + first, visible - first,
                                  bias ? bias + first : nullptr, sink);
    for (int64_t j = first; j < visible; ++j) row[j] /= sum;
    if (sink) *sink /= sum;
    std::fill(row, row + first, T{0});
    std::fill(row + visible, row + n_k_, T{0});
  }

  // Computes dS of rows [first, first + rows) that see keys before `keys`,
  // whose weights are complete; g [n_q, e] and v [n_k, e] are those of the
  // head, and so are the incoming gradients of the logarithms of the sums of
  // the weights, `grad_lse` [n_q], which may be null.
  void Scores(int64_t first, int64_t rows, int64_t keys, const T* g, const T* v,
              const T* grad_lse = nullptr) const {
    auto scores = RowsOf(scores_.data() + first * n_k_, rows, keys, n_k_);
    Multiply(T{1}, Rows(g, first, rows), Rows(v, 0, keys).transpose(), scores);
    for (int64_t i = first; i < first + rows; ++i) {
      const T* const weight = Weights(i);
      T* const row = scores_.data() + i * n_k_;
      T& dot = dots_[i];
      dot = 0;
      for (int64_t j = 0; j < keys; ++j) dot += weight[j] * row[j];
      if (grad_lse) dot -= grad_lse[i];
      for (int64_t j = 0; j < keys; ++j) row[j] = weight[j] * (row[j] - dot);
      std::fill(row + keys, row + n_k_, T{0});
    }
  }

  // Returns D of query i, without grad_lse, once Scores has computed it.
  T Dot(int64_t i) const { return dots_[i]; }

  // Computes rows [key, key + keys) of grad_v, from the queries from `first`
  // on.
  void Values(int64_t key, int64_t keys, int64_t first, const T* g,
              T* grad_v) const {
    const auto weights =
        RowsOf(weights_.data() + first * n_k_ + key, n_q_ - first, keys, n_k_);
    auto out = RowsOf(grad_v + key * e_, keys, e_);
    Multiply(T{1}, weights.transpose(), Rows(g, first, n_q_ - first), out);
  }

  // Computes out[j - i + n_q - 1] = sum of dS_ij, for all n_q + n_k - 1
  // offsets.
  void Diagonals(ThreadPool& pool, T* out) const {
    constexpr int64_t kPiece = 512;
    const int64_t offsets = n_q_ + n_k_ - 1;
    pool.For((offsets + kPiece - 1) / kPiece, [&](int64_t piece, int) {
      const int64_t begin = piece * kPiece;
      const int64_t end = std::min(begin + kPiece, offsets);
      std::fill(out + begin, out + end, T{0});
      for (int64_t i = 0; i < n_q_; ++i) {
        const int64_t shift = n_q_ - 1 - i;
        const T* const row = scores_.data() + i * n_k_;
        const int64_t last = std::min(n_k_, end - shift);
        for (int64_t j = std::max<int64_t>(0, begin - shift); j < last; ++j)
          out[j + shift] += row[j];
      }
    });
  }

 private:
  ConstMatrixMap<T> Rows(const T* from, int64_t first, int64_t rows) const {
    return RowsOf(from + first * e_, rows, e_);
  }

  const int64_t n_q_, n_k_, e_;
  Buffer<T> weights_, scores_;  // P and dS
  Buffer<T> dots_;              // D
};

}  // namespace subquad
