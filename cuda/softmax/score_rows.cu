#include "cuda/base/storage.h"
#include "cuda/softmax/score_rows.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

// Copies padded[h][j][c] = values[h][j][c], zero from n_k on.
template <typename S>
__global__ void PadValues(const S* values, int64_t head_stride, int64_t count,
                          int64_t padded_count, float* padded) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= padded_count) return;
  padded[blockIdx.y * padded_count + at] =
      at < count ? ToFloat(values[blockIdx.y * head_stride + at]) : 0.0f;
}

// Computes out[h][i][c] = sum over pieces of products[h][piece][i][c] /
// sums[h][i].
template <typename S>
__global__ void DivideRows(const float* products, const float* sums,
                           int64_t pieces, int64_t rows, int64_t e, S* out,
                           int64_t head_stride) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * e) return;
  const float* own = products + blockIdx.y * pieces * rows * e + at;
  float sum = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) sum += own[piece * rows * e];
  Store(QuotientOrZero(sum, sums[blockIdx.y * rows + at / e]),
        out + blockIdx.y * head_stride + at);
}

}  // namespace

template <typename S>
void ScoreRows::LoadValues(HeadArray<const S> values, int64_t n_k) {
  const int64_t count = plan_.value_rows() * plan_.e();
  SUBQUAD_LAUNCH(PadValues<S>, Grid(PiecesOf(count, kThreads), plan_.heads()),
                 kThreads, 0, values.data, values.head_stride, n_k * plan_.e(),
                 count, values_.data());
}

void ScoreRows::MultiplyKeys(const RowBlock& block,
                             HeadArray<const float> queries,
                             HeadArray<const float> keys, int64_t width,
                             int64_t count, float* scores) {
  const int64_t stride = plan_.stride();
  gemm_.Run<float>(block.heads, 1,
                   {queries.Head(block.first_head) + block.first * width,
                    block.rows, width, width, queries.head_stride},
                   {keys.Head(block.first_head), count, width, width,
                    keys.head_stride, true},
                   0, {scores, block.rows, count, stride, block.rows * stride});
}

template <typename S>
void ScoreRows::MultiplyValues(const RowBlock& block, int64_t keys,
                               HeadArray<S> out) {
  const int64_t stride = plan_.stride(), e = plan_.e();
  const float* values =
      values_.data() + block.first_head * plan_.value_rows() * e;
  const DeviceMatrix<float> products = {products_.data(), block.rows, e, e,
                                        block.rows * e};
  int64_t pieces = 1;
  if (plan_.pieces() > 1) {
    const int64_t piece = plan_.piece();
    pieces = PiecesOf(keys, piece);
    gemm_.Run<float>(pieces, 1,
                     {scores_.data(), block.rows, piece, stride, piece},
                     {values, piece, e, e, piece * e}, 0, products);
  } else {
    gemm_.Run<float>(
        block.heads, 1,
        {scores_.data(), block.rows, keys, stride, block.rows * stride},
        {values, keys, e, e, plan_.value_rows() * e}, 0, products);
  }
  SUBQUAD_LAUNCH(
      DivideRows<S>, Grid(PiecesOf(block.rows * e, kThreads), block.heads),
      kThreads, 0, products_.data(), sums_.data(), pieces, block.rows, e,
      out.Head(block.first_head) + block.first * e, out.head_stride);
}

#define SUBQUAD_SCORE_ROWS(S)                                          \
  template void ScoreRows::LoadValues<S>(HeadArray<const S>, int64_t); \
  template void ScoreRows::MultiplyValues<S>(const RowBlock&, int64_t, \
                                             HeadArray<S>);
SUBQUAD_SCORE_ROWS(float)
SUBQUAD_SCORE_ROWS(__nv_bfloat16)
SUBQUAD_SCORE_ROWS(__half)
#undef SUBQUAD_SCORE_ROWS

}  // namespace subquad::device
