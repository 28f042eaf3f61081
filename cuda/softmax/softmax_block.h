// Functions for kernels: 64 queries against tiles of 64 keys by a block of 128
// threads, with scores in registers and sums that are rescaled when a tile
// raises the largest score (Milakov and Gimelshein 2018; FlashAttention, Dao et
// al. 2022). All arithmetic is in float32, on the ordinary cores: no tensor
// core multiplies float32 without rounding its factors.
//
// A thread has 4 queries x 8 keys of the scores, and 4 queries x kColumns / 8
// columns of the result. The 8 threads of a query are in one warp, so that
// maxima are exchanged by shuffles and weights within a warp.
//
//   SoftmaxState<kColumns> state;
//   for each tile:
//     float score[4][8] = {};
//     for each slab of at most 64 columns of q and k:
//       __syncthreads();
//       LoadTransposed(.., shared.query); LoadTransposed(.., shared.key);
//       __syncthreads();
//       AddProducts(shared.query, shared.key, depth, score);
//     score = -inf for hidden pairs
//     state.Weigh(score, shared);
//     state.AddTile(.., shared);
//   state.End(..);
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/base/launch.h"
#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

inline constexpr int kSoftmaxThreads = 128;
inline constexpr int kSoftmaxQueries = 64;
inline constexpr int kSoftmaxKeys = 64;
inline constexpr int kSoftmaxDepth = 64;  // columns of q and k at a time

// Columns of 64 queries or keys, one column per row: the padding keeps
// transposing without bank conflicts and four elements aligned.
using SoftmaxSlab = float[kSoftmaxDepth][kSoftmaxQueries + 4];

struct SoftmaxShared {
  SoftmaxSlab query;
  union {
    SoftmaxSlab key;
    float value[kSoftmaxKeys * 64];  // a tile of 64 columns, or half of 128
  };
  float weight[kSoftmaxThreads / 32][kSoftmaxKeys][16 + 4];  // of each warp
  float bias[2 * kSoftmaxQueries];  // of key - query = -63 .. 63
};

// ---- the pairs of a thread

// Neighbouring lanes differ in x, lanes two apart in y: reads of four elements
// then have the pairs of equal addresses that the hardware serves at once.
__device__ inline int SoftmaxX() {  // 0..7: keys, and columns of values
  return static_cast<int>((threadIdx.x & 1) | (threadIdx.x % 32 >> 3) << 1);
}
__device__ inline int SoftmaxRow() {  // the first of four queries
  return static_cast<int>(threadIdx.x / 32 * 16 + (threadIdx.x >> 1 & 3) * 4);
}
// Returns the key, or the column of the values, of a thread's element c.
__device__ inline int SoftmaxColumn(int c) {
  return c / 4 * 32 + SoftmaxX() * 4 + c % 4;
}

// ---- vectors of four elements

template <typename T>
struct alignas(4 * sizeof(T)) FourOf {
  T at[4];
};

// True for rows of `width` elements that all begin at the alignment of a
// FourOf.
template <typename T>
bool InFours(HeadArray<T> rows, int64_t width) {
  return width % 4 == 0 && rows.head_stride % 4 == 0 &&
         reinterpret_cast<uintptr_t>(rows.data) % (4 * sizeof(T)) == 0;
}

// Loads the first `count` of four elements, and zeros. `aligned` as InFours
// says.
template <typename T>
__device__ inline float4 LoadFour(const T* from, int count, bool aligned) {
  if (aligned && count > 0) {
    const FourOf<T> x = *reinterpret_cast<const FourOf<T>*>(from);
    return make_float4(ToFloat(x.at[0]), ToFloat(x.at[1]), ToFloat(x.at[2]),
                       ToFloat(x.at[3]));
  }
  return make_float4(
      count > 0 ? ToFloat(from[0]) : 0.0f, count > 1 ? ToFloat(from[1]) : 0.0f,
      count > 2 ? ToFloat(from[2]) : 0.0f, count > 3 ? ToFloat(from[3]) : 0.0f);
}

template <typename T>
__device__ inline void StoreFour(const float* four, int count, bool aligned,
                                 T* to) {
  if (aligned && count > 0) {
    FourOf<T> x;
#pragma unroll
    for (int c = 0; c < 4; ++c) Store(four[c], &x.at[c]);
    *reinterpret_cast<FourOf<T>*>(to) = x;
    return;
  }
#pragma unroll
  for (int c = 0; c < 4; ++c)
    if (c < count) Store(four[c], to + c);
}

// Reads from shared memory into registers.
__device__ inline void ReadFour(const float* from, float* to) {
  const float4 x = *reinterpret_cast<const float4*>(from);
  to[0] = x.x;
  to[1] = x.y;
  to[2] = x.z;
  to[3] = x.w;
}

// ---- tiles

// Loads that a thread starts before it stores the first: otherwise each would
// wait for the previous one.
inline constexpr int kSoftmaxLoads = 8;

// Loads to[a][r] = factor * row(r)[a] for a < depth; zero for rows from `rows`
// on, which are not requested. Two threads share a row.
template <typename Row>
__device__ inline void LoadTransposed(const Row& row, int rows, int depth,
                                      bool aligned, float factor,
                                      SoftmaxSlab& to) {
  static_assert(kSoftmaxLoads * 8 == kSoftmaxDepth);
  const int r = static_cast<int>(threadIdx.x / 2);
  const int first = threadIdx.x % 2 * 4;
  const auto* from = r < rows ? row(r) : nullptr;
  float4 x[kSoftmaxLoads];
#pragma unroll
  for (int i = 0; i < kSoftmaxLoads; ++i) {
    const int a = first + i * 8;
    x[i] = LoadFour(from + a, r < rows ? depth - a : 0, aligned);
  }
#pragma unroll
  for (int i = 0; i < kSoftmaxLoads; ++i) {
    const int a = first + i * 8;
    if (a >= depth) break;
    to[a][r] = factor * x[i].x;
    to[a + 1][r] = factor * x[i].y;
    to[a + 2][r] = factor * x[i].z;
    to[a + 3][r] = factor * x[i].w;
  }
}

// Loads to[r * stride + c] = row(r)[c] for r < kRows, c < kColumns; zero where
// r >= rows or c >= columns, which are not requested.
template <int kRows, int kColumns, typename Row>
__device__ inline void LoadRows(const Row& row, int rows, int columns,
                                bool aligned, int stride, float* to) {
  constexpr int kFours = kColumns / 4;
  constexpr int kStep = kSoftmaxThreads / kFours;
  constexpr int kEach = kRows / kStep;
  constexpr int kLoads = kEach < kSoftmaxLoads ? kEach : kSoftmaxLoads;
  static_assert(kRows % (kStep * kLoads) == 0);
  const int c = static_cast<int>(threadIdx.x % kFours * 4);
#pragma unroll 1
  for (int r0 = threadIdx.x / kFours; r0 < kRows; r0 += kStep * kLoads) {
    float4 x[kLoads];
#pragma unroll
    for (int i = 0; i < kLoads; ++i) {
      const int r = r0 + i * kStep;
      const auto* from = r < rows ? row(r) : nullptr;
      x[i] = LoadFour(from + c, r < rows ? columns - c : 0, aligned);
    }
#pragma unroll
    for (int i = 0; i < kLoads; ++i)
      *reinterpret_cast<float4*>(&to[(r0 + i * kStep) * stride + c]) = x[i];
  }
}

// Computes sums[r][c] += sum_t a[t][query r] b[t][key c] over t < terms: the
// scores, for the columns that are in shared memory.
__device__ inline void AddProducts(const SoftmaxSlab& a, const SoftmaxSlab& b,
                                   int terms, float (&sums)[4][8]) {
  const int row = SoftmaxRow(), x = SoftmaxX();
#pragma unroll 4
  for (int t = 0; t < terms; ++t) {
    float left[4], right[8];
    ReadFour(&a[t][row], left);
    ReadFour(&b[t][x * 4], right);
    ReadFour(&b[t][32 + x * 4], right + 4);
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 8; ++c) sums[r][c] += left[r] * right[c];
  }
}

// Adds shared.bias to the scores: all pairs on a diagonal of the tile have the
// same bias.
__device__ inline void AddBias(const SoftmaxShared& shared,
                               float (&score)[4][8]) {
  const int row = SoftmaxRow();
#pragma unroll
  for (int group = 0; group < 8; group += 4) {
    const float* at = &shared.bias[SoftmaxColumn(group) - row + 63];
    float bias[7];
#pragma unroll
    for (int t = 0; t < 7; ++t) bias[t] = at[t - 3];
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) score[r][group + c] += bias[c - r + 3];
  }
}

// Replaces every score by adjusted(query, key of the tile, score).
template <typename Adjusted>
__device__ inline void Adjust(const Adjusted& adjusted, float (&score)[4][8]) {
  const int row = SoftmaxRow();
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 8; ++c)
      score[r][c] = adjusted(row + r, SoftmaxColumn(c), score[r][c]);
}

// Sets the score to -inf where hidden(query, key) of the tile.
template <typename Hidden>
__device__ inline void Hide(const Hidden& hidden, float (&score)[4][8]) {
  Adjust(
      [&](int query, int key, float x) {
        return hidden(query, key) ? -std::numeric_limits<float>::infinity() : x;
      },
      score);
}

// The state that a thread keeps from tile to tile.
template <int kColumns>
class SoftmaxState {
  static_assert(kColumns == 64 || kColumns == 128);

 public:
  // Begins with the weight of a sink, which has no value.
  __device__ void AddSink(float sink) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      top_[r] = sink;
      if (SoftmaxX() == 0) sum_[r] = 1;
    }
  }

  // Turns scores into weights in shared memory, and rescales earlier sums to
  // the same largest score. That begins as the lowest finite number, so that a
  // tile without a single key leaves no inf - inf.
  __device__ void Weigh(float (&score)[4][8], SoftmaxShared& shared) {
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      float top = top_[r];
#pragma unroll
      for (int c = 0; c < 8; ++c) top = fmaxf(top, score[r][c]);
      top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 1));
      top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 8));
      top = fmaxf(top, __shfl_xor_sync(0xFFFFFFFF, top, 16));
      const float factor = expf(top_[r] - top);
      top_[r] = top;
      float sum = 0;
#pragma unroll
      for (int c = 0; c < 8; ++c) {
        score[r][c] = expf(score[r][c] - top);
        sum += score[r][c];
      }
      sum_[r] = sum_[r] * factor + sum;
#pragma unroll
      for (int c = 0; c < kOwn; ++c) out_[r][c] *= factor;
    }
    const int row = SoftmaxRow() % 16;
#pragma unroll
    for (int c = 0; c < 8; ++c)
      *reinterpret_cast<float4*>(
          &shared.weight[threadIdx.x / 32][SoftmaxColumn(c)][row]) =
          make_float4(score[0][c], score[1][c], score[2][c], score[3][c]);
  }

  // Adds the weights times the values of the tile's `keys` keys: `columns` of
  // them (further ones count as zero); row(j) points to the first.
  template <typename Row>
  __device__ void AddTile(const Row& row, int keys, int columns, bool aligned,
                          SoftmaxShared& shared) {
    constexpr int kKeys = kSoftmaxKeys * 64 / kColumns;
#pragma unroll 1
    for (int first = 0; first < keys; first += kKeys) {
      __syncthreads();  // all threads have read the keys and the values
      LoadRows<kKeys, kColumns>([=](int j) { return row(first + j); },
                                keys - first, columns, aligned, kColumns,
                                shared.value);
      __syncthreads();
      AddValues(shared, first, min(kKeys, keys - first));
    }
  }

  // Writes the quotients of the queries before `rows` to to(query).
  template <typename Row>
  __device__ void End(const Row& to, int rows, int columns,
                      bool aligned) const {
    const int row = SoftmaxRow();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float sum = Sum(r);
      if (row + r >= rows) continue;
#pragma unroll
      for (int c = 0; c < kOwn; c += 4) {
        float four[4];
#pragma unroll
        for (int x = 0; x < 4; ++x)
          four[x] = QuotientOrZero(out_[r][c + x], sum);
        const int column = SoftmaxColumn(c);
        StoreFour(four, columns - column, aligned, to(row + r) + column);
      }
    }
  }

  // Writes the logarithms of the sums of weights of the queries before `rows`.
  template <typename Out>
  __device__ void WriteLogSums(int rows, Out* to) const {
    const int row = SoftmaxRow();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float sum = Sum(r);
      if (SoftmaxX() == 0 && row + r < rows)
        Store(top_[r] + logf(sum), &to[row + r]);
    }
  }

  // Saves the partial result of these queries, for a later kernel to continue:
  // the largest score, the sum of the weights, and sums of values to to(query).
  template <typename Row>
  __device__ void Save(const Row& to, int rows, int columns, bool aligned,
                       float* tops, float* sums) const {
    const int row = SoftmaxRow();
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const float sum = Sum(r);
      if (row + r >= rows) continue;
      if (SoftmaxX() == 0) {
        tops[row + r] = top_[r];
        sums[row + r] = sum;
      }
#pragma unroll
      for (int c = 0; c < kOwn; c += 4) {
        const int column = SoftmaxColumn(c);
        StoreFour(&out_[r][c], columns - column, aligned, to(row + r) + column);
      }
    }
  }

 private:
  static constexpr int kOwn = kColumns / 8;  // columns of a thread

  // Sums over all keys of the tiles: the eight threads of a query have one part
  // each.
  __device__ float Sum(int r) const {
    float sum = sum_[r];
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, 1);
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, 8);
    return sum + __shfl_xor_sync(0xFFFFFFFF, sum, 16);
  }

  __device__ void AddValues(const SoftmaxShared& shared, int first, int keys) {
    const int row = SoftmaxRow() % 16, x = SoftmaxX();
#pragma unroll 4
    for (int j = 0; j < keys; ++j) {
      float weight[4], value[kOwn];
      ReadFour(&shared.weight[threadIdx.x / 32][first + j][row], weight);
#pragma unroll
      for (int c = 0; c < kOwn; c += 4)
        ReadFour(&shared.value[j * kColumns + c * 8 + x * 4], value + c);
#pragma unroll
      for (int r = 0; r < 4; ++r)
#pragma unroll
        for (int c = 0; c < kOwn; ++c) out_[r][c] += weight[r] * value[c];
    }
  }

  static constexpr float kLowest = std::numeric_limits<float>::lowest();
  float top_[4] = {kLowest, kLowest, kLowest, kLowest};
  float sum_[4] = {};  // of this thread's keys only
  float out_[4][kOwn] = {};
};

}  // namespace subquad::device
