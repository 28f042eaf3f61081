#include <algorithm>

#include "cuda/toeplitz/image_sums.h"

namespace subquad::device {
namespace {

constexpr int kTile = ImageSums::kTile;
constexpr int kLanes = 32;  // channels of a block
constexpr int kRows = 8;
constexpr int kThreads = 256;

struct RowSums {
  float at[kTile][kRows][kLanes];
};

// Sums over one tile of the image, for kLanes channels: each of its rows and
// each of its columns.
//
//   row_parts [heads, strips, height, e], col_parts [heads, bands, width, e]
template <typename S>
__global__ void SumTile(const S* values, int64_t head_stride, ImageShape shape,
                        float* row_parts, float* col_parts) {
  SUBQUAD_SHARED(RowSums, row);
  const int64_t strips = gridDim.x / ((shape.e + kLanes - 1) / kLanes);
  const int64_t strip = blockIdx.x % strips, band = blockIdx.y;
  const int64_t x = blockIdx.x / strips * kLanes + threadIdx.x;
  const int64_t r0 = band * kTile, c0 = strip * kTile + threadIdx.y;
  const int64_t head = blockIdx.z;
  const S* v = values + head * head_stride;
  float col[kTile / kRows] = {};
  for (int r = 0; r < kTile; ++r) {
    float sum = 0;
#pragma unroll
    for (int k = 0; k < kTile / kRows; ++k) {
      const int64_t c = c0 + k * kRows;
      if (r0 + r >= shape.height || c >= shape.width || x >= shape.e) continue;
      const float value =
          ToFloat(v[((r0 + r) * shape.width + c) * shape.e + x]);
      sum += value;
      col[k] += value;
    }
    row.at[r][threadIdx.y][threadIdx.x] = sum;
  }
  __syncthreads();
  if (x >= shape.e) return;
#pragma unroll
  for (int k = 0; k < kTile / kRows; ++k) {
    const int64_t c = c0 + k * kRows;
    if (c < shape.width)
      col_parts[((head * gridDim.y + band) * shape.width + c) * shape.e + x] =
          col[k];
    const int r = threadIdx.y + k * kRows;
    if (r0 + r >= shape.height) continue;
    float sum = 0;
    for (int y = 0; y < kRows; ++y) sum += row.at[r][y][threadIdx.x];
    row_parts[((head * strips + strip) * shape.height + r0 + r) * shape.e + x] =
        sum;
  }
}

// Computes sums[head][at] = sum of parts[head][.][at].
__global__ void AddParts(const float* parts, int64_t count, int64_t size,
                         float* sums) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= size) return;
  const float* from = parts + blockIdx.y * count * size + at;
  float sum = 0;
  for (int64_t p = 0; p < count; ++p) sum += from[p * size];
  sums[blockIdx.y * size + at] = sum;
}

// Computes products[head][i] = sum_j w(j - i) sums[head][j], for rows of e
// elements.
template <typename S>
__global__ void MultiplyByDefinition(const S* weights, int64_t head_stride,
                                     const float* sums, int64_t n, int64_t e,
                                     float* products) {
  const int64_t x = static_cast<int64_t>(blockIdx.x) * kLanes + threadIdx.x;
  const int64_t i = static_cast<int64_t>(blockIdx.y) * kRows + threadIdx.y;
  if (x >= e || i >= n) return;
  const S* w = weights + blockIdx.z * head_stride + n - 1 - i;
  const float* from = sums + blockIdx.z * n * e + x;
  float sum = 0;
  for (int64_t j = 0; j < n; ++j) sum += ToFloat(w[j]) * from[j * e];
  products[(blockIdx.z * n + i) * e + x] = sum;
}

// Computes out[head][(r,c)] = rows[head][r] + cols[head][c], or += that.
template <typename Out, bool kAdd>
__global__ void Broadcast(const float* rows, const float* cols,
                          ImageShape shape, int64_t head_stride, Out* out) {
  const int64_t line = shape.width * shape.e, head = blockIdx.z;
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= line) return;
  const float col = cols[head * line + at];
  const float* row = rows + head * shape.height * shape.e + at % shape.e;
  for (int64_t r = blockIdx.y; r < shape.height; r += gridDim.y) {
    Out* to = out + head * head_stride + r * line + at;
    const float value = row[r * shape.e] + col;
    Store(kAdd ? ToFloat(*to) + value : value, to);
  }
}

int64_t Tiles(int64_t n) { return PiecesOf(n, kTile); }

ToeplitzShape LineShape(int64_t n, int64_t e, int64_t heads, bool per_head) {
  return {n, n, e, heads, per_head ? heads : 1};
}

}  // namespace

ImageSums::Line::Line(Layout& layout, int64_t n, int64_t e, int64_t heads,
                      bool per_head)
    : n_(n),
      e_(e),
      heads_(heads),
      sums_(layout, heads * n * e),
      products_(layout, heads * n * e) {
  if (n > kDirect)
    transforms_.emplace(layout, LineShape(n, e, heads, per_head));
}

template <typename S>
void ImageSums::Line::Run(HeadArray<const S> weights) {
  if (transforms_)
    return transforms_->Run<S, float, float>(weights, {sums_.data(), n_ * e_},
                                             {products_.data(), n_ * e_});
  SUBQUAD_LAUNCH(MultiplyByDefinition<S>,
                 Grid(PiecesOf(e_, kLanes), PiecesOf(n_, kRows), heads_),
                 dim3(kLanes, kRows), 0, weights.data, weights.head_stride,
                 sums_.data(), n_, e_, products_.data());
}

double ImageSums::Line::Flops() const {
  if (transforms_) return transforms_->Flops();
  return 2.0 * static_cast<double>(n_) * static_cast<double>(n_) *
         static_cast<double>(e_ * heads_);
}

ImageSums::ImageSums(Layout& layout, const ImageShape& shape)
    : shape_(shape),
      row_parts_(layout,
                 shape.heads * Tiles(shape.width) * shape.height * shape.e),
      col_parts_(layout,
                 shape.heads * Tiles(shape.height) * shape.width * shape.e),
      rows_(layout, shape.height, shape.e, shape.heads, shape.rows_per_head),
      cols_(layout, shape.width, shape.e, shape.heads, shape.cols_per_head) {}

template <typename S, typename Out>
void ImageSums::Run(HeadArray<const S> rows, HeadArray<const S> cols,
                    HeadArray<const S> values, HeadArray<Out> out, bool add) {
  const auto& [height, width, e, heads, rows_own, cols_own] = shape_;
  const int64_t strips = Tiles(width), bands = Tiles(height);
  SUBQUAD_LAUNCH(SumTile<S>, Grid(strips * PiecesOf(e, kLanes), bands, heads),
                 dim3(kLanes, kRows), sizeof(RowSums), values.data,
                 values.head_stride, shape_, row_parts_.data(),
                 col_parts_.data());
  SUBQUAD_LAUNCH(AddParts, Grid(PiecesOf(height * e, kThreads), heads),
                 kThreads, 0, row_parts_.data(), strips, height * e,
                 rows_.sums());
  SUBQUAD_LAUNCH(AddParts, Grid(PiecesOf(width * e, kThreads), heads), kThreads,
                 0, col_parts_.data(), bands, width * e, cols_.sums());
  rows_.Run(rows);
  cols_.Run(cols);
  const dim3 grid = Grid(PiecesOf(width * e, kThreads),
                         std::min(height, kMostBlocksAcross), heads);
  if (add)
    SUBQUAD_LAUNCH((Broadcast<Out, true>), grid, kThreads, 0, rows_.products(),
                   cols_.products(), shape_, out.head_stride, out.data);
  else
    SUBQUAD_LAUNCH((Broadcast<Out, false>), grid, kThreads, 0, rows_.products(),
                   cols_.products(), shape_, out.head_stride, out.data);
}

// Counts each pixel in a row's and a column's sum, and one addition at the end.
double ImageSums::Flops() const {
  return 3.0 * static_cast<double>(shape_.height * shape_.width) *
             static_cast<double>(shape_.e * shape_.heads) +
         rows_.Flops() + cols_.Flops();
}

#define SUBQUAD_IMAGE_SUMS(S, Out)                                             \
  template void ImageSums::Run<S, Out>(HeadArray<const S>, HeadArray<const S>, \
                                       HeadArray<const S>, HeadArray<Out>,     \
                                       bool);
SUBQUAD_IMAGE_SUMS(float, float)
SUBQUAD_IMAGE_SUMS(__nv_bfloat16, __nv_bfloat16)
SUBQUAD_IMAGE_SUMS(__nv_bfloat16, float)
SUBQUAD_IMAGE_SUMS(__half, __half)
SUBQUAD_IMAGE_SUMS(__half, float)
#undef SUBQUAD_IMAGE_SUMS

}  // namespace subquad::device
