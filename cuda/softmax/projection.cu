#include <algorithm>

#include "cuda/softmax/projection.h"
#include "cuda/softmax/softmax_block.h"

namespace subquad::device {
namespace {

constexpr int kTile = 64;
constexpr int kThreads = 256;
// There is about one block per multiprocessor, with enough terms to be worth
// it.
constexpr int64_t kBlocks = 128;
constexpr int64_t kLeastTerms = 256;

struct Slabs {
  SoftmaxSlab matrix, rows;
};

int64_t Tiles(const ProjectionShape& shape) {
  return PiecesOf(shape.p, kTile) * PiecesOf(shape.width, kTile);
}

// Returns the terms of a part: a multiple of a slab, so that parts begin
// aligned.
int64_t Terms(const ProjectionShape& shape) {
  const int64_t parts =
      std::clamp<int64_t>(kBlocks / (shape.heads * Tiles(shape)), 1,
                          std::max<int64_t>(1, shape.n / kLeastTerms));
  return PiecesOf(PiecesOf(shape.n, parts), kSoftmaxDepth) * kSoftmaxDepth;
}

int64_t Parts(const ProjectionShape& shape) {
  return PiecesOf(shape.n, Terms(shape));
}

// Computes parts[part][h] = matrix[h] rows[h] over the terms of the part. A
// block computes a tile of 64 x 64 elements.
template <typename S>
__global__ void __launch_bounds__(kSoftmaxThreads, 4)
    Project(const ProjectionShape shape, int64_t terms,
            HeadArray<const S> matrix, bool matrix_in_fours,
            HeadArray<const S> rows, bool rows_in_fours, float* parts) {
  SUBQUAD_SHARED(Slabs, shared);
  const auto& [heads, p, n, width] = shape;
  const int64_t head = blockIdx.x % heads, part = blockIdx.x / heads;
  const int64_t across = (width + kTile - 1) / kTile;
  const int64_t p0 = blockIdx.y / across * kTile;
  const int64_t c0 = blockIdx.y % across * kTile;
  const S* from_matrix = matrix.data + head * matrix.head_stride + p0 * n;
  const S* from_rows = rows.data + head * rows.head_stride + c0;
  const int count = static_cast<int>(min(int64_t{kTile}, p - p0));
  const int columns = static_cast<int>(min(int64_t{kTile}, width - c0));
  const int64_t end = min((part + 1) * terms, n);
  float sums[4][8] = {};
  for (int64_t first = part * terms; first < end; first += kSoftmaxDepth) {
    const int depth =
        static_cast<int>(min(int64_t{kSoftmaxDepth}, end - first));
    __syncthreads();
    LoadTransposed([=](int r) { return from_matrix + r * n + first; }, count,
                   depth, matrix_in_fours, 1.0f, shared.matrix);
    LoadRows<kSoftmaxDepth, kTile>(
        [=](int r) { return from_rows + (first + r) * width; }, depth, columns,
        rows_in_fours, kTile + 4, &shared.rows[0][0]);
    __syncthreads();
    AddProducts(shared.matrix, shared.rows, depth, sums);
  }
  float* to = parts + ((part * heads + head) * p + p0) * width + c0;
  const int row = SoftmaxRow();
#pragma unroll
  for (int r = 0; r < 4; ++r)
#pragma unroll
    for (int c = 0; c < 8; ++c) {
      const int column = SoftmaxColumn(c);
      if (row + r < count && column < columns)
        to[(row + r) * width + column] = sums[r][c];
    }
}

// Replaces the first part by the sum of all.
__global__ void AddParts(int64_t count, int64_t size, float* parts) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= size) return;
  float sum = parts[at];
  for (int64_t part = 1; part < count; ++part) sum += parts[part * size + at];
  parts[at] = sum;
}

}  // namespace

template <typename S>
Projection<S>::Projection(Layout& layout, const ProjectionShape& shape)
    : shape_(shape),
      parts_(layout, Parts(shape) * shape.heads * shape.p * shape.width) {}

template <typename S>
HeadArray<const float> Projection<S>::Run(HeadArray<const S> matrix,
                                          HeadArray<const S> rows) {
  const int64_t parts = Parts(shape_);
  const int64_t head_size = shape_.p * shape_.width;
  SUBQUAD_LAUNCH(Project<S>, Grid(parts * shape_.heads, Tiles(shape_)),
                 kSoftmaxThreads, sizeof(Slabs), shape_, Terms(shape_), matrix,
                 InFours(matrix, shape_.n), rows, InFours(rows, shape_.width),
                 parts_.data());
  if (parts > 1) {
    const int64_t size = shape_.heads * head_size;
    SUBQUAD_LAUNCH(AddParts, Grid(PiecesOf(size, kThreads)), kThreads, 0, parts,
                   size, parts_.data());
  }
  return {parts_.data(), head_size};
}

template class Projection<float>;
template class Projection<__nv_bfloat16>;
template class Projection<__half>;

}  // namespace subquad::device
