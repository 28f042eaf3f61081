// Softmax attention with scores in memory, one block of rows after another: the
// caller writes scores, or the data that they are computed from, and gets
// softmax(scores) values.
//
// The product with the values sums over many keys for few results. If a block
// has one head, the product is computed for several pieces of the keys at once;
// the kernel that divides by the sums of the weights adds them up.
#pragma once

#include "cuda/base/gemm.h"
#include "cuda/base/launch.h"
#include "cuda/softmax/row_blocks.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

// The properties that follow from sizes alone.
class ScorePlan {
 public:
  static constexpr int64_t kPiece = kEmulated ? 32 : 512;

  ScorePlan(int64_t n_k, int64_t e, int64_t heads, const RowBlocks& blocks)
      : e_(e), heads_(heads), blocks_(blocks) {
    pieces_ = blocks.heads() == 1 ? PiecesOf(n_k, kPiece) : 1;
    piece_ = pieces_ == 1 ? n_k : Aligned(PiecesOf(n_k, pieces_));
  }

  int64_t e() const { return e_; }
  int64_t heads() const { return heads_; }
  const RowBlocks& blocks() const { return blocks_; }

  // The distance from one row of scores to the next.
  int64_t stride() const { return Aligned(pieces_ * piece_); }
  // Elements in the rows of scores of a block.
  int64_t scores() const { return blocks_.heads() * blocks_.rows() * stride(); }

  // Rows of a head's values; those from n_k on are zero.
  int64_t value_rows() const { return pieces_ * piece_; }
  int64_t values() const { return heads_ * value_rows() * e_; }

  int64_t pieces() const { return pieces_; }
  int64_t piece() const { return piece_; }
  // products() counts the elements in the products of pieces, sums() those in
  // the sums of weights.
  int64_t products() const {
    return blocks_.heads() * blocks_.rows() * pieces_ * e_;
  }
  int64_t sums() const { return blocks_.heads() * blocks_.rows(); }

 private:
  // Pads rows so that cuBLAS can read and write four elements at once.
  static int64_t Aligned(int64_t numbers) { return PiecesOf(numbers, 4) * 4; }

  const int64_t e_, heads_;
  const RowBlocks blocks_;
  int64_t pieces_, piece_;
};

// Combines one value of each thread of a warp or a block, in an order that is
// always the same. `scratch` is for blocks: one element for each warp, used
// once.
template <int kThreads, typename Combine>
__device__ float OfAllThreads(float value, float* scratch, Combine combine) {
#pragma unroll
  for (int lanes = 16; lanes > 0; lanes /= 2)
    value = combine(value, __shfl_xor_sync(0xFFFFFFFF, value, lanes));
  if constexpr (kThreads > 32) {
    if (threadIdx.x % 32 == 0) scratch[threadIdx.x / 32] = value;
    __syncthreads();
    value = scratch[0];
#pragma unroll
    for (int warp = 1; warp < kThreads / 32; ++warp)
      value = combine(value, scratch[warp]);
  }
  return value;
}

inline constexpr int kSoftmaxThreads = 256;

struct SoftmaxScratch {
  float largest[kSoftmaxThreads / 32], sums[kSoftmaxThreads / 32];
};

// Computes weights[h][i][j] = exp(score(h, i, j) - m), m the largest of the
// row, and zero for the keys from score.Seen(i) up to `columns`; sums[h][i] are
// the rows' sums. Seen(i) is one or more. A score is requested twice, the
// second time by the thread that then writes the weight, so that weights may
// overwrite the data that scores are computed from. Uses kThreads threads for
// each row.
template <int kThreads, typename Score>
__global__ void __launch_bounds__(kSoftmaxThreads)
    ExponentiateRows(Score score, int64_t rows, int64_t columns, int64_t stride,
                     float* weights, float* sums) {
  SUBQUAD_SHARED(SoftmaxScratch, scratch);
  const int64_t head = blockIdx.y;
  const int64_t i =
      static_cast<int64_t>(blockIdx.x) * (kSoftmaxThreads / kThreads) +
      threadIdx.x / kThreads;
  if (i >= rows) return;  // all threads of a row, and of a block of one row
  const int64_t visible = score.Seen(i);
  float largest = -INFINITY;
#pragma unroll 4
  for (int64_t j = threadIdx.x % kThreads; j < visible; j += kThreads)
    largest = fmaxf(largest, score(head, i, j));
  largest = OfAllThreads<kThreads>(
      largest, scratch.largest, [](float a, float b) { return fmaxf(a, b); });
  float* const row = weights + (head * rows + i) * stride;
  float sum = 0;
#pragma unroll 4
  for (int64_t j = threadIdx.x % kThreads; j < columns; j += kThreads) {
    const float weight = j < visible ? expf(score(head, i, j) - largest) : 0.0f;
    row[j] = weight;
    sum += weight;
  }
  sum = OfAllThreads<kThreads>(sum, scratch.sums,
                               [](float a, float b) { return a + b; });
  if (threadIdx.x % kThreads == 0) sums[head * rows + i] = sum;
}

class ScoreRows {
 public:
  ScoreRows(Layout& layout, const ScorePlan& plan)
      : plan_(plan),
        scores_(layout, plan.scores()),
        values_(layout, plan.values()),
        products_(layout, plan.products()),
        sums_(layout, plan.sums()),
        gemm_(layout) {}

  const ScorePlan& plan() const { return plan_; }
  Gemm& gemm() { return gemm_; }

  // Row i - first of head h of a block begins at (h - first_head) rows + i -
  // first times the stride.
  float* scores() const { return scores_.data(); }

  // Values [heads, value_rows, e], to be filled in every run.
  float* values() const { return values_.data(); }

  // Loads values from a tensor [heads, n_k, e].
  template <typename S>
  void LoadValues(HeadArray<const S> values, int64_t n_k);

  // Computes scores = queries keys^T for the rows of the block and the first
  // `count` keys, [.., width] each.
  void MultiplyKeys(const RowBlock& block, HeadArray<const float> queries,
                    HeadArray<const float> keys, int64_t width, int64_t count,
                    float* scores);

  // Turns scores into weights; see ExponentiateRows for `score`. No row of the
  // block sees keys from `keys` on.
  template <typename Score>
  void Exponentiate(const RowBlock& block, int64_t keys, const Score& score) {
    constexpr int64_t kWarpsColumns = kEmulated ? 48 : 1024;
    const int64_t columns = plan_.pieces() > 1
                                ? PiecesOf(keys, plan_.piece()) * plan_.piece()
                                : keys;
    if (columns <= kWarpsColumns)
      SUBQUAD_LAUNCH(
          (ExponentiateRows<32, Score>),
          Grid(PiecesOf(block.rows, kSoftmaxThreads / 32), block.heads),
          kSoftmaxThreads, sizeof(SoftmaxScratch), score, block.rows, columns,
          plan_.stride(), scores_.data(), sums_.data());
    else
      SUBQUAD_LAUNCH((ExponentiateRows<kSoftmaxThreads, Score>),
                     Grid(block.rows, block.heads), kSoftmaxThreads,
                     sizeof(SoftmaxScratch), score, block.rows, columns,
                     plan_.stride(), scores_.data(), sums_.data());
  }

  // Computes out = weights values / sums, for the rows of the block.
  template <typename S>
  void MultiplyValues(const RowBlock& block, int64_t keys, HeadArray<S> out);

 private:
  const ScorePlan plan_;
  DeviceBuffer<float> scores_, values_, products_, sums_;
  Gemm gemm_;
};

}  // namespace subquad::device
