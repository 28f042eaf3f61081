#include <cmath>

#include "cuda/base/warp.h"
#include "cuda/kernelized/shape.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 1024;

struct BlockResults {
  float numbers[kThreads / kWarp];
  int exponents[kThreads / kWarp];
};

// Uses one block per vector. The largest entry is subtracted first if it is so
// large that exponents would lose digits (kFarBias). Entries from `visible` on
// are used by no query.
template <typename S>
__global__ void __launch_bounds__(kThreads)
    SplitBias(const S* bias, int64_t head_stride, int64_t count,
              int64_t visible, Scaled* table, int* tops, float* norms) {
  SUBQUAD_SHARED(BlockResults, shared);
  bias += blockIdx.x * head_stride;
  table += blockIdx.x * count;
  float largest = -INFINITY;
  for (int64_t t = threadIdx.x; t < count; t += kThreads)
    largest = fmaxf(largest, ToFloat(bias[t]));
  largest = LargestOfBlock<kThreads>(largest, shared.numbers);
  const float shift =
      fabsf(largest) > kFarBias && largest > -INFINITY ? largest : 0.0f;
  int top = 2 * kExponentOfZero;
  for (int64_t t = threadIdx.x; t < count; t += kThreads) {
    const float b = ToFloat(bias[t]);
    const bool live = b > -INFINITY;
    const Scaled weight =
        live ? ScaledExp(b - shift) : Scaled{0.0f, kExponentOfZero};
    table[t] = weight;
    if (live && t < visible) top = max(top, weight.exponent);
  }
  top = LargestOfBlock<kThreads>(top, shared.exponents);
  float squares = 0.0f;
  for (int64_t t = threadIdx.x; t < visible; t += kThreads) {
    // Every thread reads only the entry that it wrote.
    const float c = table[t].mantissa * PowerOfTwo(table[t].exponent - top);
    squares = fmaf(c, c, squares);
  }
  squares = SumOfBlock<kThreads>(squares, shared.numbers);
  if (threadIdx.x != 0) return;
  tops[blockIdx.x] = top;
  norms[blockIdx.x] = sqrtf(squares);
}

}  // namespace

DeviceBias::DeviceBias(Layout& layout, const DeviceKernelizedShape& shape)
    : shape_(shape),
      table_(layout, shape.bias_vectors * shape.bias_count),
      tops_(layout, shape.bias_vectors),
      norms_(layout, shape.bias_vectors) {}

BiasWeights DeviceBias::weights() const {
  return {table_.data() + shape_.BiasMiddle(),
          shape_.bias_vectors > 1 ? shape_.bias_count : 0, shape_.positions};
}

template <typename S>
void DeviceBias::Run(HeadArray<const S> bias) {
  SUBQUAD_LAUNCH(SplitBias<S>, Grid(shape_.bias_vectors), kThreads,
                 sizeof(BlockResults), bias.data, bias.head_stride,
                 shape_.bias_count,
                 shape_.causal ? shape_.BiasMiddle() + 1 : shape_.bias_count,
                 table_.data(), tops_.data(), norms_.data());
}

template void DeviceBias::Run(HeadArray<const float>);
template void DeviceBias::Run(HeadArray<const __nv_bfloat16>);
template void DeviceBias::Run(HeadArray<const __half>);

}  // namespace subquad::device
