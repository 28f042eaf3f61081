// clipped_rpe_product on the GPU: out = S v, S_ij = q_i . rpe[clip(j-i, -r, r)
// + r] (LRPE section III)
//
//   dense     Q rpe^T by cuBLAS, spread out to the matrix S in memory, S times
//             v by cuBLAS
//   windowed  clipped keys have one weight on each side: a sum of values
//             at the edges of every block of queries replaces them, and a
//             kernel multiplies the values of the window between them
//
// The reference's bound holds for any grouping of the terms, so both
// implementations have it with a factor of one; for the sums at the edges see
// edge_sums.h.
#include <algorithm>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/kernelized/edge_sums.h"
#include "cuda/softmax/dense_attention.h"
#include "cuda/softmax/row_blocks.h"
#include "cuda/toeplitz/dense_product.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

ClippedEdges EdgesOf(const Problem& problem) {
  return {.n_q = problem.Dim("n_q"),
          .n_k = problem.Dim("n_k"),
          .r = problem.Dim("r"),
          .causal = problem.params.Flag("causal")};
}

// Pads a row of weights, one for each offset that occurs, so that cuBLAS can
// read and write four elements at once.
int64_t WeightStride(const ClippedEdges& edges) {
  return PiecesOf(edges.columns(), 4) * 4;
}

// Computes weights[h][i - first][x] = q_i . rpe[x + first_row] for a block of
// rows.
template <typename S>
class OffsetScores {
 public:
  OffsetScores(Layout& layout, const Problem& problem,
               const ClippedEdges& edges, int64_t rows)
      : edges_(edges),
        d_(problem.Dim("d")),
        stride_(WeightStride(edges)),
        weights_(layout, rows * stride_),
        gemm_(layout) {}

  // The rows of a head follow those of the previous head.
  const float* Run(HeadArray<const S> q, HeadArray<const S> rpe,
                   const RowBlock& block) {
    gemm_.Run<S>(block.heads, 1,
                 {q.Head(block.first_head) + block.first * d_, block.rows, d_,
                  d_, q.head_stride},
                 {rpe.Head(block.first_head) + edges_.first_row() * d_,
                  edges_.columns(), d_, d_, rpe.head_stride, true},
                 0,
                 {weights_.data(), block.rows, edges_.columns(), stride_,
                  block.rows * stride_});
    return weights_.data();
  }

  // Counts the flops for `rows` rows.
  double Flops(int64_t rows) const {
    return 2 * static_cast<double>(rows) *
           static_cast<double>(edges_.columns() * d_);
  }

 private:
  const ClippedEdges edges_;
  const int64_t d_, stride_;
  DeviceBuffer<float> weights_;
  Gemm gemm_;
};

// ---- dense

// Fills matrix[i][j] with the weight of the clipped offset j - i.
__global__ void Spread(const float* weights, int64_t stride, ClippedEdges edges,
                       float* matrix) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= edges.n_q * edges.n_k) return;
  const int64_t i = at / edges.n_k, j = at % edges.n_k;
  matrix[blockIdx.y * edges.n_q * edges.n_k + at] =
      edges.causal && j > i ? 0.0f
                            : weights[(blockIdx.y * edges.n_q + i) * stride +
                                      edges.Column(j - i)];
}

template <typename S>
class Dense : public DevicePrepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        edges_(EdgesOf(problem)),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        scores_(layout, problem, edges_, heads_ * edges_.n_q),
        product_(layout, edges_.n_q, edges_.n_k, e_, heads_, heads_) {}

  void Launch() override {
    const float* weights =
        scores_.Run(In<S>("q"), In<S>("rpe"), {0, heads_, 0, edges_.n_q});
    SUBQUAD_LAUNCH(
        Spread, Grid(PiecesOf(edges_.n_q * edges_.n_k, kThreads), heads_),
        kThreads, 0, weights, WeightStride(edges_), edges_, product_.matrix());
    product_.Run(In<S>("v"), Out<S>("out"));
  }

  double Flops() const override {
    return scores_.Flops(heads_ * edges_.n_q) +
           2 * static_cast<double>(edges_.n_q * edges_.n_k) *
               static_cast<double>(heads_ * e_);
  }

 private:
  const ClippedEdges edges_;
  const int64_t e_, heads_;
  OffsetScores<S> scores_;
  DenseProduct<S, float> product_;
};

// ---- windowed

// Queries, keys and columns of a block and of one step through its keys; a
// thread computes kEach queries by kEach columns.
constexpr int kQueries = ClippedEdges::kQueries;
constexpr int kKeys = 32;
constexpr int kColumns = 64;
constexpr int kEach = 4;
constexpr int kAcross = kColumns / kEach;
constexpr int kWindowThreads = kQueries / kEach * kAcross;

// Rows begin at multiples of 16 bytes, and those of the weights four banks
// apart.
struct WindowTile {
  float weights[kQueries][kKeys + 4];
  float values[kKeys][kColumns];
};

__device__ inline void AddScaled(float factor, const float4& row, float* sums) {
  sums[0] += factor * row.x;
  sums[1] += factor * row.y;
  sums[2] += factor * row.z;
  sums[3] += factor * row.w;
}

// Computes one block of queries by kColumns columns of the values: out_i =
// w_first (sum of the values before the tile)
//       + sum over the tile w_ij v_j + w_last (sum of the values after it).
// The weights are those of blocks from `first_block` on; the sums are at the
// edges of all blocks.
template <typename S>
__global__ void __launch_bounds__(kWindowThreads, 5)
    MultiplyWindow(const float* weights, int64_t stride, int64_t rows,
                   int64_t first_block, ClippedEdges edges, EdgeSumsView before,
                   EdgeSumsView after, const S* v, int64_t v_head_stride,
                   int64_t e, S* out, int64_t out_head_stride) {
  SUBQUAD_SHARED(WindowTile, tile);
  const int64_t b = first_block + blockIdx.x, head = blockIdx.z;
  const int64_t i0 = b * kQueries, c0 = blockIdx.y * kColumns;
  weights += (head * rows + blockIdx.x * kQueries) * stride;
  v += head * v_head_stride;
  const int here =
      static_cast<int>(min(static_cast<int64_t>(kQueries), edges.n_q - i0));
  const int lane = threadIdx.x % kKeys;
  const int row0 = threadIdx.x / kAcross * kEach;
  const int column0 = threadIdx.x % kAcross * kEach;
  float sums[kEach][kEach] = {};

  const int64_t begin = edges.Begin(b), end = edges.End(b);
  for (int64_t j0 = begin; j0 < end; j0 += kKeys) {
    if (j0 > begin) __syncthreads();
    const int64_t j = j0 + lane;
#pragma unroll
    for (int i = threadIdx.x / kKeys; i < kQueries;
         i += kWindowThreads / kKeys) {
      const bool visible = i < here && j < end && !(edges.causal && j > i0 + i);
      tile.weights[i][lane] =
          visible ? weights[i * stride + edges.Column(j - i0 - i)] : 0.0f;
    }
#pragma unroll
    for (int k = threadIdx.x / kColumns; k < kKeys;
         k += kWindowThreads / kColumns) {
      const int64_t c = c0 + threadIdx.x % kColumns;
      tile.values[k][threadIdx.x % kColumns] =
          j0 + k < end && c < e ? ToFloat(v[(j0 + k) * e + c]) : 0.0f;
    }
    __syncthreads();
#pragma unroll 2
    for (int k = 0; k < kKeys; k += 4) {
      float4 value[4];
#pragma unroll
      for (int x = 0; x < 4; ++x)
        value[x] =
            *reinterpret_cast<const float4*>(&tile.values[k + x][column0]);
#pragma unroll
      for (int i = 0; i < kEach; ++i) {
        const float4 weight =
            *reinterpret_cast<const float4*>(&tile.weights[row0 + i][k]);
        AddScaled(weight.x, value[0], sums[i]);
        AddScaled(weight.y, value[1], sums[i]);
        AddScaled(weight.z, value[2], sums[i]);
        AddScaled(weight.w, value[3], sums[i]);
      }
    }
  }

  const int64_t last = edges.columns() - 1;
#pragma unroll
  for (int x = 0; x < kEach; ++x) {
    const int64_t c = c0 + column0 + x;
    if (c >= e) continue;
    const float left = before.At(head, b, c), right = after.At(head, b, c);
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      if (row0 + i >= here) continue;
      const float* own = weights + (row0 + i) * stride;
      Store(own[0] * left + sums[i][x] + own[last] * right,
            out + head * out_head_stride + (i0 + row0 + i) * e + c);
    }
  }
}

RowBlocks WindowBlocks(const Problem& problem) {
  const ClippedEdges edges = EdgesOf(problem);
  return {edges.n_q, problem.heads,
          WeightStride(edges) * static_cast<int64_t>(sizeof(float))};
}

template <typename S>
class Windowed : public DevicePrepared {
 public:
  Windowed(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        edges_(EdgesOf(problem)),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        blocks_(WindowBlocks(problem)),
        scores_(layout, problem, edges_, blocks_.heads() * blocks_.rows()),
        before_(layout, edges_, Side::kBefore, e_, heads_),
        after_(layout, edges_, Side::kAfter, e_, heads_) {}

  void Launch() override {
    const auto q = In<S>("q"), rpe = In<S>("rpe"), v = In<S>("v");
    const auto out = Out<S>("out");
    before_.Run(v);
    after_.Run(v);
    blocks_.ForEach([&](const RowBlock& block) {
      const float* weights = scores_.Run(q, rpe, block);
      SUBQUAD_LAUNCH(MultiplyWindow<S>,
                     Grid(PiecesOf(block.rows, kQueries),
                          PiecesOf(e_, kColumns), block.heads),
                     kWindowThreads, sizeof(WindowTile), weights,
                     WeightStride(edges_), block.rows, block.first / kQueries,
                     edges_, before_.View(block.first_head),
                     after_.View(block.first_head), v.Head(block.first_head),
                     v.head_stride, e_, out.Head(block.first_head),
                     out.head_stride);
    });
  }

  double Flops() const override {
    double pairs = 0;
    for (int64_t b = 0; b < edges_.blocks(); ++b)
      pairs += static_cast<double>(
          std::min<int64_t>(kQueries, edges_.n_q - b * kQueries) *
          (edges_.End(b) - edges_.Begin(b)));
    const double sides = edges_.causal ? 1 : 2;
    return scores_.Flops(heads_ * edges_.n_q) +
           static_cast<double>(heads_ * e_) *
               (2 * pairs + 4 * static_cast<double>(edges_.n_q) +
                sides * static_cast<double>(edges_.n_k));
  }

 private:
  static_assert(RowBlocks::kStep % kQueries == 0);
  const ClippedEdges edges_;
  const int64_t e_, heads_;
  const RowBlocks blocks_;
  OffsetScores<S> scores_;
  EdgeSums before_, after_;
};

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> ClippedRpeProductCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "clipped_rpe_product",
      {{.id = "dense",
        .what = "scores of all offsets, expanded to a matrix, times v (cuBLAS)",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "windowed",
        .what = "a sum for each tail, a kernel for the window between them",
        .memory = {"O(n e / 32), and weights of the queries in flight", "n"},
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Windowed>()}});
}

}  // namespace subquad
