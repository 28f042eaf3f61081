#include "cuda/base/convert.h"
#include "cuda/base/warp.h"
#include "cuda/kernelized/dense.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

struct BlockResults {
  float numbers[kThreads / kWarp];
  int exponents[kThreads / kWarp];
};

// Computes weights[i][j] *= c(j - i) 2^r_j, zero where key j is not visible,
// relative to the largest of the row; also the sum of each row, and which rows
// have lost digits. Uses one block per query.
__global__ void __launch_bounds__(kThreads)
    Weigh(const int* row_exponents, BiasWeights bias, bool causal, int64_t n_q,
          int64_t n_k, float* weights, float* normalisers, RowMark* marks) {
  SUBQUAD_SHARED(BlockResults, shared);
  const int64_t i = blockIdx.x, head = blockIdx.y;
  const int64_t visible = causal ? min(i + 1, n_k) : n_k;
  const int* exponents = row_exponents + head * n_k;
  const Scaled* table =
      bias.at ? bias.at + head * bias.head_stride - bias.positions.Of(i)
              : nullptr;
  weights += (head * n_q + i) * n_k;
  // Returns the factor of the product.
  const auto factor = [&](int64_t j) -> Scaled {
    if (!table) return {1.0f, exponents[j]};
    const Scaled c = table[bias.positions.Of(j)];
    return {c.mantissa, c.exponent + exponents[j]};
  };
  int top = 3 * kExponentOfZero, largest = top;
  for (int64_t j = threadIdx.x; j < visible; j += kThreads) {
    const Scaled c = factor(j);
    const Scaled weight = ScaledValue(weights[j] * c.mantissa);
    top = max(top, weight.exponent + c.exponent);
    largest = max(largest, c.exponent);
  }
  top = LargestOfBlock<kThreads>(top, shared.exponents);
  largest = LargestOfBlock<kThreads>(largest, shared.exponents);
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < n_k; j += kThreads) {
    float weight = 0.0f;
    if (j < visible) {
      const Scaled c = factor(j);
      weight = TimesPowerOfTwo(weights[j] * c.mantissa, c.exponent - top);
    }
    weights[j] = weight;
    sum += weight;
  }
  sum = SumOfBlock<kThreads>(sum, shared.numbers);
  if (threadIdx.x != 0) return;
  normalisers[head * n_q + i] = sum;
  marks[head * n_q + i] = MarkUnless(KeptDigits(sum, largest, top));
}

// Computes out = sums / normalisers by row; out may be the same memory as sums.
template <typename S>
__global__ void DivideRows(const float* sums, const float* normalisers,
                           int64_t count, int64_t e, S* out) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) Store(QuotientOrZero(sums[i], normalisers[i / e]), out + i);
}

}  // namespace

template <typename S>
DenseQuotient<S>::DenseQuotient(Layout& layout, int64_t heads, int64_t n_q,
                                int64_t n_k, int64_t e)
    : heads_(heads),
      n_q_(n_q),
      n_k_(n_k),
      e_(e),
      weights_(layout, heads * n_q * n_k),
      normalisers_(layout, heads * n_q),
      values_(layout, kRounds ? heads * n_k * e : 0),
      sums_(layout, kRounds ? heads * n_q * e : 0),
      gemm_(layout) {}

template <typename S>
void DenseQuotient<S>::Scores(const float* queries, const float* keys,
                              int64_t f) {
  gemm_.Run<float>(heads_, 1, {queries, n_q_, f, f, n_q_ * f},
                   {keys, n_k_, f, f, n_k_ * f, true}, 0,
                   {weights(), n_q_, n_k_, n_k_, n_q_ * n_k_});
}

template <typename S>
void DenseQuotient<S>::Run(HeadArray<const S> v, HeadArray<S> out) {
  HeadArray<const float> values;
  float* sums = sums_.data();
  if constexpr (kRounds) {
    for (int64_t h = 0; h < heads_; ++h)
      Convert(v.Head(h), n_k_ * e_, values_.data() + h * n_k_ * e_);
    values = {values_.data(), n_k_ * e_};
  } else {
    values = v;
    sums = out.data;
  }
  gemm_.Run<float>(heads_, 1, {weights(), n_q_, n_k_, n_k_, n_q_ * n_k_},
                   {values.data, n_k_, e_, e_, values.head_stride}, 0,
                   {sums, n_q_, e_, e_, n_q_ * e_});
  const int64_t count = heads_ * n_q_ * e_;
  SUBQUAD_LAUNCH(DivideRows<S>, Grid(PiecesOf(count, kThreads)), kThreads, 0,
                 sums, normalisers(), count, e_, out.data);
}

template <typename S>
DenseKernelized<S>::DenseKernelized(Layout& layout,
                                    const DeviceKernelizedShape& shape)
    : shape_(shape),
      features_(layout, shape.features(), KeyScaling::kRows),
      quotient_(layout, shape.heads, shape.n_q, shape.n_k, shape.e),
      pairs_(layout, shape) {
  if (shape.bias_vectors > 0) bias_.emplace(layout, shape);
}

template <typename S>
double DenseKernelized<S>::Flops(const DeviceKernelizedShape& shape) {
  return Features::Flops(shape.features()) +
         2 * static_cast<double>(shape.heads * shape.n_q) *
             static_cast<double>(shape.n_k * (shape.f + shape.e));
}

template <typename S>
void DenseKernelized<S>::Run(HeadArray<const S> q, HeadArray<const S> k,
                             HeadArray<const S> v, HeadArray<const S> omega,
                             HeadArray<const S> bias, HeadArray<S> out) {
  features_.Run(q, k, omega);
  if (bias_) bias_->Run(bias);
  quotient_.Scores(features_.queries(), features_.keys(), shape_.f);
  SUBQUAD_LAUNCH(Weigh, Grid(shape_.n_q, shape_.heads), kThreads,
                 sizeof(BlockResults), features_.row_exponents(),
                 bias_ ? bias_->weights() : BiasWeights(), shape_.causal,
                 shape_.n_q, shape_.n_k, quotient_.weights(),
                 quotient_.normalisers(), pairs_.marks());
  quotient_.Run(v, out);
  pairs_.Run(q, k, omega, bias_ ? bias_->weights() : BiasWeights(), v, out);
}

#define SUBQUAD_DENSE(S)           \
  template class DenseQuotient<S>; \
  template class DenseKernelized<S>;
SUBQUAD_DENSE(float)
SUBQUAD_DENSE(__nv_bfloat16)
SUBQUAD_DENSE(__half)
#undef SUBQUAD_DENSE

}  // namespace subquad::device
