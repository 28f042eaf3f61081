// Softmax of the rows of a matrix of scores in memory.
#pragma once

#include <cstdint>
#include <limits>

#include "cuda/base/launch.h"
#include "cuda/base/storage.h"

namespace subquad::device {

// Shows all keys, with unchanged scores.
struct EveryKey {
  __device__ int64_t Keys(int64_t) const { return INT64_MAX; }
  __device__ float operator()(int64_t, int64_t, int64_t, float score) const {
    return score;
  }
};

inline constexpr int kSoftmaxRowsThreads = 256;

// Turns scores [heads * n_q, n_k] into weights, in place, one row per warp:
//   scores[h, i, j] = exp(s_j - max s) / sum_j exp(s_j - max s)
//   s_j = adjusted(h, i, j, scores[h, i, j]); -inf hides the key
// Keys from adjusted.Keys(i) on are hidden, and their scores are not read. If
// adjusted.Sink(h) exists and is not null, it is one more score, whose weight
// is not written; adjusted.Put(h, i, x) takes the logarithm of a row's sum of
// exp(s_j). The largest score and the sum are found in one pass, by rescaling.
template <typename Adjusted>
__global__ void SoftmaxOfRows(const Adjusted adjusted, int64_t rows,
                              int64_t n_q, int64_t n_k, float* scores) {
  constexpr int kLanes = 32, kAtOnce = 4;
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const int64_t row =
      (static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x) / kLanes;
  if (row >= rows) return;
  const int64_t h = row / n_q, i = row % n_q;
  const int64_t keys = min(adjusted.Keys(i), n_k);
  float* const at = scores + row * n_k;
  const auto score = [&](int64_t j) {
    return j < keys ? adjusted(h, i, j, at[j])
                    : -std::numeric_limits<float>::infinity();
  };
  // Starts above -inf, so that hidden keys leave no inf - inf.
  float top = std::numeric_limits<float>::lowest(), sum = 0;
  for (int64_t first = lane; first < keys; first += kAtOnce * kLanes) {
    float s[kAtOnce];
#pragma unroll
    for (int x = 0; x < kAtOnce; ++x) s[x] = score(first + x * kLanes);
    const float max_score = fmaxf(fmaxf(s[0], s[1]), fmaxf(s[2], s[3]));
    if (max_score > top) {
      sum *= expf(top - max_score);
      top = max_score;
    }
#pragma unroll
    for (int x = 0; x < kAtOnce; ++x) sum += expf(s[x] - top);
  }
  if constexpr (requires { adjusted.Sink(h); }) {
    const auto* const sink = adjusted.Sink(h);
    if (sink && lane == 0) {
      const float score_of_sink = ToFloat(*sink);
      const float max_score = fmaxf(top, score_of_sink);
      sum = sum * expf(top - max_score) + expf(score_of_sink - max_score);
      top = max_score;
    }
  }
  for (int other = kLanes / 2; other > 0; other /= 2) {
    const float their_top = __shfl_xor_sync(0xFFFFFFFF, top, other);
    const float their_sum = __shfl_xor_sync(0xFFFFFFFF, sum, other);
    const float max_score = fmaxf(top, their_top);
    sum = sum * expf(top - max_score) + their_sum * expf(their_top - max_score);
    top = max_score;
  }
  if constexpr (requires { adjusted.Put(h, i, sum); }) {
    if (lane == 0) adjusted.Put(h, i, top + logf(sum));
  }
#pragma unroll 4
  for (int64_t j = lane; j < n_k; j += kLanes)
    at[j] = j < keys ? QuotientOrZero(expf(score(j) - top), sum) : 0.0f;
}

template <typename Adjusted>
void SoftmaxRows(const Adjusted& adjusted, int64_t heads, int64_t n_q,
                 int64_t n_k, float* scores) {
  SUBQUAD_LAUNCH(SoftmaxOfRows<Adjusted>,
                 Grid(PiecesOf(heads * n_q, kSoftmaxRowsThreads / 32)),
                 kSoftmaxRowsThreads, 0, adjusted, heads * n_q, n_q, n_k,
                 scores);
}

}  // namespace subquad::device
