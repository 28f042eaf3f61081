#include <algorithm>

#include "cuda/base/register_tile.h"
#include "cuda/base/warp.h"
#include "cuda/kernelized/clipped_position.h"
#include "cuda/kernelized/scaled.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

__device__ inline float Elu1(float x) { return x > 0 ? x + 1 : expf(x); }

template <typename S>
__global__ void KeyFeatures(const S* k, int64_t head_stride, int64_t count,
                            float* features) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at < count)
    features[blockIdx.y * count + at] =
        Elu1(ToFloat(k[blockIdx.y * head_stride + at]));
}

// Uses one warp per query. If all entries of a query are negative, the largest
// is subtracted before the exponential.
template <typename S>
__global__ void QueryFeatures(const S* q, int64_t head_stride, int64_t n,
                              int64_t d, float* features) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) +
                    threadIdx.x / kWarp;
  if (i >= n) return;
  const int lane = threadIdx.x % kWarp;
  q += blockIdx.y * head_stride + i * d;
  features += (blockIdx.y * n + i) * d;
  float top = -INFINITY;
  for (int64_t a = lane; a < d; a += kWarp) top = fmaxf(top, ToFloat(q[a]));
  top = LargestOfLanes(top);
  const float factor =
      top > 0 ? PowerOfTwo(-ScaledValue(top + 1).exponent) : 1.0f;
  for (int64_t a = lane; a < d; a += kWarp) {
    const float x = ToFloat(q[a]);
    features[a] = top > 0 ? Elu1(x) * factor : expf(x - top);
  }
}

constexpr int kQuarters = kTileThreads / kTile;

struct QuarterSums {
  float at[kQuarters][kTile];
};

// Computes sums[head][chunk][x], the sums of the values of chunks of 64 keys.
template <typename S>
__global__ void __launch_bounds__(kTileThreads)
    SumChunks(const S* values, int64_t head_stride, int64_t n_k, int64_t e,
              float* sums) {
  SUBQUAD_SHARED(QuarterSums, shared);
  const int column = static_cast<int>(threadIdx.x) % kTile;
  const int quarter = static_cast<int>(threadIdx.x) / kTile;
  const int64_t x = static_cast<int64_t>(blockIdx.y) * kTile + column;
  const int64_t first = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t last = min(first + kTile, n_k);
  values += blockIdx.z * head_stride;
  float sum = 0.0f;
  if (x < e) {
#pragma unroll 4
    for (int64_t j = first + quarter; j < last; j += kQuarters)
      sum += ToFloat(values[j * e + x]);
  }
  shared.at[quarter][column] = sum;
  __syncthreads();
  if (quarter > 0 || x >= e) return;
  for (int other = 1; other < kQuarters; ++other)
    sum += shared.at[other][column];
  sums[(blockIdx.z * (gridDim.x + 1) + blockIdx.x) * e + x] = sum;
}

// Turns the sums of the chunks, in place, into sums over all earlier chunks,
// and computes sums from each chunk on: the difference of two sums would lose
// digits of the smaller tail.
__global__ void SumTails(int64_t chunks, int64_t e, float* before,
                         float* after) {
  const int64_t x = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (x >= e) return;
  before += blockIdx.y * (chunks + 1) * e + x;
  after += blockIdx.y * (chunks + 1) * e + x;
  float sum = 0.0f;
  after[chunks * e] = sum;
#pragma unroll 8
  for (int64_t c = chunks - 1; c >= 0; --c) after[c * e] = sum += before[c * e];
  sum = 0.0f;
#pragma unroll 8
  for (int64_t c = 0; c < chunks; ++c) {
    const float own = before[c * e];
    before[c * e] = sum;
    sum += own;
  }
  before[chunks * e] = sum;
}

// Offsets between a tile of queries and a tile of keys.
constexpr int kOffsets = 2 * kTile;

struct PositionTiles {
  union {
    struct {
      TileRow queries[kSlab], embeddings[kSlab];
    };
    TileRow weights[kTile];
  };
  TileRow values[kTile];
  TileRow by_offset[kOffsets];  // queries . rpe for every offset of a tile
};

template <typename S>
struct PositionArguments {
  const float* queries;
  const S* rpe;
  int64_t rpe_stride;
  const S* values;
  int64_t value_stride;
  const float *before, *after;
  int64_t n_q, n_k, d, e, r, chunks;
  bool causal;
};

// The queries i0 .. i0 + 63 and columns x0 .. x0 + 63 of a head that a block
// computes.
template <typename S>
struct PositionBlock {
  __device__ explicit PositionBlock(const PositionArguments<S>& given)
      : i0(static_cast<int64_t>(blockIdx.x) * kTile),
        x0(static_cast<int64_t>(blockIdx.y) * kTile),
        head(blockIdx.z),
        begin(min(max(i0 - given.r + 1, int64_t{0}) / kTile, given.chunks)),
        end(min((i0 + 2 * kTile - 2 + given.r) / kTile, given.chunks)),
        queries(given.queries + (head * given.n_q + i0) * given.d),
        rpe(given.rpe + head * given.rpe_stride),
        values(given.values + head * given.value_stride + x0) {}

  int64_t i0, x0, head;
  // The window: chunks whose keys are neither all at least r before nor all at
  // least r after all 64 queries.
  int64_t begin, end;
  const float* queries;
  const S *rpe, *values;
};

// Adds the keys before and after the window, with one weight per query on each
// side: the query's 16 lanes share the dot product, and the first of them
// counts the keys.
template <typename S>
__device__ void AddTails(const PositionArguments<S>& given,
                         const PositionBlock<S>& block, float (&sums)[4][4],
                         float (&ones)[4]) {
  const int64_t d = given.d, e = given.e;
  const int row = TileRowOfThread();
  const int lane = static_cast<int>(threadIdx.x) % kTileLanes;
  const int64_t x0 = block.x0 + TileColumnOfThread();
  const int64_t sums_of_head = block.head * (given.chunks + 1);
  const float* before = given.before + (sums_of_head + block.begin) * e;
  const float* after = given.after + (sums_of_head + block.end) * e;
  const auto keys_before =
      static_cast<float>(min(block.begin * kTile, given.n_k));
  const auto keys_after =
      given.causal
          ? 0.0f
          : static_cast<float>(max(given.n_k - block.end * kTile, int64_t{0}));
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    float left = 0.0f, right = 0.0f;
    if (block.i0 + row + k < given.n_q)
      for (int64_t a = lane; a < d; a += kTileLanes) {
        const float query = block.queries[(row + k) * d + a];
        left = fmaf(query, ToFloat(block.rpe[a]), left);
        right = fmaf(query, ToFloat(block.rpe[2 * given.r * d + a]), right);
      }
    left = SumOfLanes<kTileLanes>(left);
    right = given.causal ? 0.0f : SumOfLanes<kTileLanes>(right);
    if (lane == 0) ones[k] = left * keys_before + right * keys_after;
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (x0 + c < e)
        sums[k][c] = left * before[x0 + c] + right * after[x0 + c];
  }
}

// Computes by_offset[o][i] = query i . rpe[min_offset + o] up to max_offset:
// the offsets between 64 queries and a tile of 64 keys, in two halves of a
// tile.
template <typename S>
__device__ void MultiplyOffsets(const PositionArguments<S>& given,
                                const PositionBlock<S>& block,
                                int64_t min_offset, int64_t max_offset,
                                PositionTiles& tiles) {
  const int64_t d = given.d;
  for (int half = 0; half < 2 && min_offset + half * kTile <= max_offset;
       ++half) {
    const int64_t t0 = min_offset + given.r + half * kTile;
    float products[4][4] = {};
    for (int64_t a = 0; a < d; a += kSlab) {
      LoadTransposed(block.queries + a, d, given.n_q - block.i0, d - a,
                     tiles.queries);
      LoadTransposed(block.rpe + t0 * d + a, d, 2 * given.r + 1 - t0, d - a,
                     tiles.embeddings);
      __syncthreads();
      AddProduct<kSlab>(tiles.queries, tiles.embeddings, products);
      __syncthreads();
    }
    StoreTransposed(products, tiles.by_offset + half * kTile);
  }
}

// Reads weights[k][c] of this thread's queries and keys from j0 on, zero where
// masked.
template <typename S>
__device__ void TakeWeights(const PositionArguments<S>& given,
                            const PositionBlock<S>& block, int64_t j0,
                            int64_t min_offset, const PositionTiles& tiles,
                            float (&weights)[4][4], float (&ones)[4]) {
  const int row = TileRowOfThread(), column = TileColumnOfThread();
#pragma unroll
  for (int k = 0; k < 4; ++k)
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int64_t i = block.i0 + row + k, j = j0 + column + c;
      const int64_t offset = max(-given.r, min(given.r, j - i));
      const bool visible = j < given.n_k && (!given.causal || j <= i);
      weights[k][c] =
          visible ? tiles.by_offset[offset - min_offset][row + k] : 0.0f;
      ones[k] += weights[k][c];
    }
}

// Writes out = (content + sums) / (normalisers + ones), with the ones of all 16
// lanes.
template <typename S>
__device__ void StoreQuotients(const PositionArguments<S>& given,
                               const PositionBlock<S>& block,
                               const float (&sums)[4][4],
                               const float (&ones)[4], const float* content,
                               const float* normalisers, S* out) {
#pragma unroll
  for (int k = 0; k < 4; ++k) {
    const float position = SumOfLanes<kTileLanes>(ones[k]);
    const int64_t i = block.i0 + TileRowOfThread() + k;
    if (i >= given.n_q) continue;
    const float normaliser = normalisers[block.head * given.n_q + i] + position;
#pragma unroll
    for (int c = 0; c < 4; ++c) {
      const int64_t x = block.x0 + TileColumnOfThread() + c;
      if (x < given.e)
        Store(
            (content[(block.head * given.n_q + i) * given.e + x] + sums[k][c]) /
                normaliser,
            out + i * given.e + x);
    }
  }
}

// Computes out for 64 queries and 64 columns by a block of 256 threads. As in
// register_tile.h a thread has 4 queries x 4 columns of the result, and 4
// queries x 4 keys of the weights; the 16 lanes that share its queries are in
// one warp.
//
//   AddTails: keys outside of the window, by sums of whole chunks
//   for each tile of 64 keys of the window:
//     the tile's values to shared memory
//     MultiplyOffsets: query . rpe, 64 x 128 products by offset, to shared
//     TakeWeights: a pair's weight is that of its clipped offset
//     sums += weights values, as a product of tiles
//   StoreQuotients
template <typename S>
__global__ void __launch_bounds__(kTileThreads)
    AddPositions(PositionArguments<S> given, const float* content,
                 const float* normalisers, S* out, int64_t out_stride) {
  SUBQUAD_SHARED(PositionTiles, tiles);
  const PositionBlock<S> block(given);
  float sums[4][4] = {}, ones[4] = {};
  AddTails(given, block, sums, ones);
  const int64_t last =
      min(block.end * kTile,
          given.causal ? min(block.i0 + kTile, given.n_k) : given.n_k);
  for (int64_t j0 = block.begin * kTile; j0 < last; j0 += kTile) {
    LoadTile<kTile>(block.values + j0 * given.e, given.e, given.n_k - j0,
                    given.e - block.x0, tiles.values);
    const int64_t first = j0 - block.i0;  // offset of the first pair
    const int64_t min_offset = max(-given.r, min(given.r, first - (kTile - 1)));
    const int64_t max_offset = max(-given.r, min(given.r, first + (kTile - 1)));
    MultiplyOffsets(given, block, min_offset, max_offset, tiles);
    __syncthreads();
    float weights[4][4];
    TakeWeights(given, block, j0, min_offset, tiles, weights, ones);
    StoreTransposed(weights, tiles.weights);
    __syncthreads();
    AddProduct<kTile>(tiles.weights, tiles.values, sums);
    __syncthreads();
  }
  StoreQuotients(given, block, sums, ones, content, normalisers,
                 out + block.head * out_stride);
}

}  // namespace

ClippedShape::ClippedShape(const Problem& problem)
    : n_q(problem.Dim("n_q")),
      n_k(problem.Dim("n_k")),
      d(problem.Dim("d")),
      e(problem.Dim("e")),
      r(problem.Dim("r")),
      heads(problem.heads),
      embeddings(problem.SlicesOf("rpe").count()),
      causal(problem.params.Flag("causal")) {
  if (causal) n_k = std::min(n_k, n_q);
}

template <typename S>
void ClippedFeatures(const ClippedShape& shape, HeadArray<const S> q,
                     HeadArray<const S> k, float* queries, float* keys) {
  const auto& [n_q, n_k, d, e, r, heads, embeddings, causal] = shape;
  SUBQUAD_LAUNCH(QueryFeatures<S>, Grid(PiecesOf(n_q, kThreads / kWarp), heads),
                 kThreads, 0, q.data, q.head_stride, n_q, d, queries);
  SUBQUAD_LAUNCH(KeyFeatures<S>, Grid(PiecesOf(n_k * d, kThreads), heads),
                 kThreads, 0, k.data, k.head_stride, n_k * d, keys);
}

template <typename S>
ClippedPosition<S>::ClippedPosition(Layout& layout, const ClippedShape& shape)
    : shape_(shape),
      before_(layout, shape.heads * (PiecesOf(shape.n_k, kTile) + 1) * shape.e),
      after_(layout, before_.size()) {}

// Counts a window of 2 r + 64 keys, whose weights are computed in two halves of
// a tile.
template <typename S>
double ClippedPosition<S>::Flops(const ClippedShape& shape) {
  const auto n_q = static_cast<double>(shape.n_q);
  const auto d = static_cast<double>(shape.d), e = static_cast<double>(shape.e);
  const double keys =
      static_cast<double>(std::min(2 * shape.r + kTile, shape.n_k)) /
      (shape.causal ? 2 : 1);
  return static_cast<double>(shape.heads) *
         (2 * n_q * keys * (2 * d + e) + 4 * n_q * (d + e) +
          2 * static_cast<double>(shape.n_k) * e);
}

template <typename S>
void ClippedPosition<S>::Run(const float* queries, HeadArray<const S> rpe,
                             HeadArray<const S> v, const float* sums,
                             const float* normalisers, HeadArray<S> out) {
  const auto& [n_q, n_k, d, e, r, heads, embeddings, causal] = shape_;
  const int64_t chunks = PiecesOf(n_k, kTile), across = PiecesOf(e, kTile);
  SUBQUAD_LAUNCH(SumChunks<S>, Grid(chunks, across, heads), kTileThreads,
                 sizeof(QuarterSums), v.data, v.head_stride, n_k, e,
                 before_.data());
  SUBQUAD_LAUNCH(SumTails, Grid(PiecesOf(e, kWarp), heads), kWarp, 0, chunks, e,
                 before_.data(), after_.data());
  const PositionArguments<S> arguments = {queries,
                                          rpe.data,
                                          rpe.head_stride,
                                          v.data,
                                          v.head_stride,
                                          before_.data(),
                                          after_.data(),
                                          n_q,
                                          n_k,
                                          d,
                                          e,
                                          r,
                                          chunks,
                                          causal};
  SUBQUAD_LAUNCH(AddPositions<S>, Grid(PiecesOf(n_q, kTile), across, heads),
                 kTileThreads, sizeof(PositionTiles), arguments, sums,
                 normalisers, out.data, out.head_stride);
}

#define SUBQUAD_CLIPPED(S)                                               \
  template void ClippedFeatures(const ClippedShape&, HeadArray<const S>, \
                                HeadArray<const S>, float*, float*);     \
  template class ClippedPosition<S>;
SUBQUAD_CLIPPED(float)
SUBQUAD_CLIPPED(__nv_bfloat16)
SUBQUAD_CLIPPED(__half)
#undef SUBQUAD_CLIPPED

}  // namespace subquad::device
