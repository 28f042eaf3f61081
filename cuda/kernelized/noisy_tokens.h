// Queries and keys with positions encoded as noise (SPE; FastRPB eq. 8), as a
// part of operators on a device: q^_i[r] = sum_a q_i[a] qbar_a(i, r) / sqrt(R),
// k^ likewise, with qbar and kbar of
// reference/kernelized/stochastic_positions.h.
//
//   sine  rows x_a g_ac cos(..), x_a g_ac sin(..) of 2 d C values for a block
//         of tokens that fits the cache, times the noise as a matrix [2 d C, R]
//   conv  a kernel that filters the noise of one channel after another from
//         shared memory, for queries and keys at once
//
// Bound: the reference's. A term x g cos z passes through two roundings before
// the product of matrices, which multiplies it with 1/sqrt(R) as well; in conv
// the sum over taps is rounded before it meets x.
#pragma once

#include "cuda/base/gemm.h"
#include "cuda/softmax/dense_attention.h"
#include "cuda/softmax/row_blocks.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

// The tensors of the operator; of the noise only those of one kind.
template <typename S>
struct NoiseTensors {
  HeadArray<const S> q, k, z;
  HeadArray<const S> freqs, phases, gains;  // sine: [d, steps]
  HeadArray<const S> filters_q, filters_k;  // conv: [d, steps]
};

struct NoiseShape {
  explicit NoiseShape(const Problem& problem);

  int64_t angles() const { return d * steps; }
  // Returns the blocks of tokens whose waves are computed together.
  RowBlocks Blocks(int64_t tokens) const {
    return {tokens, heads, 2 * angles() * static_cast<int64_t>(sizeof(float))};
  }
  int64_t wave_count() const;
  int64_t noise_count() const {
    return sine ? noises * 2 * angles() * draws : 0;
  }

  bool sine;
  int64_t n_q, n_k, d;
  int64_t steps;  // components C or taps P
  int64_t draws, heads;
  int64_t noises;  // one for all heads, or for each
};

template <typename S>
class NoisyTokens {
 public:
  NoisyTokens(Layout& layout, const NoiseShape& shape);

  void Run(const NoiseTensors<S>& tensors);

  // Return the rows [n_q, R] and [n_k, R] in float32.
  HeadArray<const float> queries() const {
    return {q_.data(), shape_.n_q * shape_.draws};
  }
  HeadArray<const float> keys() const {
    return {k_.data(), shape_.n_k * shape_.draws};
  }

 private:
  void RunSine(HeadArray<const S> tokens, HeadArray<const S> phases,
               const NoiseTensors<S>& tensors, HeadArray<const float> noise,
               int64_t n, float* out);
  void RunConv(const NoiseTensors<S>& tensors);

  const NoiseShape shape_;
  DeviceBuffer<float> q_, k_, waves_;
  Widened<S> noise_;
  Gemm gemm_;
};

double NoisyTokensFlops(const NoiseShape& shape);

}  // namespace subquad::device
