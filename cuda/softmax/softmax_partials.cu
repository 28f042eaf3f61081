#include <algorithm>
#include <limits>

#include "cuda/base/launch.h"
#include "cuda/base/warp.h"
#include "cuda/softmax/softmax_partials.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kColumnsOfLane = 2;
constexpr int kColumns = kWarp * kColumnsOfLane;  // columns of a warp

// From this number of parts on, the warps of a block share a row; with fewer
// parts, each warp takes its own row.
constexpr int64_t kPartsToShare = 16;

struct MergeShared {
  float sum[kWarps];
  float out[kWarps][kColumns];
};

// A warp's sums of a row: the sum of weights, and some columns in each lane.
struct MergedRow {
  float top = 0, sum = 0, out[kColumnsOfLane] = {};

  // Adds every step-th part of the row from `begin` on, for the columns from
  // `first` on. The largest score is that of all parts.
  __device__ void Add(const SoftmaxPartials& partials, int64_t row,
                      int64_t rows, int64_t splits, int begin, int step,
                      float unit, int64_t first) {
    top = std::numeric_limits<float>::lowest();
    for (int64_t s = threadIdx.x % kWarp; s < splits; s += kWarp)
      top = fmaxf(top, partials.top[s * rows + row]);
    top = LargestOfLanes(top);
#pragma unroll 4
    for (int64_t s = begin; s < splits; s += step) {
      const int64_t at = s * rows + row;
      const float factor = exp2f((partials.top[at] - top) * unit);
      sum = fmaf(partials.sum[at], factor, sum);
#pragma unroll
      for (int x = 0; x < kColumnsOfLane; ++x)
        if (first + x * kWarp < partials.columns)
          out[x] = fmaf(partials.out[at * partials.columns + first + x * kWarp],
                        factor, out[x]);
    }
  }
};

// Merges one row per warp, or one row per block, whose first warp then adds the
// sums of all warps.
template <bool kShare, typename S>
__global__ void __launch_bounds__(kThreads)
    Merge(const SoftmaxPartials partials, int64_t splits, int64_t rows,
          int64_t queries, float unit, const HeadArray<S> to,
          const HeadArray<S> lse) {
  SUBQUAD_SHARED(MergeShared, shared);
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int64_t row =
      kShare ? blockIdx.x : static_cast<int64_t>(blockIdx.x) * kWarps + warp;
  const int64_t first = static_cast<int64_t>(blockIdx.y) * kColumns + lane;
  MergedRow own;
  if (row < rows)
    own.Add(partials, row, rows, splits, kShare ? warp : 0, kShare ? kWarps : 1,
            unit, first);
  if constexpr (kShare) {
    if (lane == 0) shared.sum[warp] = own.sum;
#pragma unroll
    for (int x = 0; x < kColumnsOfLane; ++x)
      shared.out[warp][x * kWarp + lane] = own.out[x];
    __syncthreads();
    if (warp > 0) return;
#pragma unroll
    for (int w = 1; w < kWarps; ++w) {
      own.sum += shared.sum[w];
#pragma unroll
      for (int x = 0; x < kColumnsOfLane; ++x)
        own.out[x] += shared.out[w][x * kWarp + lane];
    }
  }
  if (row >= rows) return;
  const int64_t head = row / queries, query = row % queries;
  if (lse.data && first == 0)
    Store(LogOfSum(own.top, unit, own.sum, partials.raised),
          lse.Head(head) + query);
  S* const at = to.Head(head) + query * partials.columns;
#pragma unroll
  for (int x = 0; x < kColumnsOfLane; ++x)
    if (first + x * kWarp < partials.columns)
      Store(QuotientOrZero(own.out[x], own.sum), at + first + x * kWarp);
}

}  // namespace

PartialsBuffer::PartialsBuffer(Layout& layout, int64_t rows, int64_t columns)
    : rows_(rows), columns_(columns) {
  if (rows > 0) numbers_ = DeviceBuffer<float>(layout, rows * (columns + 2));
}

SoftmaxPartials PartialsBuffer::Get() const {
  float* const numbers = numbers_.data();
  return {numbers, numbers + rows_, numbers + 2 * rows_, columns_};
}

template <typename S>
void MergePartials(const SoftmaxPartials& partials, int64_t splits,
                   int64_t heads, int64_t queries, float unit, HeadArray<S> out,
                   HeadArray<S> lse) {
  const int64_t rows = heads * queries;
  const int64_t across = PiecesOf(partials.columns, kColumns);
  if (splits >= kPartsToShare)
    SUBQUAD_LAUNCH((Merge<true, S>), Grid(rows, across), kThreads,
                   sizeof(MergeShared), partials, splits, rows, queries, unit,
                   out, lse);
  else
    SUBQUAD_LAUNCH((Merge<false, S>), Grid(PiecesOf(rows, kWarps), across),
                   kThreads, sizeof(MergeShared), partials, splits, rows,
                   queries, unit, out, lse);
}

#define SUBQUAD_MERGE_PARTIALS(S)                                          \
  template void MergePartials<S>(const SoftmaxPartials&, int64_t, int64_t, \
                                 int64_t, float, HeadArray<S>, HeadArray<S>);
SUBQUAD_MERGE_PARTIALS(float)
SUBQUAD_MERGE_PARTIALS(__nv_bfloat16)
SUBQUAD_MERGE_PARTIALS(__half)
#undef SUBQUAD_MERGE_PARTIALS

}  // namespace subquad::device
