#include "cuda/base/register_tile.h"
#include "cuda/base/warp.h"
#include "cuda/kernelized/tiled.h"

namespace subquad::device {
namespace {

// Smaller than the exponents of all visible weights, including zeros.
constexpr int kUnseen = 3 * kExponentOfZero;

// Holds a slab of the features of queries and keys, then a tile of weights.
struct WeightTiles {
  union {
    struct {
      TileRow queries[kSlab], keys[kSlab];
    };
    TileRow weights[kTile];
  };
  TileRow values[kTile];
};

// A thread's state of its four rows of sums: the exponent that they are
// relative to, the largest exponent that this thread multiplied products of
// features by, and its share of the normaliser.
struct RowState {
  int top[4] = {kUnseen, kUnseen, kUnseen, kUnseen};
  int largest[4] = {kUnseen, kUnseen, kUnseen, kUnseen};
  float ones[4] = {};
};

// Computes 64 queries and 64 columns. Weights of a row are relative to the
// largest so far, a power of two that the sums follow: if the bias hides large
// keys, the small visible ones are not lost, and a large bias for a key that
// has nothing in common with the query does not hide the others.
template <typename S>
__global__ void __launch_bounds__(kTileThreads, 2)
    Tiled(const float* queries, int64_t n_q, const float* keys,
          const int* row_exponents, int64_t n_k, int64_t f, BiasWeights bias,
          bool causal, const S* values, int64_t value_stride, int64_t e, S* out,
          int64_t out_stride, RowMark* marks, bool only_marked) {
  SUBQUAD_SHARED(WeightTiles, tiles);
  const int64_t i0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t x0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t head = blockIdx.z;
  marks += head * n_q;
  if (only_marked) {
    int any = 0;
    for (int64_t i = i0 + threadIdx.x % kWarp; i < min(i0 + kTile, n_q);
         i += kWarp)
      any |= marks[i] != RowMark::kDone;
    if (LargestOfLanes(any) == 0) return;  // the same in all warps
  }
  queries += (head * n_q + i0) * f;
  keys += head * n_k * f;
  row_exponents += head * n_k;
  values += head * value_stride + x0;
  const Scaled* table = bias.at + head * bias.head_stride;
  const int row = TileRowOfThread(), column = TileColumnOfThread();
  float sums[4][4] = {};
  RowState state;
  const int64_t last = causal ? min(i0 + kTile, n_k) : n_k;
  for (int64_t j0 = 0; j0 < last; j0 += kTile) {
    LoadTile<kTile>(values + j0 * e, e, n_k - j0, e - x0, tiles.values);
    float weights[4][4] = {};
    for (int64_t a = 0; a < f; a += kSlab) {
      LoadTransposed(queries + a, f, n_q - i0, f - a, tiles.queries);
      LoadTransposed(keys + j0 * f + a, f, n_k - j0, f - a, tiles.keys);
      __syncthreads();
      AddProduct<kSlab>(tiles.queries, tiles.keys, weights);
      __syncthreads();
    }
#pragma unroll
    for (int r = 0; r < 4; ++r) {
      const int64_t i = i0 + row + r;
      const Scaled* of_query = table - bias.positions.Of(i);
      int exponents[4];
      int top = state.top[r];
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        // All entries of a tile's diagonal use the same entry of the bias,
        // which comes from the nearest cache.
        const int64_t j = j0 + column + c;
        exponents[c] = kUnseen;
        float mantissa = 0.0f;
        if (i < n_q && j < n_k && (!causal || j <= i)) {
          const Scaled weight = of_query[bias.positions.Of(j)];
          mantissa = weight.mantissa;
          exponents[c] = weight.exponent + row_exponents[j];
        }
        weights[r][c] *= mantissa;
        state.largest[r] = max(state.largest[r], exponents[c]);
        top = max(top, exponents[c] + ScaledValue(weights[r][c]).exponent);
      }
      top = LargestOfLanes<kTileLanes>(top);
      const float factor = PowerOfTwo(state.top[r] - top);
      state.top[r] = top;
      state.ones[r] *= factor;
#pragma unroll
      for (int c = 0; c < 4; ++c) {
        sums[r][c] *= factor;
        weights[r][c] = TimesPowerOfTwo(weights[r][c], exponents[c] - top);
        state.ones[r] += weights[r][c];
      }
    }
    StoreTransposed(weights, tiles.weights);
    __syncthreads();
    AddProduct<kTile>(tiles.weights, tiles.values, sums);
    __syncthreads();
  }
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    const float normaliser = SumOfLanes<kTileLanes>(state.ones[r]);
    const int largest = LargestOfLanes<kTileLanes>(state.largest[r]);
    const int64_t i = i0 + row + r;
    // Another block of the same row may mark it at the same time, but never as
    // done.
    if (i >= n_q || (only_marked && marks[i] == RowMark::kDone)) continue;
    if (x0 == 0 && column == 0) {
      const RowMark mark =
          MarkUnless(KeptDigits(normaliser, largest, state.top[r]));
      if (!only_marked || mark != RowMark::kDone) marks[i] = mark;
    }
    S* to = out + head * out_stride + i * e + x0;
#pragma unroll
    for (int c = 0; c < 4; ++c)
      if (x0 + column + c < e)
        Store(QuotientOrZero(sums[r][c], normaliser), to + column + c);
  }
}

}  // namespace

template <typename S>
void RunTiledKernelized(const DeviceKernelizedShape& shape,
                        const Features& features, const BiasWeights& bias,
                        HeadArray<const S> values, HeadArray<S> out,
                        RowMark* marks, bool only_marked) {
  SUBQUAD_LAUNCH(
      Tiled<S>,
      Grid(PiecesOf(shape.n_q, kTile), PiecesOf(shape.e, kTile), shape.heads),
      kTileThreads, sizeof(WeightTiles), features.queries(), shape.n_q,
      features.keys(), features.row_exponents(), shape.n_k, shape.f, bias,
      shape.causal, values.data, values.head_stride, shape.e, out.data,
      out.head_stride, marks, only_marked);
}

double TiledKernelizedFlops(const DeviceKernelizedShape& shape) {
  const auto n_q = static_cast<double>(shape.n_q);
  const auto n_k = static_cast<double>(shape.n_k);
  const double pairs = shape.causal ? n_k * (n_q - (n_k - 1) / 2) : n_q * n_k;
  return 2 * static_cast<double>(shape.heads) * pairs *
         static_cast<double>(shape.f * PiecesOf(shape.e, kTile) + shape.e);
}

#define SUBQUAD_TILED(S)                                                 \
  template void RunTiledKernelized(                                      \
      const DeviceKernelizedShape&, const Features&, const BiasWeights&, \
      HeadArray<const S>, HeadArray<S>, RowMark*, bool);
SUBQUAD_TILED(float)
SUBQUAD_TILED(__nv_bfloat16)
SUBQUAD_TILED(__half)
#undef SUBQUAD_TILED

}  // namespace subquad::device
