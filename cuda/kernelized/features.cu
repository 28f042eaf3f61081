#include <algorithm>

#include "cuda/base/convert.h"
#include "cuda/base/warp.h"
#include "cuda/kernelized/feature_rows.h"
#include "cuda/kernelized/features.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;
constexpr int kRowsOfBlock = kThreads / kWarp;
// Keys per partial maximum if all keys have one scale.
constexpr int64_t kPiece = 256;

// The arguments of a map: rows of x, or projections omega x.
template <typename X>
struct Rows {
  const X* data;
  int64_t head_stride, row_stride, n;
  float factor;               // root_scale, used without `factors`
  const float* factors;       // [heads, n] x' = factors x, or null
  const float* half_squares;  // [heads, n] |x'|^2 / 2, or null
};

// Returns one row of the arguments under a map.
template <FeatureMapId kMap, typename X>
__device__ MappedRow<kMap, X> RowOf(const Rows<X>& rows, int64_t head,
                                    int64_t row, int d) {
  const int64_t at = head * rows.n + row;
  return {rows.data + head * rows.head_stride + row * rows.row_stride, d,
          RowScale{rows.factors ? rows.factors[at] : rows.factor,
                   rows.half_squares ? rows.half_squares[at] : 0.0f}};
}

// Computes the scales of rows, one warp for each.
template <typename X>
__global__ void RowScales(const X* x, int64_t head_stride, int64_t n, int d,
                          float root_scale, bool normalize, float* factors,
                          float* half_squares) {
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kWarp;
  if (row >= n) return;
  const RowScale scale = ScaleOfRow(x + blockIdx.y * head_stride + row * d, d,
                                    root_scale, normalize);
  if (threadIdx.x % kWarp != 0) return;
  factors[blockIdx.y * n + row] = scale.factor;
  half_squares[blockIdx.y * n + row] = scale.half_square;
}

template <int kEach>
struct PieceOfMaxima {
  int at[kRowsOfBlock][kEach][kWarp];
};
template <FeatureMapId kMap>
using PieceOfMap = PieceOfMaxima<FeaturesOfArgument(kMap)>;

// Computes maxima[head][piece][a], the largest exponent of feature a among the
// keys of a piece; kExponentOfZero if there are none.
template <FeatureMapId kMap, typename X>
__global__ void PieceMaxima(Rows<X> rows, int d, int arguments, int64_t piece,
                            int* maxima) {
  using Shared = PieceOfMap<kMap>;
  SUBQUAD_SHARED(Shared, shared);
  constexpr int kEach = FeaturesOfArgument(kMap);
  const int a = static_cast<int>(blockIdx.y) * kWarp + threadIdx.x;
  const int64_t first = blockIdx.x * piece;
  const int64_t last = min(first + piece, rows.n);
  int largest[kEach];
#pragma unroll
  for (int o = 0; o < kEach; ++o) largest[o] = kExponentOfZero;
  if (a < arguments)
    for (int64_t j = first + threadIdx.y; j < last; j += kRowsOfBlock) {
      Scaled features[kEach];
      RowOf<kMap, X>(rows, blockIdx.z, j, d).Of(a, features);
#pragma unroll
      for (int o = 0; o < kEach; ++o)
        largest[o] = max(largest[o], features[o].exponent);
    }
#pragma unroll
  for (int o = 0; o < kEach; ++o)
    shared.at[threadIdx.y][o][threadIdx.x] = largest[o];
  __syncthreads();
  if (threadIdx.y != 0 || a >= arguments) return;
#pragma unroll
  for (int o = 0; o < kEach; ++o) {
    for (int y = 1; y < kRowsOfBlock; ++y)
      largest[o] = max(largest[o], shared.at[y][o][threadIdx.x]);
    maxima[(static_cast<int64_t>(blockIdx.z) * gridDim.x + blockIdx.x) * kEach *
               arguments +
           o * arguments + a] = largest[o];
  }
}

constexpr int kRuns = 32;

struct RunMaxima {
  int at[kRuns][kWarp];
};

// Computes in place maxima[head][p][a] = the largest of maxima[head][0..p][a].
// A block has 32 features, and each of its threads a run of pieces.
__global__ void RunningMaxima(int* maxima, int64_t pieces, int f) {
  SUBQUAD_SHARED(RunMaxima, shared);
  const int a = static_cast<int>(blockIdx.x) * kWarp + threadIdx.x;
  const int64_t run = (pieces + kRuns - 1) / kRuns;
  const int64_t first = min(threadIdx.y * run, pieces);
  const int64_t last = min(first + run, pieces);
  int* at = maxima + blockIdx.y * pieces * f + a;
  int largest = kExponentOfZero;
  if (a < f) {
#pragma unroll 4
    for (int64_t p = first; p < last; ++p) largest = max(largest, at[p * f]);
  }
  shared.at[threadIdx.y][threadIdx.x] = largest;
  __syncthreads();
  if (a >= f) return;
  largest = kExponentOfZero;
  for (unsigned y = 0; y < threadIdx.y; ++y)
    largest = max(largest, shared.at[y][threadIdx.x]);
#pragma unroll 4
  for (int64_t p = first; p < last; ++p)
    at[p * f] = largest = max(largest, at[p * f]);
}

// Computes features[head][row][a] = feature 2^(sign K_a - top), one warp for
// each row. `top` brings the largest feature of the row to about one, and is
// written to `tops`; without `by_row` it is 0. `features` may overlap the
// projections: a lane reads an argument before it writes the features of it.
template <FeatureMapId kMap, typename X>
__global__ void WriteFeatures(Rows<X> rows, int d, int arguments,
                              KeyExponents exponents, int sign, bool by_row,
                              int* tops, float* features) {
  constexpr int kEach = FeaturesOfArgument(kMap);
  const int64_t row =
      static_cast<int64_t>(blockIdx.x) * kRowsOfBlock + threadIdx.x / kWarp;
  if (row >= rows.n) return;
  const int lane = threadIdx.x % kWarp;
  const auto mapped = RowOf<kMap, X>(rows, blockIdx.y, row, d);
  const int* scale = exponents.Of(blockIdx.y, row);
  Scaled each[kEach];
  int top = 0;
  if (by_row) {
    top = kExponentOfZero;
    for (int a = lane; a < arguments; a += kWarp) {
      mapped.Of(a, each);
#pragma unroll
      for (int o = 0; o < kEach; ++o)
        if (each[o].mantissa != 0.0f)
          top = max(top, each[o].exponent + sign * scale[o * arguments + a]);
    }
    top = LargestOfLanes(top);
    if (tops && lane == 0) tops[blockIdx.y * rows.n + row] = top;
  }
  features += (blockIdx.y * rows.n + row) * kEach * arguments;
  for (int a = lane; a < arguments; a += kWarp) {
    mapped.Of(a, each);
#pragma unroll
    for (int o = 0; o < kEach; ++o) {
      const int at = o * arguments + a;
      features[at] = each[o].mantissa *
                     PowerOfTwo(each[o].exponent + sign * scale[at] - top);
    }
  }
}

}  // namespace

int64_t Features::Pieces(const FeatureShape& shape, KeyScaling scale) {
  return scale == KeyScaling::kChunks
             ? PiecesOf(std::max(shape.n_q, shape.n_k), kChunk)
             : PiecesOf(shape.n_k, kPiece);
}

// Counts flops in the usual way, an exponential as 16.
double Features::Flops(const FeatureShape& shape) {
  return static_cast<double>(shape.heads * (shape.n_q + shape.n_k)) *
         static_cast<double>(2 * shape.map.projections * shape.map.d +
                             20 * shape.map.features());
}

Features::Features(Layout& layout, const FeatureShape& shape, KeyScaling scale,
                   bool copies_omega)
    : shape_(shape),
      scale_(scale),
      pieces_(Pieces(shape, scale)),
      queries_(layout, shape.heads * shape.n_q * shape.map.features()),
      keys_(layout, shape.heads * shape.n_k * shape.map.features()),
      omega_(layout, OmegaCopies(shape, copies_omega)),
      row_exponents_(layout,
                     scale == KeyScaling::kRows ? shape.heads * shape.n_k : 0),
      exponents_(layout, shape.heads * pieces_ * shape.map.features()) {
  if (HasFactors(shape)) {
    const int64_t rows = shape.heads * std::max(shape.n_q, shape.n_k);
    factors_ = DeviceBuffer<float>(layout, rows);
    half_squares_ = DeviceBuffer<float>(layout, rows);
  }
  if (shape.map.projects()) gemm_.emplace(layout);
}

KeyExponents Features::exponents() const {
  const int64_t f = shape_.map.features();
  // The last of the running maxima is that of all keys.
  if (scale_ == KeyScaling::kChunks) return {exponents_.data(), pieces_ * f, f};
  return {exponents_.data() + (pieces_ - 1) * f, pieces_ * f, 0};
}

template <FeatureMapId kMap, typename X>
void Features::RunMap(HeadArray<const X> q, HeadArray<const X> k,
                      HeadArray<const X> omega) {
  constexpr bool kProjects = Projects(kMap);
  constexpr int kEach = FeaturesOfArgument(kMap);
  using Argument = std::conditional_t<kProjects, float, X>;
  const FeatureMapSpec& map = shape_.map;
  const int64_t heads = shape_.heads, f = map.features();
  const int d = static_cast<int>(map.d),
            arguments = static_cast<int>(f / kEach);
  const auto root_scale = static_cast<float>(map.root_scale);

  // Prepares the arguments of the map; their factors are valid until the next
  // call.
  const auto prepare = [&](HeadArray<const X> x, int64_t n,
                           float* features) -> Rows<Argument> {
    if (HasFactors(shape_))
      SUBQUAD_LAUNCH(RowScales<X>, Grid(PiecesOf(n, kRowsOfBlock), heads),
                     kThreads, 0, x.data, x.head_stride, n, d, root_scale,
                     map.normalize, factors_.data(), half_squares_.data());
    if constexpr (kProjects) {
      gemm_->Run<X>(
          heads, 1, {x.data, n, d, d, x.head_stride},
          {omega.data, map.projections, d, d, omega.head_stride, true}, 0,
          {features, n, map.projections, f, n * f});
      return {
          features, n * f, f, n, 1.0f, factors_.data(), half_squares_.data()};
    } else {
      return {x.data,     x.head_stride,   d,      n,
              root_scale, factors_.data(), nullptr};
    }
  };
  const auto write = [&](const Rows<Argument>& rows, int sign, bool by_row,
                         int* tops, float* features) {
    SUBQUAD_LAUNCH((WriteFeatures<kMap, Argument>),
                   Grid(PiecesOf(rows.n, kRowsOfBlock), heads), kThreads, 0,
                   rows, d, arguments, exponents(), sign, by_row, tops,
                   features);
  };

  const Rows<Argument> keys = prepare(k, shape_.n_k, keys_.data());
  const dim3 block(kWarp, kRowsOfBlock);
  SUBQUAD_LAUNCH((PieceMaxima<kMap, Argument>),
                 Grid(pieces_, PiecesOf(arguments, kWarp), heads), block,
                 sizeof(PieceOfMap<kMap>), keys, d, arguments,
                 scale_ == KeyScaling::kChunks ? kChunk : kPiece,
                 exponents_.data());
  SUBQUAD_LAUNCH(RunningMaxima, Grid(PiecesOf(f, kWarp), heads),
                 dim3(kWarp, kRuns), sizeof(RunMaxima), exponents_.data(),
                 pieces_, static_cast<int>(f));
  write(keys, -1, scale_ == KeyScaling::kRows, row_exponents_.data(),
        keys_.data());
  write(prepare(q, shape_.n_q, queries_.data()), 1, true, nullptr,
        queries_.data());
}

template <typename X, typename O>
void Features::Run(HeadArray<const X> q, HeadArray<const X> k,
                   HeadArray<const O> omega) {
  HeadArray<const X> projections;
  if constexpr (std::is_same_v<X, O>) {
    projections = omega;
  } else if (shape_.map.projects()) {
    const int64_t vectors = omega.head_stride > 0 ? shape_.heads : 1;
    Convert(omega.data, vectors * shape_.map.projections * shape_.map.d,
            omega_.data());
    projections = {omega_.data(), omega.head_stride};
  }
  WithMap(shape_.map.id,
          [&]<FeatureMapId kMap>() { RunMap<kMap>(q, k, projections); });
}

#define SUBQUAD_FEATURES(X, O)                                        \
  template void Features::Run(HeadArray<const X>, HeadArray<const X>, \
                              HeadArray<const O>);
SUBQUAD_FEATURES(float, float)
SUBQUAD_FEATURES(__nv_bfloat16, __nv_bfloat16)
SUBQUAD_FEATURES(__half, __half)
SUBQUAD_FEATURES(float, __nv_bfloat16)
SUBQUAD_FEATURES(float, __half)
#undef SUBQUAD_FEATURES

}  // namespace subquad::device
