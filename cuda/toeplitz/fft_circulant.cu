#include <algorithm>
#include <cmath>

#include "cuda/toeplitz/fft_circulant.h"

namespace subquad::device {
namespace {

constexpr int kTile = 32;
constexpr int kRows = 8;

// The size is about half of a Hopper's second-level cache, so that the
// transforms and the product between them read the results of the previous step
// from it.
constexpr int64_t kCachedBytes = 24 << 20;
constexpr int64_t kMostColumns = 32768;

struct TransposeTile {
  float at[kTile][kTile + 1];
};

// The PaddedRows of one column, which has fewer than 2^31 elements.
struct Places {
  explicit Places(const PaddedRows& padded)
      : rows(static_cast<int>(padded.rows)),
        width(static_cast<int>(padded.width)),
        pitch(static_cast<int>(padded.pitch)) {}
  int rows, width, pitch;

  // Returns the row at element p, or -1. Only an image needs divisions.
  template <bool kImage>
  __device__ int RowAt(int p) const {
    if (!kImage) return p < rows ? p : -1;
    const int column = p % pitch, row = p / pitch * width + column;
    return column < width && row < rows ? row : -1;
  }
  template <bool kImage>
  __device__ int PlaceOf(int row) const {
    return kImage ? row / width * pitch + row % width : row;
  }
};

// Returns where column g of all heads' columns, column g mod e of head g / e,
// begins in a tensor.
__device__ inline int64_t BeginOf(int64_t g, int64_t e, int64_t head_stride) {
  const auto column = static_cast<uint32_t>(g),
             width = static_cast<uint32_t>(e);
  return column / width * head_stride + column % width;
}

// Loads columns[g - first][p] = values[row at p][g], zero where there is no
// row, for `count` columns from `first` on. The tensor is read by rows, the
// columns are written contiguously.
template <typename S, bool kImage>
__global__ void LoadColumns(const S* values, int64_t head_stride, Places places,
                            int64_t e, int64_t first, int64_t count,
                            int64_t size, float* columns) {
  SUBQUAD_SHARED(TransposeTile, tile);
  const int p0 = static_cast<int>(blockIdx.x) * kTile;
  const int64_t g0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const bool is_column = g0 + threadIdx.x < count;
  values += BeginOf(first + g0 + threadIdx.x, e, head_stride);
#pragma unroll
  for (int k = 0; k < kTile; k += kRows) {
    const int y = k + static_cast<int>(threadIdx.y);
    const int j = places.RowAt<kImage>(p0 + y);
    tile.at[y][threadIdx.x] =
        is_column && j >= 0 ? ToFloat(values[j * e]) : 0.0f;
  }
  __syncthreads();
  const int64_t p = p0 + static_cast<int>(threadIdx.x);
  if (p >= size) return;
  columns += (g0 + threadIdx.y) * size + p;
#pragma unroll
  for (int k = 0; k < kTile; k += kRows)
    if (g0 + threadIdx.y + k < count)
      columns[k * size] = tile.at[threadIdx.x][threadIdx.y + k];
}

// Reverses LoadColumns: out[i][g] = columns[g - first][place of row i], or +=
// that.
template <typename Out, bool kAdd, bool kImage>
__global__ void StoreColumns(const float* columns, int64_t size,
                             int64_t head_stride, Places places, int64_t e,
                             int64_t first, int64_t count, Out* out) {
  SUBQUAD_SHARED(TransposeTile, tile);
  const int i0 = static_cast<int>(blockIdx.x) * kTile;
  const int64_t g0 = static_cast<int64_t>(blockIdx.y) * kTile;
  const int from = i0 + static_cast<int>(threadIdx.x);
  columns += (g0 + threadIdx.y) * size + places.PlaceOf<kImage>(from);
#pragma unroll
  for (int k = 0; k < kTile; k += kRows)
    tile.at[threadIdx.y + k][threadIdx.x] =
        g0 + threadIdx.y + k < count && from < places.rows ? columns[k * size]
                                                           : 0.0f;
  __syncthreads();
  if (g0 + threadIdx.x >= count) return;
  out += BeginOf(first + g0 + threadIdx.x, e, head_stride);
#pragma unroll
  for (int k = 0; k < kTile; k += kRows) {
    const int y = k + static_cast<int>(threadIdx.y);
    if (i0 + y >= places.rows) continue;
    Out* to = out + (i0 + y) * e;
    const float value = tile.at[threadIdx.x][y];
    Store(kAdd ? ToFloat(*to) + value : value, to);
  }
}

int64_t Points(const CirculantShape& shape) {
  int64_t points = 1;
  for (const int64_t length : shape.lengths) points *= length;
  return points;
}

int64_t ColumnsAtOnce(const CirculantShape& shape) {
  const int64_t bytes = Points(shape) * static_cast<int64_t>(sizeof(float));
  const int64_t fit = std::clamp<int64_t>(kCachedBytes / bytes / kTile * kTile,
                                          kTile, kMostColumns);
  return EqualGroup(shape.heads * shape.e, fit, kTile);
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
      size_(Points(shape)),
      columns_at_once_(ColumnsAtOnce(shape)),
      vectors_and_columns_(layout, (shape.vectors + columns_at_once_) * size_),
      vector_plan_(layout, shape.lengths,
                   shape.vectors + (together() ? columns_at_once_ : 0)),
      plan_(layout, shape.lengths, columns_at_once_) {
  if (size_ > 0x7FFFFFFF || shape.heads * shape.e > 0x7FFFFFFF)
    throw DeviceError("too long for one transform: " + std::to_string(size_) +
                      " numbers");
  area_.Share(layout, {&vector_plan_, &plan_},
              sizeof(float) * static_cast<double>(vectors_and_columns_.size()));
}

template <typename S, typename Out>
void CirculantProduct::Run(HeadArray<const S> values, HeadArray<Out> out,
                           bool add) {
  const int64_t e = shape_.e, all = shape_.heads * e;
  float* const vectors = vectors_and_columns_.data();
  float* const columns = vectors + shape_.vectors * size_;
  const dim3 threads(kTile, kRows);
  const auto load_columns =
      shape_.in.pitch < size_ ? LoadColumns<S, true> : LoadColumns<S, false>;
  const bool to_image = shape_.out.pitch < size_;
  const auto store_columns = to_image ? (add ? StoreColumns<Out, true, true>
                                             : StoreColumns<Out, false, true>)
                                      : (add ? StoreColumns<Out, true, false>
                                             : StoreColumns<Out, false, false>);
  if (!together()) vector_plan_.Execute(vectors, Transform::kForward);
  for (int64_t first = 0; first < all; first += columns_at_once_) {
    const int64_t count = std::min(columns_at_once_, all - first);
    const int64_t across = PiecesOf(count, kTile);
    SUBQUAD_LAUNCH(load_columns, Grid(PiecesOf(size_, kTile), across), threads,
                   sizeof(TransposeTile), values.data, values.head_stride,
                   Places(shape_.in), e, first, count, size_, columns);
    if (together())
      vector_plan_.Execute(vectors, Transform::kForward);
    else
      plan_.Execute(columns, Transform::kForward);
    MultiplyTransforms(shape_.lengths, vectors,
                       {first, count, e, shape_.vectors == 1}, columns);
    plan_.Execute(columns, Transform::kBackward);
    SUBQUAD_LAUNCH(store_columns,
                   Grid(PiecesOf(shape_.out.rows, kTile), across), threads,
                   sizeof(TransposeTile), columns, size_, out.head_stride,
                   Places(shape_.out), e, first, count, out.data);
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
