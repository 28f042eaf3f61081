// Exact softmax attention of a block of queries, tile by tile of keys, in
// memory that does not depend on the number of keys; and the softmax of a row
// of scores for implementations that have them in memory.
//
// The queries of a block are in the SIMD lanes, so that maxima, exponentials
// and sums over keys need no work across lanes, keys and values are read in
// place (a broadcast each), and only the queries are packed, once. The largest
// score so far, m, is kept for each query; when a tile raises it, earlier sums
// are multiplied by exp(m_old - m_new) (Milakov and Gimelshein 2018;
// FlashAttention, Dao et al. 2022).
//
//   SoftmaxBlock<T> block(layout, d, e);   // one for each worker
//   block.Begin(q, d, rows, scale);        // rows <= kBlockQueries<T>
//   for each tile of at most kTileKeys keys:
//     block.Scores(k, d, keys);            // scale q.k
//     block.Cap(..), block.AddBias(..), block.AddPairs(..),
//         block.AddBand(..), block.HideAfter(..), block.HidePairs(..), or edits
//         of block.Score(i, j)
//     block.Accumulate(v, e);
//   block.End(out, e);
//
// Rows have strides, so that every s-th query and key can form a separate
// problem. A score of -inf hides a key; a query that saw no key at all gets
// zeros.
#pragma once

#include <cstdint>

#include "optimized/base/buffer.h"
#include "reference/contract/pair_places.h"

namespace subquad {

// 64 in float32, 32 in float64: four AVX-512 vectors.
template <typename T>
inline constexpr int64_t kBlockQueries = 256 / static_cast<int64_t>(sizeof(T));
inline constexpr int64_t kTileKeys = 64;

namespace softmax_tiles {

// Row r of every array here has one element for each query of the block: that
// of query i is at r * kBlockQueries + i.
template <typename T>
struct Tile {
  Tile(Cut<T>& cut, int64_t query_width, int64_t value_width,
       int64_t band_width)
      : d(query_width),
        e(value_width),
        p(band_width),
        query(cut(d * kBlockQueries<T>)),
        band(cut(p * kBlockQueries<T>)),
        score(cut(kTileKeys * kBlockQueries<T>)),
        out(cut(e * kBlockQueries<T>)),
        top(cut(kBlockQueries<T>)),
        sum(cut(kBlockQueries<T>)),
        factor(cut(kBlockQueries<T>)) {}

  int64_t d, e, p;
  int64_t rows = 0, keys = 0;
  T* query;   // [d]: scale * q, transposed
  T* band;    // [p]: r of the queries, transposed
  T* score;   // [kTileKeys]
  T* out;     // [e]: sum of weight * value
  T* top;     // [1]: largest score so far
  T* sum;     // [1]: sum of weights
  T* factor;  // [1]: factor of earlier sums
};

}  // namespace softmax_tiles

template <typename T>
class SoftmaxBlock {
 public:
  // `p` is the width of r in BeginBand.
  SoftmaxBlock(Layout& layout, int64_t d, int64_t e, int64_t p = 0);

  // If `sink` is not null, exp(*sink) is added to the sum of the weights.
  void Begin(const T* q, int64_t q_stride, int64_t rows, T scale,
             const T* sink = nullptr);
  // Call after Begin, for AddBand; r is [rows, p].
  void BeginBand(const T* r, int64_t r_stride);

  void Scores(const T* k, int64_t k_stride, int64_t keys);

  // Returns the score of query i of the block and key j of the tile.
  T& Score(int64_t i, int64_t j) {
    return tile_.score[j * kBlockQueries<T> + i];
  }
  // Turns every score x of the tile into cap tanh(x / cap). If `slopes` is not
  // null, also writes the derivatives, in the order of the scores.
  void Cap(T cap, T* slopes = nullptr);
  // Computes Score(i, j) += bias[j - i], read for the block's own queries only.
  void AddBias(const T* bias);
  // Computes Score(i, j) += bias[i * places.query + j * places.key].
  void AddPairs(const T* bias, const PairPlaces& places);
  // Hides key j from query i where mask[i * places.query + j * places.key] is
  // zero.
  void HidePairs(const T* mask, const PairPlaces& places);
  // Computes Score(i, j) += sum_x r[i][x] table[x stride + i - j], read for
  // whole vectors of queries and for all keys of the tile.
  void AddBand(const T* table, int64_t stride);
  // Hides key j from query i where j > i + last.
  void HideAfter(int64_t last);
  // Hides key j from query i where j < i + first.
  void HideBefore(int64_t first);

  void Accumulate(const T* v, int64_t v_stride);

  // Writes the logarithm of the sum of the weights of each query, before End;
  // -inf for one that saw no key and has no sink.
  void LogSums(T* to) const;
  void End(T* out, int64_t out_stride);

 private:
  template <typename U>
  friend class GradientBlock;

  Buffer<T> memory_;
  softmax_tiles::Tile<T> tile_;
};

extern template class SoftmaxBlock<float>;
extern template class SoftmaxBlock<double>;

// Computes row[j] = exp(s_j - max s) where s_j = row[j] + bias[j] (bias may be
// null, and -inf in it hides the key); returns their sum, or one if nothing is
// visible: then all weights are zero. If `sink` is not null, *sink is one more
// score; its weight replaces it and is part of the sum. If `log_sum` is not
// null, *log_sum becomes ln sum_j exp(s_j), or -inf.
template <typename T>
T ExponentiateRow(T* row, int64_t count, const T* bias, T* sink = nullptr,
                  T* log_sum = nullptr);

// Computes row[j] = cap tanh(row[j] / cap) and, if `slopes` is not null, the
// derivatives slopes[j] = 1 - tanh^2(row[j] / cap).
template <typename T>
void CapRow(T* row, int64_t count, T cap, T* slopes);

// Computes out [rows, width] = a [rows, terms] b [terms, width], with
// `a_stride` from row to row of a, every sum in the order of its terms. A GEMM
// that adds even and odd terms separately loses digits where signs alternate
// from key to key, unlike the plain program.
template <typename T>
void MultiplyInOrder(const T* a, int64_t a_stride, int64_t rows, int64_t terms,
                     const T* b, int64_t width, T* out);

}  // namespace subquad
