// The kernels of softmax_tiles.h.
//
// Both products are the same register tile: up to 6 rows x 4 vectors of sums
// in registers, and for each term one broadcast per row against vectors of
// queries. A row is a key (terms: the d features, read along the key) or a
// column of the values (terms: the keys, read across).
#include "optimized/softmax/softmax_tiles.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "optimized/base/transpose.h"
#include "optimized/softmax/softmax_tiles_vectors-inl.h"

namespace subquad {
namespace softmax_tiles {

template <typename T>
void Scores(const Tile<T>& tile, const T* k, int64_t k_stride) {
  const Tag<T> d;
  ForVectors(tile, [&](int64_t lane, auto vectors) {
    ForRows(tile.keys, [&](int64_t key, auto rows) {
      constexpr int kX = rows(), kV = vectors();
      Vector<T> sums[kX][kV];
      Product<false>(k + key * k_stride, k_stride, tile.query + lane,
                     kBlockQueries<T>, tile.d, LoadAligned<T>(), sums);
      T* score = tile.score + key * kBlockQueries<T> + lane;
#pragma GCC unroll 8
      for (int x = 0; x < kX; ++x)
#pragma GCC unroll 8
        for (int v = 0; v < kV; ++v)
          hn::Store(sums[x][v], d,
                    score + x * kBlockQueries<T> + v * kLanes<T>);
    });
  });
}

template <typename T>
void AddBias(const Tile<T>& tile, const T* bias) {
  const Tag<T> d;
  const int64_t whole = tile.rows / kLanes<T> * kLanes<T>;
  for (int64_t j = 0; j < tile.keys; ++j) {
    T* score = tile.score + j * kBlockQueries<T>;
    for (int64_t i = 0; i < whole; i += kLanes<T>) {
      const auto reversed =
          hn::Reverse(d, hn::LoadU(d, bias + j - i - (kLanes<T> - 1)));
      hn::Store(hn::Add(hn::Load(d, score + i), reversed), d, score + i);
    }
    for (int64_t i = whole; i < tile.rows; ++i) score[i] += bias[j - i];
  }
}

// Key j reads a row of the table one entry before key j - 1.
template <typename T>
void AddBand(const Tile<T>& tile, const T* table, int64_t stride) {
  const Tag<T> d;
  ForVectors(tile, [&](int64_t lane, auto vectors) {
    ForRows(tile.keys, [&](int64_t key, auto rows) {
      constexpr int kX = rows(), kV = vectors();
      Vector<T> sums[kX][kV];
#pragma GCC unroll 8
      for (int x = 0; x < kX; ++x)
#pragma GCC unroll 8
        for (int v = 0; v < kV; ++v) sums[x][v] = hn::Zero(d);
      for (int64_t t = 0; t < tile.p; ++t) {
        const T* own = tile.band + t * kBlockQueries<T> + lane;
        const T* at = table + t * stride + lane - key;
        Vector<T> query[kV];
#pragma GCC unroll 8
        for (int v = 0; v < kV; ++v)
          query[v] = hn::Load(d, own + v * kLanes<T>);
#pragma GCC unroll 8
        for (int x = 0; x < kX; ++x)
#pragma GCC unroll 8
          for (int v = 0; v < kV; ++v)
            sums[x][v] = hn::MulAdd(
                query[v], hn::LoadU(d, at + v * kLanes<T> - x), sums[x][v]);
      }
      T* score = tile.score + key * kBlockQueries<T> + lane;
#pragma GCC unroll 8
      for (int x = 0; x < kX; ++x)
#pragma GCC unroll 8
        for (int v = 0; v < kV; ++v) {
          T* to = score + x * kBlockQueries<T> + v * kLanes<T>;
          hn::Store(hn::Add(hn::Load(d, to), sums[x][v]), d, to);
        }
    });
  });
}

template <typename T>
void Accumulate(const Tile<T>& tile, const T* v, int64_t v_stride) {
  const Tag<T> d;
  ForVectors(tile, [&](int64_t lane, auto vectors) {
    constexpr int kV = vectors();
    Vector<T> top[kV], sum[kV];
    T* const score = tile.score + lane;
#pragma GCC unroll 8
    for (int x = 0; x < kV; ++x)
      top[x] = hn::Load(d, tile.top + lane + x * kLanes<T>);
    for (int64_t j = 0; j < tile.keys; ++j)
#pragma GCC unroll 8
      for (int x = 0; x < kV; ++x)
        top[x] = hn::Max(
            top[x], hn::Load(d, score + j * kBlockQueries<T> + x * kLanes<T>));
    Vector<T> factor[kV];
#pragma GCC unroll 8
    for (int x = 0; x < kV; ++x)
      factor[x] = hn::Load(d, tile.top + lane + x * kLanes<T>);
    ExpOfDifferences<T>(top, factor);
#pragma GCC unroll 8
    for (int x = 0; x < kV; ++x) {
      hn::Store(factor[x], d, tile.factor + lane + x * kLanes<T>);
      hn::Store(top[x], d, tile.top + lane + x * kLanes<T>);
      sum[x] = hn::Zero(d);
    }
    const int64_t keys = tile.keys;
    for (int64_t j = 0; j < keys; ++j) {
      Vector<T> weight[kV];
#pragma GCC unroll 8
      for (int x = 0; x < kV; ++x)
        weight[x] = hn::Load(d, score + j * kBlockQueries<T> + x * kLanes<T>);
      ExpOfDifferences<T>(top, weight);
#pragma GCC unroll 8
      for (int x = 0; x < kV; ++x) {
        hn::Store(weight[x], d, score + j * kBlockQueries<T> + x * kLanes<T>);
        sum[x] = hn::Add(sum[x], weight[x]);
      }
    }
    for (int x = 0; x < kV; ++x) {
      const int64_t at = lane + x * kLanes<T>;
      hn::Store(hn::MulAdd(hn::Load(d, tile.sum + at),
                           hn::Load(d, tile.factor + at), sum[x]),
                d, tile.sum + at);
    }
    ForRows(tile.e, [&](int64_t column, auto rows) {
      constexpr int kX = rows();
      Vector<T> sums[kX][kV];
      Product<true>(v + column, v_stride, score, kBlockQueries<T>, tile.keys,
                    LoadAligned<T>(), sums);
      T* out = tile.out + column * kBlockQueries<T> + lane;
#pragma GCC unroll 8
      for (int y = 0; y < kV; ++y) {
#pragma GCC unroll 8
        for (int x = 0; x < kX; ++x) {
          T* at = out + x * kBlockQueries<T> + y * kLanes<T>;
          hn::Store(hn::MulAdd(hn::Load(d, at), factor[y], sums[x][y]), d, at);
        }
      }
    });
  });
}

template <typename T>
void MultiplyInOrder(const T* a, int64_t a_stride, int64_t rows, int64_t terms,
                     const T* b, int64_t width, T* out) {
  const Tag<T> d;
  const int64_t whole = width / kLanes<T>;
  for (int64_t vector = 0; vector < whole; vector += kVectors)
    WithConstant<kVectors>(whole - vector, [&](auto vectors) {
      const int64_t column = vector * kLanes<T>;
      ForRows(rows, [&](int64_t row, auto constant) {
        constexpr int kX = constant(), kV = vectors();
        Vector<T> sums[kX][kV];
        Product<false>(a + row * a_stride, a_stride, b + column, width, terms,
                       LoadAnywhere<T>(), sums);
#pragma GCC unroll 8
        for (int x = 0; x < kX; ++x)
#pragma GCC unroll 8
          for (int v = 0; v < kV; ++v)
            hn::StoreU(sums[x][v], d,
                       out + (row + x) * width + column + v * kLanes<T>);
      });
    });
  const int64_t column = whole * kLanes<T>;
  if (column == width) return;
  ForRows(rows, [&](int64_t row, auto constant) {
    constexpr int kX = constant();
    Vector<T> sums[kX][1];
    Product<false>(a + row * a_stride, a_stride, b + column, width, terms,
                   LoadFirst<T>{width - column}, sums);
    HWY_ALIGN T lanes[kLanes<T>];
#pragma GCC unroll 8
    for (int x = 0; x < kX; ++x) {
      hn::Store(sums[x][0], d, lanes);
      std::copy_n(lanes, width - column, out + (row + x) * width + column);
    }
  });
}

template <typename T>
void Divide(const Tile<T>& tile) {
  const Tag<T> d;
  for (int64_t c = 0; c < tile.e; ++c)
    for (int64_t i = 0; i < tile.rows; i += kLanes<T>) {
      T* at = tile.out + c * kBlockQueries<T> + i;
      hn::Store(QuotientOrZero(hn::Load(d, at), hn::Load(d, tile.sum + i)), d,
                at);
    }
}

template <typename T>
HWY_INLINE Vector<T> Capped(Vector<T> score, Vector<T> cap, Vector<T>& slope) {
  const Tag<T> d;
  const auto tangent = hn::Tanh(d, hn::Div(score, cap));
  const auto one = hn::Set(d, T{1});
  slope = hn::Mul(hn::Sub(one, tangent), hn::Add(one, tangent));
  return hn::Mul(cap, tangent);
}

template <typename T>
void CapRow(T* row, int64_t count, T cap, T* slopes) {
  const Tag<T> d;
  const auto caps = hn::Set(d, cap);
  Vector<T> slope;
  const int64_t whole = count / kLanes<T> * kLanes<T>;
  for (int64_t j = 0; j < whole; j += kLanes<T>) {
    hn::StoreU(Capped<T>(hn::LoadU(d, row + j), caps, slope), d, row + j);
    if (slopes) hn::StoreU(slope, d, slopes + j);
  }
  if (whole == count) return;
  HWY_ALIGN T tail[kLanes<T>] = {};
  std::copy(row + whole, row + count, tail);
  hn::Store(Capped<T>(hn::Load(d, tail), caps, slope), d, tail);
  std::copy_n(tail, count - whole, row + whole);
  if (!slopes) return;
  hn::Store(slope, d, tail);
  std::copy_n(tail, count - whole, slopes + whole);
}

// Returns ln(sum exp(top)), -inf for an empty sum.
template <typename T>
T LogSum(T top, T sum) {
  return sum == 0 ? -std::numeric_limits<T>::infinity() : top + std::log(sum);
}

// Puts keys in the lanes, four vectors at a time to hide latencies.
template <typename T>
T ExponentiateRow(T* row, int64_t count, const T* bias, T* sink, T* log_sum) {
  constexpr int64_t kStep = 4 * kLanes<T>;
  const Tag<T> d;
  const auto lowest = hn::Set(d, std::numeric_limits<T>::lowest());
  HWY_ALIGN T tail[kStep];
  const int64_t whole = count / kStep * kStep;
  std::fill_n(tail, kStep, -std::numeric_limits<T>::infinity());
  for (int64_t j = whole; j < count; ++j)
    tail[j - whole] = bias ? row[j] + bias[j] : row[j];
  Vector<T> top[4], sum[4];
#pragma GCC unroll 4
  for (int x = 0; x < 4; ++x) {
    top[x] = hn::Max(lowest, hn::Load(d, tail + x * kLanes<T>));
    sum[x] = hn::Zero(d);
  }
  for (int64_t j = 0; j < whole; j += kStep)
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) {
      T* at = row + j + x * kLanes<T>;
      auto score = hn::LoadU(d, at);
      if (bias) {
        score = hn::Add(score, hn::LoadU(d, bias + j + x * kLanes<T>));
        hn::StoreU(score, d, at);
      }
      top[x] = hn::Max(top[x], score);
    }
  if (sink) top[0] = hn::Max(top[0], hn::Set(d, *sink));
  const auto most = hn::MaxOfLanes(
      d, hn::Max(hn::Max(top[0], top[1]), hn::Max(top[2], top[3])));
  const Vector<T> most_of[4] = {most, most, most, most};
  const auto add = [&](T* at) {
    Vector<T> weight[4];
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) weight[x] = hn::LoadU(d, at + x * kLanes<T>);
    ExpOfDifferences<T>(most_of, weight);
#pragma GCC unroll 4
    for (int x = 0; x < 4; ++x) {
      hn::StoreU(weight[x], d, at + x * kLanes<T>);
      sum[x] = hn::Add(sum[x], weight[x]);
    }
  };
  for (int64_t j = 0; j < whole; j += kStep) add(row + j);
  add(tail);
  std::copy_n(tail, count - whole, row + whole);
  T total = hn::GetLane(hn::SumOfLanes(
      d, hn::Add(hn::Add(sum[0], sum[1]), hn::Add(sum[2], sum[3]))));
  if (sink) {
    const Vector<T> most_of_sink[1] = {most};
    Vector<T> weight[1] = {hn::Set(d, *sink)};
    ExpOfDifferences<T>(most_of_sink, weight);
    *sink = hn::GetLane(weight[0]);
    total += *sink;
  }
  if (log_sum) *log_sum = LogSum(hn::GetLane(most), total);
  return total == 0 ? T{1} : total;
}

}  // namespace softmax_tiles

template <typename T>
SoftmaxBlock<T>::SoftmaxBlock(Layout& layout, int64_t d, int64_t e, int64_t p)
    : memory_(layout, Cut<T>::template Size<softmax_tiles::Tile<T>>(d, e, p),
              OnLine{}),
      tile_(Cut<T>::template Make<softmax_tiles::Tile<T>>(memory_.data(), d, e,
                                                          p)) {}

template <typename T>
void SoftmaxBlock<T>::Begin(const T* q, int64_t q_stride, int64_t rows, T scale,
                            const T* sink) {
  constexpr int64_t kQueries = kBlockQueries<T>;
  tile_.rows = rows;
  CopyTransposed(q, q_stride, rows, tile_.d, scale, tile_.query, kQueries);
  for (int64_t a = 0; a < tile_.d && rows < kQueries; ++a)
    std::fill_n(tile_.query + a * kQueries + rows, kQueries - rows, T{0});
  std::fill_n(tile_.out, tile_.e * kQueries, T{0});
  std::fill_n(tile_.top, kQueries,
              sink ? *sink : std::numeric_limits<T>::lowest());
  std::fill_n(tile_.sum, kQueries, sink ? T{1} : T{0});
}

template <typename T>
void SoftmaxBlock<T>::BeginBand(const T* r, int64_t r_stride) {
  constexpr int64_t kQueries = kBlockQueries<T>;
  CopyTransposed(r, r_stride, tile_.rows, tile_.p, T{1}, tile_.band, kQueries);
  for (int64_t x = 0; x < tile_.p && tile_.rows < kQueries; ++x)
    std::fill_n(tile_.band + x * kQueries + tile_.rows, kQueries - tile_.rows,
                T{0});
}

template <typename T>
void SoftmaxBlock<T>::Scores(const T* k, int64_t k_stride, int64_t keys) {
  tile_.keys = keys;
  softmax_tiles::Scores(tile_, k, k_stride);
}

template <typename T>
void SoftmaxBlock<T>::Cap(T cap, T* slopes) {
  softmax_tiles::CapRow(tile_.score, tile_.keys * kBlockQueries<T>, cap,
                        slopes);
}

template <typename T>
void SoftmaxBlock<T>::AddBias(const T* bias) {
  softmax_tiles::AddBias(tile_, bias);
}

template <typename T>
void SoftmaxBlock<T>::AddPairs(const T* bias, const PairPlaces& places) {
  for (int64_t i = 0; i < tile_.rows; ++i)
    for (int64_t j = 0; j < tile_.keys; ++j)
      Score(i, j) += bias[places.At(i, j)];
}

template <typename T>
void SoftmaxBlock<T>::HidePairs(const T* mask, const PairPlaces& places) {
  for (int64_t i = 0; i < tile_.rows; ++i)
    for (int64_t j = 0; j < tile_.keys; ++j)
      if (mask[places.At(i, j)] == 0)
        Score(i, j) = -std::numeric_limits<T>::infinity();
}

template <typename T>
void SoftmaxBlock<T>::AddBand(const T* table, int64_t stride) {
  softmax_tiles::AddBand(tile_, table, stride);
}

template <typename T>
void SoftmaxBlock<T>::HideAfter(int64_t last) {
  for (int64_t j = std::max<int64_t>(0, last + 1); j < tile_.keys; ++j)
    std::fill_n(&Score(0, j), std::min(j - last, tile_.rows),
                -std::numeric_limits<T>::infinity());
}

template <typename T>
void SoftmaxBlock<T>::HideBefore(int64_t first) {
  for (int64_t j = 0; j < tile_.keys; ++j) {
    const int64_t i = std::max<int64_t>(0, j - first + 1);
    if (i < tile_.rows)
      std::fill_n(&Score(i, j), tile_.rows - i,
                  -std::numeric_limits<T>::infinity());
  }
}

template <typename T>
void SoftmaxBlock<T>::Accumulate(const T* v, int64_t v_stride) {
  softmax_tiles::Accumulate(tile_, v, v_stride);
}

template <typename T>
void SoftmaxBlock<T>::LogSums(T* to) const {
  for (int64_t i = 0; i < tile_.rows; ++i)
    to[i] = softmax_tiles::LogSum(tile_.top[i], tile_.sum[i]);
}

template <typename T>
void SoftmaxBlock<T>::End(T* out, int64_t out_stride) {
  softmax_tiles::Divide(tile_);
  CopyTransposed(tile_.out, kBlockQueries<T>, tile_.e, tile_.rows, T{1}, out,
                 out_stride);
}

template class SoftmaxBlock<float>;
template class SoftmaxBlock<double>;

template <typename T>
T ExponentiateRow(T* row, int64_t count, const T* bias, T* sink, T* log_sum) {
  return softmax_tiles::ExponentiateRow(row, count, bias, sink, log_sum);
}
template float ExponentiateRow(float*, int64_t, const float*, float*, float*);
template double ExponentiateRow(double*, int64_t, const double*, double*,
                                double*);

template <typename T>
void CapRow(T* row, int64_t count, T cap, T* slopes) {
  softmax_tiles::CapRow(row, count, cap, slopes);
}
template void CapRow(float*, int64_t, float, float*);
template void CapRow(double*, int64_t, double, double*);

template <typename T>
void MultiplyInOrder(const T* a, int64_t a_stride, int64_t rows, int64_t terms,
                     const T* b, int64_t width, T* out) {
  softmax_tiles::MultiplyInOrder(a, a_stride, rows, terms, b, width, out);
}
template void MultiplyInOrder(const float*, int64_t, int64_t, int64_t,
                              const float*, int64_t, float*);
template void MultiplyInOrder(const double*, int64_t, int64_t, int64_t,
                              const double*, int64_t, double*);

}  // namespace subquad
