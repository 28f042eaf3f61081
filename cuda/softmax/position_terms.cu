#include "cuda/base/warp.h"
#include "cuda/softmax/position_terms.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;
constexpr int kTile = 32;
constexpr int kTileRows = 8;

__global__ void Reverse(const float* rows, int64_t n, int64_t width,
                        int64_t out_head_stride, float* out) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= n * width) return;
  const int64_t j = at / width, a = at % width;
  out[blockIdx.y * out_head_stride + (n - 1 - j) * width + a] =
      rows[blockIdx.y * n * width + at];
}

struct AddedTile {
  float at[kTile][kTile + 1];
};

// Products by keys are read along the queries and passed on along the keys.
__global__ void AddTerms(const float* by_offset, int64_t offset_stride,
                         const float* by_key, int64_t key_stride,
                         int64_t padded_keys, int64_t rows, int64_t n,
                         int64_t stride, float* scores) {
  SUBQUAD_SHARED(AddedTile, tile);
  const int64_t j0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t i0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t head = blockIdx.z;
  for (int k = threadIdx.y; k < kTile; k += kTileRows) {
    const int64_t i = i0 + threadIdx.x, reversed = n - 1 - (j0 + k);
    if (i < rows && reversed >= 0)
      tile.at[k][threadIdx.x] =
          by_key[(head * padded_keys + reversed) * key_stride + i +
                 reversed % kKeysOfBlock];
  }
  __syncthreads();
  for (int k = threadIdx.y; k < kTile; k += kTileRows) {
    const int64_t i = i0 + k, j = j0 + threadIdx.x;
    if (i >= rows || j >= n) continue;
    const int64_t row = head * rows + i;
    scores[row * stride + j] +=
        by_offset[row * offset_stride + j - i + rows - 1] +
        tile.at[threadIdx.x][k];
  }
}

// The number of threads per pair.
constexpr int kLanes = 8;
__global__ void AddProducts(PairRows a, PairRows b, int64_t d, int64_t queries,
                            int64_t n, int64_t stride, float* scores) {
  const int64_t pair =
      (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  const bool here = pair < queries * n;
  const int64_t i = here ? pair / n : 0, j = here ? pair % n : 0;
  const float *left = a.Of(i, j), *right = b.Of(i, j);
  float sum = 0;
  for (int64_t x = threadIdx.x % kLanes; x < d; x += kLanes)
    sum += left[x] * right[x];
  sum = SumOfLanes<kLanes>(sum);
  if (here && threadIdx.x % kLanes == 0) scores[i * stride + j] += sum;
}

}  // namespace

void ReverseRows(const float* rows, int64_t heads, int64_t n, int64_t width,
                 int64_t out_head_stride, float* out) {
  SUBQUAD_LAUNCH(Reverse, Grid(PiecesOf(n * width, kThreads), heads), kThreads,
                 0, rows, n, width, out_head_stride, out);
}

void AddOffsetTerms(const float* by_offset, int64_t offset_stride,
                    const float* by_key, int64_t key_stride,
                    int64_t padded_keys, int64_t heads, int64_t rows, int64_t n,
                    int64_t stride, float* scores) {
  SUBQUAD_LAUNCH(
      AddTerms, Grid(PiecesOf(n, kTile), PiecesOf(rows, kTile), heads),
      dim3(kTile, kTileRows), sizeof(AddedTile), by_offset, offset_stride,
      by_key, key_stride, padded_keys, rows, n, stride, scores);
}

void AddPairProducts(PairRows a, PairRows b, int64_t d, int64_t queries,
                     int64_t n, int64_t stride, float* scores) {
  SUBQUAD_LAUNCH(AddProducts, Grid(PiecesOf(queries * n, kThreads / kLanes)),
                 kThreads, 0, a, b, d, queries, n, stride, scores);
}

}  // namespace subquad::device
