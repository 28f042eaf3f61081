// The kernels of gradient_tiles.h.
#include "optimized/softmax/gradient_tiles.h"

#include <algorithm>
#include <cmath>

#include "optimized/base/transpose.h"
#include "optimized/softmax/softmax_tiles_vectors-inl.h"

namespace subquad {
namespace softmax_tiles {

// Computes D without the incoming gradient of the logarithm of the sum of the
// weights, and divides by that sum.
template <typename T>
void Turn(const Tile<T>& tile, const GradientTile<T>& own) {
  const Tag<T> d;
  for (int64_t i = 0; i < tile.rows; i += kLanes<T>) {
    const auto one_over_sum =
        QuotientOrZero(hn::Set(d, T{1}), hn::Load(d, tile.sum + i));
    auto dot = hn::Zero(d);
    for (int64_t c = 0; c < tile.e; ++c) {
      T* const grad = own.grad + c * kBlockQueries<T> + i;
      const auto g = hn::Mul(hn::Load(d, grad), one_over_sum);
      dot =
          hn::MulAdd(g, hn::Load(d, tile.out + c * kBlockQueries<T> + i), dot);
      hn::Store(g, d, grad);
    }
    dot = hn::Sub(dot, hn::Load(d, own.grad_lse + i));
    hn::Store(hn::Mul(dot, one_over_sum), d, own.dot + i);
    hn::Store(one_over_sum, d, tile.factor + i);
    for (int64_t a = 0; a < tile.d; ++a)
      hn::Store(hn::Zero(d), d, own.grad_query + a * kBlockQueries<T> + i);
  }
}

// Turns scores into weights, without the division by their sum.
template <typename T>
void Weigh(const Tile<T>& tile) {
  const Tag<T> d;
  ForVectors(tile, [&](int64_t lane, auto vectors) {
    constexpr int kV = vectors();
    Vector<T> top[kV];
#pragma GCC unroll 8
    for (int x = 0; x < kV; ++x)
      top[x] = hn::Load(d, tile.top + lane + x * kLanes<T>);
    for (int64_t j = 0; j < tile.keys; ++j) {
      T* const score = tile.score + j * kBlockQueries<T> + lane;
      Vector<T> weight[kV];
#pragma GCC unroll 8
      for (int x = 0; x < kV; ++x)
        weight[x] = hn::Load(d, score + x * kLanes<T>);
      ExpOfDifferences<T>(top, weight);
#pragma GCC unroll 8
      for (int x = 0; x < kV; ++x)
        hn::Store(weight[x], d, score + x * kLanes<T>);
    }
  });
}

// Computes weight (g.v - D).
template <typename T>
void ScoreGradients(const Tile<T>& tile, const GradientTile<T>& own,
                    const T* v) {
  const Tag<T> d;
  ForVectors(tile, [&](int64_t lane, auto vectors) {
    ForRows(tile.keys, [&](int64_t key, auto rows) {
      constexpr int kX = rows(), kV = vectors();
      Vector<T> sums[kX][kV];
      Product<false>(v + key * tile.e, tile.e, own.grad + lane,
                     kBlockQueries<T>, tile.e, LoadAligned<T>(), sums);
      const int64_t first = key * kBlockQueries<T> + lane;
#pragma GCC unroll 8
      for (int y = 0; y < kV; ++y) {
        const auto dot = hn::Load(d, own.dot + lane + y * kLanes<T>);
#pragma GCC unroll 8
        for (int x = 0; x < kX; ++x) {
          const int64_t at = first + x * kBlockQueries<T> + y * kLanes<T>;
          hn::Store(
              hn::Mul(hn::Load(d, tile.score + at), hn::Sub(sums[x][y], dot)),
              d, own.score + at);
        }
      }
    });
  });
}

template <typename T>
void QueryGradients(const Tile<T>& tile, const GradientTile<T>& own,
                    const T* k) {
  const Tag<T> d;
  ForVectors(tile, [&](int64_t lane, auto vectors) {
    ForRows(tile.d, [&](int64_t column, auto rows) {
      constexpr int kX = rows(), kV = vectors();
      Vector<T> sums[kX][kV];
      Product<true>(k + column, tile.d, own.score + lane, kBlockQueries<T>,
                    tile.keys, LoadAligned<T>(), sums);
      T* const out = own.grad_query + column * kBlockQueries<T> + lane;
#pragma GCC unroll 8
      for (int x = 0; x < kX; ++x)
#pragma GCC unroll 8
        for (int y = 0; y < kV; ++y) {
          T* const at = out + x * kBlockQueries<T> + y * kLanes<T>;
          hn::Store(hn::Add(hn::Load(d, at), sums[x][y]), d, at);
        }
    });
  });
}

// Computes out [rows, width] += a [rows, terms] b [terms, width], where rows of
// a are a block's queries.
template <typename T>
void AddProduct(const T* a, int64_t rows, int64_t terms, const T* b,
                int64_t width, T* out) {
  const Tag<T> d;
  const int64_t whole = width / kLanes<T>;
  for (int64_t vector = 0; vector < whole; vector += kVectors)
    WithConstant<kVectors>(whole - vector, [&](auto vectors) {
      const int64_t column = vector * kLanes<T>;
      ForRows(rows, [&](int64_t row, auto constant) {
        constexpr int kX = constant(), kV = vectors();
        Vector<T> sums[kX][kV];
        Product<false>(a + row * kBlockQueries<T>, kBlockQueries<T>, b + column,
                       width, terms, LoadAnywhere<T>(), sums);
#pragma GCC unroll 8
        for (int x = 0; x < kX; ++x)
#pragma GCC unroll 8
          for (int v = 0; v < kV; ++v) {
            T* const at = out + (row + x) * width + column + v * kLanes<T>;
            hn::StoreU(hn::Add(hn::LoadU(d, at), sums[x][v]), d, at);
          }
      });
    });
  const int64_t column = whole * kLanes<T>;
  if (column == width) return;
  ForRows(rows, [&](int64_t row, auto constant) {
    constexpr int kX = constant();
    Vector<T> sums[kX][1];
    Product<false>(a + row * kBlockQueries<T>, kBlockQueries<T>, b + column,
                   width, terms, LoadFirst<T>{width - column}, sums);
    HWY_ALIGN T lanes[kLanes<T>];
#pragma GCC unroll 8
    for (int x = 0; x < kX; ++x) {
      hn::Store(sums[x][0], d, lanes);
      for (int64_t c = 0; c < width - column; ++c)
        out[(row + x) * width + column + c] += lanes[c];
    }
  });
}

// Uses keys r, r + L, r + 2 L .. of the tile and vectors of L queries: key r +
// L m and queries from L y on add to the same L diagonals for every m - y.
template <typename T>
void AddDiagonals(const Tile<T>& tile, const GradientTile<T>& own,
                  T* diagonals) {
  const Tag<T> d;
  const int64_t vectors = (tile.rows + kLanes<T> - 1) / kLanes<T>;
  for (int64_t r = 0; r < std::min(kLanes<T>, tile.keys); ++r) {
    const int64_t steps = (tile.keys - r + kLanes<T> - 1) / kLanes<T>;
    for (int64_t apart = 1 - vectors; apart < steps; ++apart) {
      auto sum = hn::Zero(d);
      for (int64_t y = std::max<int64_t>(0, -apart);
           y < vectors && y + apart < steps; ++y)
        sum = hn::Add(
            sum,
            hn::Load(d, own.score +
                            (r + (y + apart) * kLanes<T>)*kBlockQueries<T> +
                            y * kLanes<T>));
      T* const at = diagonals + r + apart * kLanes<T> - (kLanes<T> - 1);
      hn::StoreU(hn::Add(hn::LoadU(d, at), hn::Reverse(d, sum)), d, at);
    }
  }
}

}  // namespace softmax_tiles

template <typename T>
GradientBlock<T>::GradientBlock(Layout& layout, int64_t d, int64_t e, bool caps)
    : scores_(layout, d, e),
      memory_(layout,
              Cut<T>::template Size<softmax_tiles::GradientTile<T>>(d, e, caps),
              OnLine{}),
      tile_(Cut<T>::template Make<softmax_tiles::GradientTile<T>>(
          memory_.data(), d, e, caps)),
      caps_(caps) {}

template <typename T>
void GradientBlock<T>::Begin(const T* q, int64_t rows, T scale, const T* g,
                             const T* sink, const T* grad_lse) {
  constexpr int64_t kQueries = kBlockQueries<T>;
  const int64_t d = scores_.tile_.d, e = scores_.tile_.e;
  scores_.Begin(q, d, rows, scale, sink);
  CopyTransposed(g, e, rows, e, T{1}, tile_.grad, kQueries);
  for (int64_t c = 0; c < e && rows < kQueries; ++c)
    std::fill_n(tile_.grad + c * kQueries + rows, kQueries - rows, T{0});
  for (int64_t x = 0; x < rows * d; ++x) tile_.query_rows[x] = scale * q[x];
  std::fill_n(tile_.grad_lse, kQueries, T{0});
  if (grad_lse) std::copy_n(grad_lse, rows, tile_.grad_lse);
  grad_ = g;
}

template <typename T>
void GradientBlock<T>::Turn() {
  const softmax_tiles::Tile<T>& tile = scores_.tile_;
  softmax_tiles::Turn(tile, tile_);
  for (int64_t i = 0; i < tile.rows; ++i)
    for (int64_t c = 0; c < tile.e; ++c)
      tile_.grad_rows[i * tile.e + c] = tile.factor[i] * grad_[i * tile.e + c];
}

template <typename T>
T GradientBlock<T>::SinkGradient(T sink) const {
  const softmax_tiles::Tile<T>& tile = scores_.tile_;
  T sum = 0;
  for (int64_t i = 0; i < tile.rows; ++i)
    sum -= std::exp(sink - tile.top[i]) * tile_.dot[i];
  return sum;
}

template <typename T>
void GradientBlock<T>::Accumulate(const T* k, const T* v, T* grad_k, T* grad_v,
                                  const ScoreSums& sums) {
  using namespace softmax_tiles;  // NOLINT: the kernels
  const softmax_tiles::Tile<T>& tile = scores_.tile_;
  Weigh(tile);
  AddProduct(tile.score, tile.keys, tile.rows, tile_.grad_rows, tile.e, grad_v);
  ScoreGradients(tile, tile_, v);
  if (sums.diagonals) AddDiagonals(tile, tile_, sums.diagonals);
  if (sums.pairs)
    for (int64_t i = 0; i < tile.rows; ++i)
      for (int64_t j = 0; j < tile.keys; ++j)
        sums.pairs[sums.places.At(i, j)] +=
            tile_.score[j * kBlockQueries<T> + i];
  if (caps_)
    for (int64_t x = 0; x < tile.keys * kBlockQueries<T>; ++x)
      tile_.score[x] *= tile_.slope[x];
  QueryGradients(tile, tile_, k);
  AddProduct(tile_.score, tile.keys, tile.rows, tile_.query_rows, tile.d,
             grad_k);
}

template <typename T>
void GradientBlock<T>::End(T* grad_q, T scale) {
  CopyTransposed(tile_.grad_query, kBlockQueries<T>, scores_.tile_.d,
                 scores_.tile_.rows, scale, grad_q, scores_.tile_.d);
}

template class GradientBlock<float>;
template class GradientBlock<double>;

}  // namespace subquad
