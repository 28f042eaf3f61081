#include "cuda/base/convert.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

template <typename From, typename To>
__global__ void ConvertEach(const From* from, int64_t count, To* to) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) Store(ToFloat(from[i]), to + i);
}

}  // namespace

template <typename From, typename To>
void Convert(const From* from, int64_t count, To* to) {
  SUBQUAD_LAUNCH((ConvertEach<From, To>), Grid(PiecesOf(count, kThreads)),
                 kThreads, 0, from, count, to);
}

template void Convert(const float*, int64_t, float*);
template void Convert(const float*, int64_t, __nv_bfloat16*);
template void Convert(const float*, int64_t, __half*);
template void Convert(const __nv_bfloat16*, int64_t, float*);
template void Convert(const __half*, int64_t, float*);

}  // namespace subquad::device
