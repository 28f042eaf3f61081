#include <algorithm>
#include <cmath>

#include "cuda/toeplitz/circulant_product.h"

namespace subquad::device {
namespace {

constexpr int kTile = 32;
constexpr int kRows = 8;
constexpr int kThreads = 256;

// About half of a Hopper's second-level cache, so that the transforms and the
// product between them read what the step before them wrote.
constexpr int64_t kCachedBytes = 24 << 20;
constexpr int64_t kMostColumns = 32768;

struct TransposeTile {
  float at[kTile][kTile + 1];
};

// Column g of all heads' columns is column g mod e of head g / e.
//
// columns[g - first][p] = values[row at p][g], zero where there is no row.
// `count` columns from `first` on; the tensor is read by rows, the columns are
// written along themselves.
template <typename S>
__global__ void LoadColumns(const S* values, int64_t head_stride,
                            PaddedRows rows, int64_t e, int64_t first,
                            int64_t count, int64_t size, float* columns) {
  SUBQUAD_SHARED(TransposeTile, tile);
  const int64_t p0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t g0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t g = first + g0 + threadIdx.x;
  for (int k = threadIdx.y; k < kTile; k += kRows) {
    const int64_t column = (p0 + k) % rows.pitch;
    const int64_t j = (p0 + k) / rows.pitch * rows.width + column;
    const bool is_row =
        column < rows.width && j < rows.rows && g < first + count;
    tile.at[k][threadIdx.x] =
        is_row ? ToFloat(values[g / e * head_stride + j * e + g % e]) : 0.0f;
  }
  __syncthreads();
  for (int k = threadIdx.y; k < kTile; k += kRows) {
    const int64_t p = p0 + threadIdx.x;
    if (g0 + k < count && p < size)
      columns[(g0 + k) * size + p] = tile.at[threadIdx.x][k];
  }
}

// The way back: out[i][g] = columns[g - first][place of row i], or += that.
template <typename Out, bool kAdd>
__global__ void StoreColumns(const float* columns, int64_t size,
                             int64_t head_stride, PaddedRows rows, int64_t e,
                             int64_t first, int64_t count, Out* out) {
  SUBQUAD_SHARED(TransposeTile, tile);
  const int64_t i0 = static_cast<int64_t>(blockIdx.x) * kTile;
  const int64_t g0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int64_t from = i0 + threadIdx.x;
  const int64_t p = from / rows.width * rows.pitch + from % rows.width;
  for (int k = threadIdx.y; k < kTile; k += kRows)
    tile.at[k][threadIdx.x] = g0 + k < count && from < rows.rows
                                  ? columns[(g0 + k) * size + p]
                                  : 0.0f;
  __syncthreads();
  const int64_t g = first + g0 + threadIdx.x;
  for (int k = threadIdx.y; k < kTile; k += kRows) {
    const int64_t i = i0 + k;
    if (i >= rows.rows || g >= first + count) continue;
    Out* to = out + g / e * head_stride + i * e + g % e;
    const float value = tile.at[threadIdx.x][k];
    Store(kAdd ? ToFloat(*to) + value : value, to);
  }
}

// columns *= spectrum * factor, in complex numbers.
__global__ void Multiply(const float2* spectra, bool per_head, int64_t bins,
                         int64_t e, int64_t first, float factor,
                         float2* columns) {
  const int64_t k = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (k >= bins) return;
  const int64_t g = blockIdx.y;
  const float2 w = spectra[(per_head ? (first + g) / e * bins : 0) + k];
  const float2 v = columns[g * bins + k];
  columns[g * bins + k] = make_float2((w.x * v.x - w.y * v.y) * factor,
                                      (w.x * v.y + w.y * v.x) * factor);
}

int64_t Points(const CirculantShape& shape) {
  int64_t points = 1;
  for (const int64_t length : shape.lengths) points *= length;
  return points;
}

int64_t ColumnSize(const CirculantShape& shape) {
  const int64_t last = shape.lengths.back();
  return Points(shape) / last * FftStride(last);
}

int64_t ColumnsAtOnce(const CirculantShape& shape) {
  const int64_t bytes = ColumnSize(shape) * sizeof(float);
  const int64_t fit =
      std::max<int64_t>(kCachedBytes / bytes / kTile * kTile, kTile);
  return std::min({shape.heads * shape.e, fit, kMostColumns});
}

}  // namespace

double CirculantProduct::Flops() const {
  const auto points = static_cast<double>(Points(shape_));
  const auto columns = static_cast<double>(shape_.heads * shape_.e);
  return (2 * columns + static_cast<double>(shape_.vectors)) * 2.5 * points *
         std::log2(points);
}

CirculantProduct::CirculantProduct(Layout& layout, const CirculantShape& shape)
    : shape_(shape),
      size_(ColumnSize(shape)),
      columns_at_once_(ColumnsAtOnce(shape)),
      spectra_(layout, shape.vectors * size_),
      columns_(layout, columns_at_once_ * size_),
      vector_plan_(layout, shape.lengths, shape.vectors, Transform::kForward),
      forward_(layout, shape.lengths, columns_at_once_, Transform::kForward),
      backward_(layout, shape.lengths, columns_at_once_, Transform::kBackward) {
  area_.Share(
      layout, {&vector_plan_, &forward_, &backward_},
      sizeof(float) * static_cast<double>(spectra_.size() + columns_.size()));
}

template <typename S, typename Out>
void CirculantProduct::Run(HeadArray<const S> values, HeadArray<Out> out,
                           bool add) {
  const int64_t e = shape_.e, all = shape_.heads * e, bins = size_ / 2;
  const float factor = 1.0f / static_cast<float>(Points(shape_));
  const dim3 threads(kTile, kRows);
  vector_plan_.Execute(spectra_.data());
  for (int64_t first = 0; first < all; first += columns_at_once_) {
    const int64_t count = std::min(columns_at_once_, all - first);
    const int64_t across = PiecesOf(count, kTile);
    SUBQUAD_LAUNCH(LoadColumns<S>, Grid(PiecesOf(size_, kTile), across),
                   threads, sizeof(TransposeTile), values.data,
                   values.head_stride, shape_.in, e, first, count, size_,
                   columns_.data());
    forward_.Execute(columns_.data());
    SUBQUAD_LAUNCH(Multiply, Grid(PiecesOf(bins, kThreads), count), kThreads, 0,
                   reinterpret_cast<const float2*>(spectra_.data()),
                   shape_.vectors > 1, bins, e, first, factor,
                   reinterpret_cast<float2*>(columns_.data()));
    backward_.Execute(columns_.data());
    const dim3 grid = Grid(PiecesOf(shape_.out.rows, kTile), across);
    if (add)
      SUBQUAD_LAUNCH((StoreColumns<Out, true>), grid, threads,
                     sizeof(TransposeTile), columns_.data(), size_,
                     out.head_stride, shape_.out, e, first, count, out.data);
    else
      SUBQUAD_LAUNCH((StoreColumns<Out, false>), grid, threads,
                     sizeof(TransposeTile), columns_.data(), size_,
                     out.head_stride, shape_.out, e, first, count, out.data);
  }
}

#define SUBQUAD_CIRCULANT(S, Out)                                 \
  template void CirculantProduct::Run<S, Out>(HeadArray<const S>, \
                                              HeadArray<Out>, bool);
SUBQUAD_CIRCULANT(float, float)
SUBQUAD_CIRCULANT(__nv_bfloat16, __nv_bfloat16)
SUBQUAD_CIRCULANT(__nv_bfloat16, float)
SUBQUAD_CIRCULANT(__half, __half)
SUBQUAD_CIRCULANT(__half, float)
#undef SUBQUAD_CIRCULANT

}  // namespace subquad::device
