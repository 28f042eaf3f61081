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
//     gradient.Diagonals(pool, offsets, queries, grad_bias);
//
// With keys from `begin` on, columns before them count as hidden.
//
// Keys that a query does not see have weights and gradients of zero. Every sum
// is split into fixed pieces, so that threads change no bit.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

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

  // Returns rows of dS: [rows, keys] from query `first` and key `key` on.
  auto ScoreRows(int64_t first, int64_t rows, int64_t keys,
                 int64_t key = 0) const {
    return RowsOf(scores_.data() + first * n_k_ + key, rows, keys, n_k_);
  }
  // Returns columns of dS: [queries from `first` on, keys] from key `key` on.
  auto ScoreColumns(int64_t first, int64_t key, int64_t keys) const {
    return ScoreColumns(first, key, keys, n_q_);
  }
  // Those of queries before `end` only.
  auto ScoreColumns(int64_t first, int64_t key, int64_t keys,
                    int64_t end) const {
    return RowsOf(scores_.data() + first * n_k_ + key, end - first, keys, n_k_);
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

  // Computes dS of rows [first, first + rows) that see keys [begin, keys),
  // whose weights are complete; g [n_q, e] and v [n_k, e] are those of the
  // head, and so are the incoming gradients of the logarithms of the sums of
  // the weights, `grad_lse` [n_q], which may be null.
  void Scores(int64_t first, int64_t rows, int64_t keys, const T* g, const T* v,
              const T* grad_lse = nullptr, int64_t begin = 0) const {
    auto scores = ScoreRows(first, rows, keys - begin, begin);
    Multiply(T{1}, Rows(g, first, rows),
             Rows(v, begin, keys - begin).transpose(), scores);
    for (int64_t i = first; i < first + rows; ++i) {
      const T* const weight = Weights(i);
      T* const row = scores_.data() + i * n_k_;
      T& dot = dots_[i];
      dot = 0;
      for (int64_t j = begin; j < keys; ++j) dot += weight[j] * row[j];
      if (grad_lse) dot -= grad_lse[i];
      for (int64_t j = begin; j < keys; ++j)
        row[j] = weight[j] * (row[j] - dot);
      std::fill(row, row + begin, T{0});
      std::fill(row + keys, row + n_k_, T{0});
    }
  }

  // Returns D of query i, without grad_lse, once Scores has computed it.
  T Dot(int64_t i) const { return dots_[i]; }

  // Computes rows [key, key + keys) of grad_v, from the queries from `first`
  // on, or from those before `end`.
  void Values(int64_t key, int64_t keys, int64_t first, const T* g,
              T* grad_v) const {
    Values(key, keys, first, g, grad_v, n_q_);
  }
  void Values(int64_t key, int64_t keys, int64_t first, const T* g, T* grad_v,
              int64_t end) const {
    const auto weights =
        RowsOf(weights_.data() + first * n_k_ + key, end - first, keys, n_k_);
    auto out = RowsOf(grad_v + key * e_, keys, e_);
    Multiply(T{1}, weights.transpose(), Rows(g, first, end - first), out);
  }

  // The keys [first, end) of a query, whose scores belong to the entries
  // first + shift, .. of a vector by offset.
  struct Diagonal {
    int64_t first, end, shift;
  };
  // Computes out[j + shift] = sum of dS_ij over the keys of each query.
  void Diagonals(ThreadPool& pool, int64_t offsets,
                 const std::vector<Diagonal>& queries, T* out) const {
    constexpr int64_t kPiece = 512;
    pool.For((offsets + kPiece - 1) / kPiece, [&](int64_t piece, int) {
      const int64_t begin = piece * kPiece;
      const int64_t end = std::min(begin + kPiece, offsets);
      std::fill(out + begin, out + end, T{0});
      for (int64_t i = 0; i < n_q_; ++i) {
        const auto& [first, after, shift] = queries[static_cast<size_t>(i)];
        const T* const row = scores_.data() + i * n_k_;
        const int64_t last = std::min(after, end - shift);
        for (int64_t j = std::max(first, begin - shift); j < last; ++j)
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
