#include <algorithm>
#include <cmath>
#include <numbers>

#include "cuda/kernelized/noisy_tokens.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

template <typename S>
__device__ const S* HeadOf(const HeadArray<const S>& tensor, int64_t head) {
  return tensor.data + head * tensor.head_stride;
}

// ---- sine

// Returns f i modulo 1 as in reference/kernelized/stochastic_positions.h: whole
// turns are removed from f first, exactly, and the product's low part is kept.
__device__ inline float TurnsOf(float frequency, float position) {
  frequency -= rintf(frequency);
  const float product = frequency * position;
  const float low = fmaf(frequency, position, -product);
  return (product - rintf(product)) + low;
}

// Computes waves[h][i][x] = weight (cos, sin)(2 pi f_x (first + i) + phase_x)
// with weight = token_a gain_x, for angle x = a steps + c of `angles`; phases
// may be null.
template <typename S>
__global__ void MakeWaves(HeadArray<const S> tokens, HeadArray<const S> freqs,
                          HeadArray<const S> gains, HeadArray<const S> phases,
                          int64_t first, int64_t rows, int64_t angles,
                          int64_t steps, float2* waves) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * angles) return;
  const int64_t head = blockIdx.y, i = first + at / angles, x = at % angles;
  const int64_t d = angles / steps;
  float angle = 2 * std::numbers::pi_v<float> *
                TurnsOf(ToFloat(HeadOf(freqs, head)[x]), static_cast<float>(i));
  if (phases.data) angle += ToFloat(HeadOf(phases, head)[x]);
  float sine, cosine;
  sincosf(angle, &sine, &cosine);
  const float weight = ToFloat(HeadOf(tokens, head)[i * d + x / steps]) *
                       ToFloat(HeadOf(gains, head)[x]);
  waves[head * rows * angles + at] =
      make_float2(weight * cosine, weight * sine);
}

// ---- conv

// A block processes kTokens tokens, queries and keys, by kDraws draws; a thread
// kTokensEach by two. Taps are processed kTaps at a time.
constexpr int kTokens = 64;
constexpr int kTokensEach = 4;
constexpr int kDraws = 32;
constexpr int kTaps = 16;
constexpr int kAcross = kDraws / 2;
constexpr int kFilterThreads = kTokens / kTokensEach * kAcross;
constexpr int kNoiseRows = kTokens + kTaps - 1;

struct FilterTile {
  float2 noise[kNoiseRows][kAcross];
  float filters[2][kTaps];
  float tokens[2][kTokens];
};

// Computes q_out[h][i][r] = factor sum_a q[h][i][a] sum_p filters_q[h][a][p]
// z[a][i + p][r], and k_out likewise. Blocks of all heads for the same tokens
// are consecutive, so that they find their common noise in the cache.
template <typename S>
__global__ void __launch_bounds__(kFilterThreads, 2)
    FilterNoise(NoiseTensors<S> tensors, int64_t heads, int64_t n, int64_t d,
                int64_t taps, int64_t draws, float factor, float* q_out,
                float* k_out) {
  SUBQUAD_SHARED(FilterTile, tile);
  const int64_t head = blockIdx.x % heads;
  const int64_t i0 = blockIdx.x / heads * kTokens;
  const int64_t r0 = static_cast<int64_t>(blockIdx.y) * kDraws;
  const int64_t length = n + taps - 1;
  const int across = threadIdx.x % kAcross;
  const int row0 = threadIdx.x / kAcross * kTokensEach;
  const int64_t r = r0 + 2 * across;
  const S* noise = tensors.z.data + head * tensors.z.head_stride + r;
  // Selects the filters and tokens that a thread loads: those of queries or of
  // keys.
  const int filter_side = threadIdx.x / kTaps, tap = threadIdx.x % kTaps;
  const S* filters = filter_side == 0 ? HeadOf(tensors.filters_q, head)
                                      : HeadOf(tensors.filters_k, head);
  const int token_side = threadIdx.x / kTokens, token = threadIdx.x % kTokens;
  const S* tokens =
      token_side == 0 ? HeadOf(tensors.q, head) : HeadOf(tensors.k, head);
  static_assert(kFilterThreads >= 2 * kTokens && kTokens >= kTaps);

  float2 sums[2][kTokensEach] = {};
  for (int64_t a = 0; a < d; ++a) {
    float2 filtered[2][kTokensEach] = {};
    for (int64_t p0 = 0; p0 < taps; p0 += kTaps) {
      __syncthreads();
#pragma unroll
      for (int k = threadIdx.x / kAcross; k < kNoiseRows;
           k += kFilterThreads / kAcross) {
        const int64_t t = i0 + p0 + k;
        const S* from = noise + (a * length + t) * draws;
        tile.noise[k][across] =
            make_float2(t < length && r < draws ? ToFloat(from[0]) : 0.0f,
                        t < length && r + 1 < draws ? ToFloat(from[1]) : 0.0f);
      }
      if (filter_side < 2)
        tile.filters[filter_side][tap] =
            p0 + tap < taps ? ToFloat(filters[a * taps + p0 + tap]) : 0.0f;
      if (p0 == 0 && token_side < 2)
        tile.tokens[token_side][token] =
            i0 + token < n ? ToFloat(tokens[(i0 + token) * d + a]) : 0.0f;
      __syncthreads();
      float filter[2][kTaps];
#pragma unroll
      for (int p = 0; p < kTaps; ++p) {
        filter[0][p] = tile.filters[0][p];
        filter[1][p] = tile.filters[1][p];
      }
#pragma unroll
      for (int m = 0; m < kTaps + kTokensEach - 1; ++m) {
        const float2 z = tile.noise[row0 + m][across];
#pragma unroll
        for (int t = 0; t < kTokensEach; ++t) {
          if (m < t || m - t >= kTaps) continue;
#pragma unroll
          for (int s = 0; s < 2; ++s) {
            filtered[s][t].x += filter[s][m - t] * z.x;
            filtered[s][t].y += filter[s][m - t] * z.y;
          }
        }
      }
    }
#pragma unroll
    for (int t = 0; t < kTokensEach; ++t)
#pragma unroll
      for (int s = 0; s < 2; ++s) {
        const float x = tile.tokens[s][row0 + t];
        sums[s][t].x += x * filtered[s][t].x;
        sums[s][t].y += x * filtered[s][t].y;
      }
  }

#pragma unroll
  for (int t = 0; t < kTokensEach; ++t) {
    const int64_t i = i0 + row0 + t;
    if (i >= n) continue;
#pragma unroll
    for (int s = 0; s < 2; ++s) {
      float* to = (s == 0 ? q_out : k_out) + (head * n + i) * draws + r;
      if (r < draws) to[0] = factor * sums[s][t].x;
      if (r + 1 < draws) to[1] = factor * sums[s][t].y;
    }
  }
}

float RootFactor(int64_t draws) {
  return 1 / std::sqrt(static_cast<float>(draws));
}

}  // namespace

NoiseShape::NoiseShape(const Problem& problem)
    : sine(problem.params.Text("kind") == "sine"),
      n_q(problem.Dim(sine ? "n_q" : "n")),
      n_k(problem.Dim(sine ? "n_k" : "n")),
      d(problem.Dim("d")),
      steps(problem.Dim(sine ? "components" : "taps")),
      draws(problem.Dim("draws")),
      heads(problem.heads),
      noises(problem.SlicesOf("z").count()) {}

int64_t NoiseShape::wave_count() const {
  if (!sine) return 0;
  const RowBlocks queries = Blocks(n_q), keys = Blocks(n_k);
  return 2 * angles() *
         std::max(queries.heads() * queries.rows(), keys.heads() * keys.rows());
}

double NoisyTokensFlops(const NoiseShape& shape) {
  return static_cast<double>(shape.heads) *
         static_cast<double>(shape.n_q + shape.n_k) *
         static_cast<double>(shape.angles() * shape.draws *
                             (shape.sine ? 4 : 2));
}

template <typename S>
NoisyTokens<S>::NoisyTokens(Layout& layout, const NoiseShape& shape)
    : shape_(shape),
      q_(layout, shape.heads * shape.n_q * shape.draws),
      k_(layout, shape.heads * shape.n_k * shape.draws),
      waves_(layout, shape.wave_count()),
      noise_(layout, shape.noise_count()),
      gemm_(layout) {}

template <typename S>
void NoisyTokens<S>::Run(const NoiseTensors<S>& tensors) {
  if (!shape_.sine) return RunConv(tensors);
  const HeadArray<const float> noise = noise_.Run(tensors.z);
  RunSine(tensors.q, tensors.phases, tensors, noise, shape_.n_q, q_.data());
  RunSine(tensors.k, {}, tensors, noise, shape_.n_k, k_.data());
}

template <typename S>
void NoisyTokens<S>::RunSine(HeadArray<const S> tokens,
                             HeadArray<const S> phases,
                             const NoiseTensors<S>& tensors,
                             HeadArray<const float> noise, int64_t n,
                             float* out) {
  const int64_t angles = shape_.angles(), draws = shape_.draws;
  shape_.Blocks(n).ForEach([&](const RowBlock& block) {
    const auto from = [&](HeadArray<const S> all) -> HeadArray<const S> {
      return {all.data ? all.Head(block.first_head) : nullptr, all.head_stride};
    };
    SUBQUAD_LAUNCH(MakeWaves<S>,
                   Grid(PiecesOf(block.rows * angles, kThreads), block.heads),
                   kThreads, 0, from(tokens), from(tensors.freqs),
                   from(tensors.gains), from(phases), block.first, block.rows,
                   angles, shape_.steps,
                   reinterpret_cast<float2*>(waves_.data()));
    gemm_.Run<float>(block.heads, RootFactor(draws),
                     {waves_.data(), block.rows, 2 * angles, 2 * angles,
                      block.rows * 2 * angles},
                     {noise.Head(block.first_head), 2 * angles, draws, draws,
                      noise.head_stride},
                     0,
                     {out + (block.first_head * n + block.first) * draws,
                      block.rows, draws, draws, n * draws});
  });
}

template <typename S>
void NoisyTokens<S>::RunConv(const NoiseTensors<S>& tensors) {
  SUBQUAD_LAUNCH(FilterNoise<S>,
                 Grid(PiecesOf(shape_.n_q, kTokens) * shape_.heads,
                      PiecesOf(shape_.draws, kDraws)),
                 kFilterThreads, sizeof(FilterTile), tensors, shape_.heads,
                 shape_.n_q, shape_.d, shape_.steps, shape_.draws,
                 RootFactor(shape_.draws), q_.data(), k_.data());
}

template class NoisyTokens<float>;
template class NoisyTokens<__nv_bfloat16>;
template class NoisyTokens<__half>;

}  // namespace subquad::device
