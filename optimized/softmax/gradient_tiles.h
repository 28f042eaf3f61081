// The backward pass of exact softmax attention for a block of queries, tile by
// tile of keys, in memory that, except for the gradients themselves, does not
// depend on the number of keys (formulas: reference/softmax/softmax_rows.h;
// recomputed tiles: FlashAttention-2, Dao 2023, algorithm 2).
//
// A block processes its keys twice: once forward, for the largest score, the
// sum of the weights and D = g.out of each query, and once backward, with the
// same scores again. Weights are exp(s - m) / sum with the m of the forward
// pass, so that m cancels whatever its error; 1 / sum is a factor of g and D
// from the start, and the scale one of q. A tile takes five products, compared
// with two in the forward pass, all with the register tiles of softmax_tiles.h:
// queries in the lanes for scores, g.v and grad_q; columns in the lanes for
// grad_k and grad_v, whose sums run over queries.
//
//   GradientBlock<T> block(layout, d, e);
//   block.Begin(q, rows, scale, g);
//   for each tile: block.scores().Scores(..), block.Cap(..),
//                  block.scores().AddBias(..), HideAfter(..);
//                  block.scores().Accumulate(v, e);
//   block.Turn();
//   for each tile: the same scores;
//                  block.Accumulate(k, v, grad_k, grad_v, sums);
//   block.End(grad_q);
//
// The gradient of a bias by offset is the sum of the diagonals: those of a tile
// are summed in registers, lane by lane, for keys that are a vector apart, so
// that no store waits for the previous one.
#pragma once

#include <cstdint>

#include "optimized/softmax/softmax_tiles.h"

namespace subquad {

namespace softmax_tiles {

template <typename T>
struct GradientTile {
  GradientTile(Cut<T>& cut, int64_t d, int64_t e, bool caps)
      : grad(cut(e * kBlockQueries<T>)),
        score(cut(kTileKeys * kBlockQueries<T>)),
        slope(cut(caps ? kTileKeys * kBlockQueries<T> : 0)),
        grad_query(cut(d * kBlockQueries<T>)),
        dot(cut(kBlockQueries<T>)),
        grad_lse(cut(kBlockQueries<T>)),
        query_rows(cut(WholeLines<T>(kBlockQueries<T> * d))),
        grad_rows(cut(WholeLines<T>(kBlockQueries<T> * e))) {}

  T* grad;        // [e] as in Tile: g / sum, transposed
  T* score;       // [kTileKeys]: gradients of the scores
  T* slope;       // [kTileKeys]: derivatives of the capped scores
  T* grad_query;  // [d]: sum of these gradients times keys
  T* dot;         // [1]: D / sum
  T* grad_lse;    // [1]: incoming gradients of the logarithms of the sums
  T* query_rows;  // [rows, d]: scale * q
  T* grad_rows;   // [rows, e]: g / sum
};

}  // namespace softmax_tiles

template <typename T>
class GradientBlock {
 public:
  // Elements before and after an array of diagonals that may be written (by
  // adding zeros).
  static constexpr int64_t kMargin = kBlockQueries<T>;

  // `caps`: whether Cap is called for every tile, or for none.
  GradientBlock(Layout& layout, int64_t d, int64_t e, bool caps = false);

  // Starts with q [rows, d] and g [rows, e], contiguous; `sink` as in
  // SoftmaxBlock. `grad_lse` [rows] are the incoming gradients of the
  // logarithms of the sums of the weights, or null for zeros.
  void Begin(const T* q, int64_t rows, T scale, const T* g,
             const T* sink = nullptr, const T* grad_lse = nullptr);
  SoftmaxBlock<T>& scores() { return scores_; }
  // Caps the scores of a tile (SoftmaxBlock::Cap).
  void Cap(T cap) { scores_.Cap(cap, tile_.slope); }
  // Changes from the forward to the backward pass.
  void Turn();
  // Returns the gradient of the sink from the queries of this block, after
  // Turn.
  T SinkGradient(T sink) const;
  // Where to add the gradients of the scores of query i of the block and key j
  // of the tile, unless it is null.
  struct ScoreSums {
    T* diagonals = nullptr;  // to diagonals[j - i]
    T* pairs = nullptr;      // to pairs[places.At(i, j)]
    PairPlaces places = {};
  };
  // Uses the scores of a tile to add to its rows of grad_k and grad_v and to
  // these sums.
  void Accumulate(const T* k, const T* v, T* grad_k, T* grad_v,
                  const ScoreSums& sums);
  void End(T* grad_q, T scale);

 private:
  SoftmaxBlock<T> scores_;
  Buffer<T> memory_;
  softmax_tiles::GradientTile<T> tile_;
  const bool caps_;
  const T* grad_ = nullptr;
};

extern template class GradientBlock<float>;
extern template class GradientBlock<double>;

}  // namespace subquad
