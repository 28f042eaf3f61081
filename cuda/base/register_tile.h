// Matrix products inside a kernel: a tile of 64 x 64 sums in the registers of
// 256 threads, 4 x 4 each, from operands in shared memory.
//
// A product is a sum of outer products: sums[r][c] += a[k][r] b[k][c]. Both
// operands have the depth k as their first axis, so that a thread reads its
// four rows and its four columns as one float4 each.
#pragma once

#include <cstdint>

#include "cuda/base/storage.h"

namespace subquad::device {

inline constexpr int kTile = 64;          // rows and columns of sums
inline constexpr int kTileThreads = 256;  // 16 x 16
inline constexpr int kTileLanes = 16;     // threads that share rows
inline constexpr int kSlab = 32;          // depth of a slab in shared memory
// Pitch of a row in shared memory: whole float4s, with rows starting in
// different banks.
inline constexpr int kTilePitch = kTile + 4;

using TileRow = float[kTilePitch];

// Returns the first row (and in the next function column) of this thread's
// sums.
__device__ inline int TileRowOfThread() {
  return static_cast<int>(threadIdx.x) / kTileLanes * 4;
}
__device__ inline int TileColumnOfThread() {
  return static_cast<int>(threadIdx.x) % kTileLanes * 4;
}

__device__ inline float4 LoadFour(const float* at) {
  return *reinterpret_cast<const float4*>(at);
}

// Loads tile[r][c] = matrix[r][c] for r < kRows and c < 64, zero from `rows`
// and `columns` on. Threads read along the rows.
template <int kRows, typename S>
__device__ inline void LoadTile(const S* matrix, int64_t stride, int64_t rows,
                                int64_t columns, TileRow* tile) {
  const int c = static_cast<int>(threadIdx.x) % kTile;
#pragma unroll
  for (int first = 0; first < kRows; first += kTileThreads / kTile) {
    const int r = first + static_cast<int>(threadIdx.x) / kTile;
    tile[r][c] =
        r < rows && c < columns ? ToFloat(matrix[r * stride + c]) : 0.0f;
  }
}

// Loads tile[k][r] = matrix[r][k] for k < 32 and r < 64, zero from `rows` and
// `columns` on. A warp reads whole sectors of four rows and writes to 32 banks.
template <typename S>
__device__ inline void LoadTransposed(const S* matrix, int64_t stride,
                                      int64_t rows, int64_t columns,
                                      TileRow* tile) {
  constexpr int kSector = 8;
  constexpr int kRows = kTileThreads / kSector;
#pragma unroll
  for (int first = 0; first < kTile; first += kRows) {
    const int r = first + static_cast<int>(threadIdx.x) / kSector;
#pragma unroll
    for (int begin = 0; begin < kSlab; begin += kSector) {
      const int k = begin + static_cast<int>(threadIdx.x) % kSector;
      tile[k][r] =
          r < rows && k < columns ? ToFloat(matrix[r * stride + k]) : 0.0f;
    }
  }
}

// Computes sums[r][c] += a[r] b[c].
__device__ inline void AddOuter(const float4& a, const float4& b,
                                float (&sums)[4][4]) {
  const float rows[4] = {a.x, a.y, a.z, a.w};
  const float columns[4] = {b.x, b.y, b.z, b.w};
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      sums[r][c] = fmaf(rows[r], columns[c], sums[r][c]);
}

// Computes sums += a^T b over a depth of kDepth.
template <int kDepth>
__device__ inline void AddProduct(const TileRow* a, const TileRow* b,
                                  float (&sums)[4][4]) {
  const int row = TileRowOfThread(), column = TileColumnOfThread();
#pragma unroll 8
  for (int k = 0; k < kDepth; ++k)
    AddOuter(LoadFour(&a[k][row]), LoadFour(&b[k][column]), sums);
}

// Stores tile[c][r] = sums[r][c]: rows of sums become the depth of the next
// product.
__device__ inline void StoreTransposed(const float (&sums)[4][4],
                                       TileRow* tile) {
  const int row = TileRowOfThread(), column = TileColumnOfThread();
#pragma unroll
  for (int c = 0; c < 4; ++c)
    *reinterpret_cast<float4*>(&tile[column + c][row]) =
        make_float4(sums[0][c], sums[1][c], sums[2][c], sums[3][c]);
}

}  // namespace subquad::device
