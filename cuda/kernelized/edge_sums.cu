#include "cuda/base/launch.h"
#include "cuda/kernelized/edge_sums.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;
constexpr int kRun = EdgeSumsView::kRun;

// Returns the number of tiles with keys beside them, including tiles that would
// follow the last block.
int64_t CountOf(const ClippedEdges& edges, Side side) {
  if (side == Side::kBefore) return edges.blocks();
  if (edges.causal) return 0;
  int64_t count = 0;
  const int64_t first_end = edges.End(0);
  if (first_end < edges.n_k)
    count = PiecesOf(edges.n_k - first_end, ClippedEdges::kQueries);
  return count;
}

// Returns the rows of all levels: every level has a sum for each run of the
// previous one.
int64_t RowsOf(int64_t count) {
  int64_t rows = count;
  while (count > kRun) {
    count = PiecesOf(count, kRun);
    rows += count;
  }
  return rows;
}

// Computes sums[x], the values between two adjacent edges, with x counted from
// the end where the sums begin. Uses a thread for each sum and column.
template <typename S>
__global__ void SumBetweenEdges(const S* values, int64_t values_head_stride,
                                ClippedEdges edges, bool before, int64_t count,
                                int64_t e, float* sums, int64_t head_stride) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count * e) return;
  const int64_t x = at / e, c = at % e;
  const int64_t begin = before ? edges.Begin(x - 1) : edges.End(count - 1 - x);
  const int64_t end = before ? edges.Begin(x) : edges.End(count - x);
  const S* column = values + blockIdx.y * values_head_stride + c;
  float sum = 0;
  for (int64_t j = begin; j < end; ++j) sum += ToFloat(column[j * e]);
  sums[blockIdx.y * head_stride + at] = sum;
}

// Adds up within runs of kRun rows: each row becomes the sum of the rows up to
// it, and the last one is written to the next level, which may be null.
__global__ void AddUpRuns(float* sums, int64_t count, int64_t e,
                          int64_t head_stride, float* next) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t run = at / e, c = at % e;
  if (run * kRun >= count) return;
  float* column = sums + blockIdx.y * head_stride + c;
  const int64_t end = min((run + 1) * kRun, count);
  float sum = 0;
  for (int64_t x = run * kRun; x < end; ++x) {
    sum += column[x * e];
    column[x * e] = sum;
  }
  if (next) next[blockIdx.y * head_stride + at] = sum;
}

}  // namespace

EdgeSums::EdgeSums(Layout& layout, const ClippedEdges& edges, Side side,
                   int64_t e, int64_t heads)
    : edges_(edges),
      side_(side),
      e_(e),
      heads_(heads),
      count_(CountOf(edges, side)),
      sums_(layout, heads * RowsOf(count_) * e) {}

EdgeSumsView EdgeSums::View(int64_t first_head) const {
  const int64_t head_stride = RowsOf(count_) * e_;
  return {sums_.data() + first_head * head_stride, head_stride, count_, e_,
          side_ == Side::kBefore};
}

template <typename S>
void EdgeSums::Run(HeadArray<const S> values) {
  if (count_ == 0) return;
  const int64_t head_stride = RowsOf(count_) * e_;
  SUBQUAD_LAUNCH(SumBetweenEdges<S>,
                 Grid(PiecesOf(count_ * e_, kThreads), heads_), kThreads, 0,
                 values.data, values.head_stride, edges_,
                 side_ == Side::kBefore, count_, e_, sums_.data(), head_stride);
  float* level = sums_.data();
  for (int64_t count = count_;;) {
    const int64_t runs = PiecesOf(count, kRun);
    float* const next = runs > 1 ? level + count * e_ : nullptr;
    SUBQUAD_LAUNCH(AddUpRuns, Grid(PiecesOf(runs * e_, kThreads), heads_),
                   kThreads, 0, level, count, e_, head_stride, next);
    if (!next) return;
    level = next;
    count = runs;
  }
}

template void EdgeSums::Run(HeadArray<const float>);
template void EdgeSums::Run(HeadArray<const __nv_bfloat16>);
template void EdgeSums::Run(HeadArray<const __half>);

}  // namespace subquad::device
