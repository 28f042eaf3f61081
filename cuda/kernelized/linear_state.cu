#include <algorithm>

#include "cuda/base/register_tile.h"
#include "cuda/base/warp.h"
#include "cuda/kernelized/linear_state.h"

namespace subquad::device {
namespace {

static_assert(kChunk == kTile);

constexpr int kThreads = 256;

struct SumTiles {
  TileRow keys[kSlab], values[kSlab];
};

// Computes states[head][segment][a][x] = sum of keys[j][a] values[j][x] over a
// segment of the keys; column e has ones as values. A block computes 64 x 64 of
// them.
template <typename S>
__global__ void __launch_bounds__(kTileThreads)
    SumSegments(const float* keys, int64_t n_k, int64_t f, const S* values,
                int64_t value_stride, int64_t e, int64_t segment,
                float* states) {
  SUBQUAD_SHARED(SumTiles, tiles);
  const int64_t tiles_across = (e + kTile - 1) / kTile;
  const int64_t a0 = blockIdx.y / tiles_across * kTile;
  const int64_t x0 = blockIdx.y % tiles_across * kTile;
  const int64_t head = blockIdx.z;
  const int64_t first = blockIdx.x * segment;
  const int64_t last = min(first + segment, n_k);
  keys += head * n_k * f + a0;
  values += head * value_stride + x0;
  // Each thread sums every fourth key of z for one feature.
  const int feature = static_cast<int>(threadIdx.x) % kTile;
  const int quarter = static_cast<int>(threadIdx.x) / kTile;
  constexpr int kQuarters = kTileThreads / kTile;
  float sums[4][4] = {};
  float ones = 0.0f;
  for (int64_t j = first; j < last; j += kSlab) {
    LoadTile<kSlab>(keys + j * f, f, last - j, f - a0, tiles.keys);
    LoadTile<kSlab>(values + j * e, e, last - j, e - x0, tiles.values);
    __syncthreads();
    AddProduct<kSlab>(tiles.keys, tiles.values, sums);
#pragma unroll
    for (int k = 0; k < kSlab; k += kQuarters)
      ones += tiles.keys[k + quarter][feature];
    __syncthreads();
  }
  tiles.keys[quarter][feature] = ones;
  __syncthreads();
  states += (head * gridDim.x + blockIdx.x) * f * (e + 1);
  const int row = TileRowOfThread(), column = TileColumnOfThread();
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (a0 + row + r < f && x0 + column + c < e)
        states[(a0 + row + r) * (e + 1) + x0 + column + c] = sums[r][c];
  if (x0 > 0 || quarter > 0 || a0 + feature >= f) return;
  ones = 0.0f;
#pragma unroll
  for (int k = 0; k < kQuarters; ++k) ones += tiles.keys[k][feature];
  states[(a0 + feature) * (e + 1) + e] = ones;
}

// Segments that a thread loads at once.
constexpr int kAhead = 16;

// Computes totals[head][x] = sum over segments of states[head][segment][x].
__global__ void AddSegments(const float* states, int64_t segments, int64_t size,
                            float* totals) {
  const int64_t x = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (x >= size) return;
  states += blockIdx.y * segments * size + x;
  float sum = 0.0f;
#pragma unroll kAhead
  for (int64_t s = 0; s < segments; ++s) sum += states[s * size];
  totals[blockIdx.y * size + x] = sum;
}

// Turns the sums of the chunks into the state before each chunk, at the chunk's
// scale.
__global__ void SumBefore(KeyExponents exponents, int64_t chunks, int64_t f,
                          int64_t e, float* states) {
  const int64_t size = f * (e + 1);
  const int64_t x = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (x >= size) return;
  states += blockIdx.y * chunks * size + x;
  const int* scales =
      exponents.data ? exponents.Of(blockIdx.y, 0) + x / (e + 1) : nullptr;
  float before = 0.0f;
  int scale_before = scales ? scales[0] : 0;
  for (int64_t first = 0; first < chunks; first += kAhead) {
    float own[kAhead];
    int scale[kAhead];
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      const bool in = first + i < chunks;
      own[i] = in ? states[(first + i) * size] : 0.0f;
      scale[i] = in && scales ? scales[(first + i) * exponents.chunk_stride]
                              : scale_before;
    }
#pragma unroll
    for (int i = 0; i < kAhead; ++i) {
      if (first + i >= chunks) break;
      before *= PowerOfTwo(scale_before - scale[i]);
      scale_before = scale[i];
      states[(first + i) * size] = before;
      before += own[i];
    }
  }
}

// Holds a slab of the features of queries and keys, and of the state's rows;
// then a tile of weights and one of values.
struct OutputTiles {
  union {
    struct {
      TileRow queries[kSlab], keys[kSlab], states[kSlab];
      float ones[kSlab];
    };
    struct {
      TileRow weights[kTile], values[kTile];
    };
  };
};

// Computes out of 64 queries and 64 columns: queries times the state and, with
// kCausal, where the state is that before their chunk, times the keys of the
// chunk.
template <bool kCausal, typename S, typename Out>
__global__ void __launch_bounds__(kTileThreads)
    Outputs(const float* queries, int64_t n_q, const float* keys, int64_t n_k,
            int64_t f, const float* states, const S* values,
            int64_t value_stride, int64_t e, Out* out, int64_t out_stride,
            float* normalisers, RowMark* marks) {
  SUBQUAD_SHARED(OutputTiles, tiles);
  const int64_t i0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t x0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t head = blockIdx.z;
  const int64_t state = kCausal ? head * gridDim.x + blockIdx.x : head;
  const bool has_keys = kCausal && i0 < n_k;
  queries += (head * n_q + i0) * f;
  keys += (head * n_k + i0) * f;
  states += state * f * (e + 1);
  values += head * value_stride + i0 * e + x0;
  const int row = TileRowOfThread(), column = TileColumnOfThread();
  const int lane = static_cast<int>(threadIdx.x) % kTileLanes;
  float sums[4][4] = {}, weights[4][4] = {};
  float ones[4] = {};  // this lane's share of queries^T z
  for (int64_t a = 0; a < f; a += kSlab) {
    LoadTransposed(queries + a, f, n_q - i0, f - a, tiles.queries);
    if (has_keys) LoadTransposed(keys + a, f, n_k - i0, f - a, tiles.keys);
    LoadTile<kSlab>(states + a * (e + 1) + x0, e + 1, f - a, e - x0,
                    tiles.states);
    if (threadIdx.x < kSlab)
      tiles.ones[threadIdx.x] =
          a + threadIdx.x < f ? states[(a + threadIdx.x) * (e + 1) + e] : 0.0f;
    __syncthreads();
    AddProduct<kSlab>(tiles.queries, tiles.states, sums);
    if (has_keys) AddProduct<kSlab>(tiles.queries, tiles.keys, weights);
#pragma unroll
    for (int k = lane; k < kSlab; k += kTileLanes) {
      const float4 query = LoadFour(&tiles.queries[k][row]);
      const float one = tiles.ones[k];
      ones[0] = fmaf(query.x, one, ones[0]);
      ones[1] = fmaf(query.y, one, ones[1]);
      ones[2] = fmaf(query.z, one, ones[2]);
      ones[3] = fmaf(query.w, one, ones[3]);
    }
    __syncthreads();
  }
  if (has_keys) {
#pragma unroll
    for (int r = 0; r < 4; ++r)
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        if (column + c > row + r) weights[r][c] = 0.0f;
        ones[r] += weights[r][c];
      }
    StoreTransposed(weights, tiles.weights);
    LoadTile<kTile>(values, e, n_k - i0, e - x0, tiles.values);
    __syncthreads();
    AddProduct<kTile>(tiles.weights, tiles.values, sums);
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float normaliser = SumOfLanes<kTileLanes>(ones[r]);
    const int64_t i = i0 + row + r;
    if (i >= n_q) continue;
    Out* to = out + head * out_stride + i * e + x0;
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (x0 + column + c < e)
        Store(normalisers ? sums[r][c] : QuotientOrZero(sums[r][c], normaliser),
              to + column + c);
    if (x0 > 0 || lane > 0) continue;
    if (normalisers) normalisers[head * n_q + i] = normaliser;
    // A query that sees the largest key of its chunk would have a sum of about
    // one.
    if (marks)
      marks[head * n_q + i] = MarkUnless(fabsf(normaliser) >= 0x1p-40f);
  }
}

}  // namespace

int64_t LinearState::Segment(const LinearShape& shape) {
  if (shape.causal) return kChunk;
  // Makes as many segments as fill a large device, and not many more: each
  // costs a state in memory.
  constexpr int64_t kShortest = 256;
  const int64_t max_pieces = std::max<int64_t>(1024 / shape.heads, 16);
  return std::max(kShortest,
                  PiecesOf(PiecesOf(shape.n_k, max_pieces), kChunk) * kChunk);
}

int64_t LinearState::Segments(const LinearShape& shape) {
  // Causal attention needs the chunks of the queries: no query sees later keys.
  return PiecesOf(shape.causal ? shape.n_q : shape.n_k, Segment(shape));
}

// Counts the products as tiles compute them: two with the state, and for causal
// attention those with the whole tile of a chunk.
double LinearState::Flops(const LinearShape& shape) {
  const auto f = static_cast<double>(shape.f), e = static_cast<double>(shape.e);
  const auto n_q = static_cast<double>(shape.n_q);
  const auto n_k = static_cast<double>(shape.n_k);
  return static_cast<double>(shape.heads) *
         (2 * f * (e + 1) * (n_q + n_k) +
          (shape.causal ? 2 * n_q * kChunk * (f + e) : 0));
}

LinearState::LinearState(Layout& layout, const LinearShape& shape)
    : shape_(shape),
      states_(layout, shape.heads * Segments(shape) * StateSize(shape)),
      totals_(layout, shape.causal ? 0 : shape.heads * StateSize(shape)) {}

template <typename S, typename Out>
void LinearState::Run(const float* queries, const float* keys,
                      KeyExponents exponents, HeadArray<const S> values,
                      HeadArray<Out> out, float* normalisers, RowMark* marks) {
  const auto& [n_q, n_k, f, e, heads, causal] = shape_;
  const int64_t segments = Segments(shape_), size = StateSize(shape_);
  const int64_t across = PiecesOf(e, kTile);
  SUBQUAD_LAUNCH(SumSegments<S>,
                 Grid(segments, PiecesOf(f, kTile) * across, heads),
                 kTileThreads, sizeof(SumTiles), keys, n_k, f, values.data,
                 values.head_stride, e, Segment(shape_), states_.data());
  const dim3 elements = Grid(PiecesOf(size, kThreads), heads);
  const dim3 grid = Grid(PiecesOf(n_q, kTile), across, heads);
  if (causal) {
    SUBQUAD_LAUNCH(SumBefore, elements, kThreads, 0, exponents, segments, f, e,
                   states_.data());
    SUBQUAD_LAUNCH((Outputs<true, S, Out>), grid, kTileThreads,
                   sizeof(OutputTiles), queries, n_q, keys, n_k, f,
                   states_.data(), values.data, values.head_stride, e, out.data,
                   out.head_stride, normalisers, marks);
  } else {
    SUBQUAD_LAUNCH(AddSegments, elements, kThreads, 0, states_.data(), segments,
                   size, totals_.data());
    SUBQUAD_LAUNCH((Outputs<false, S, Out>), grid, kTileThreads,
                   sizeof(OutputTiles), queries, n_q, keys, n_k, f,
                   totals_.data(), values.data, values.head_stride, e, out.data,
                   out.head_stride, normalisers, marks);
  }
}

#define SUBQUAD_LINEAR_STATE(S, Out)                                         \
  template void LinearState::Run(const float*, const float*, KeyExponents,   \
                                 HeadArray<const S>, HeadArray<Out>, float*, \
                                 RowMark*);
SUBQUAD_LINEAR_STATE(float, float)
SUBQUAD_LINEAR_STATE(__nv_bfloat16, __nv_bfloat16)
SUBQUAD_LINEAR_STATE(__nv_bfloat16, float)
SUBQUAD_LINEAR_STATE(__half, __half)
SUBQUAD_LINEAR_STATE(__half, float)
#undef SUBQUAD_LINEAR_STATE

}  // namespace subquad::device
