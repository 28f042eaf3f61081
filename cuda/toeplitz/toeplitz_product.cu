#include "cuda/toeplitz/toeplitz_product.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

// Fills in the first column of the circulant: at m = i - j the weight of j - i,
// for i - j in [-(n_k-1), n_q-1] and m taken modulo L.
template <typename S>
__global__ void LoadWeights(const S* weights, int64_t head_stride, int64_t n_q,
                            int64_t n_k, bool causal, int64_t length,
                            int64_t stride, float* first_columns) {
  const int64_t m = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (m >= stride) return;
  const S* w = weights + blockIdx.y * head_stride;
  float value = 0;
  if (m < n_q)
    value = ToFloat(w[n_q - 1 - m]);
  else if (!causal && m < length && length - m < n_k)
    value = ToFloat(w[n_q - 1 + length - m]);
  first_columns[blockIdx.y * stride + m] = value;
}

CirculantShape CirculantOf(const ToeplitzShape& shape, int64_t image_width) {
  const auto rows = [&](int64_t n) -> PaddedRows {
    if (image_width == 0) return {n, n, shape.Length()};
    const int64_t pitch = 2 * image_width - 1;
    return {((n - image_width) / pitch + 1) * image_width, image_width, pitch};
  };
  return {{shape.Length()}, rows(shape.n_k), rows(shape.n_q),
          shape.e,          shape.heads,     shape.vectors};
}

}  // namespace

ToeplitzShape ImageSequenceShape(int64_t height, int64_t width, int64_t e,
                                 int64_t heads, int64_t vectors) {
  const int64_t length = (height - 1) * (2 * width - 1) + width;
  return {length, length, e, heads, vectors};
}

ToeplitzProduct::ToeplitzProduct(Layout& layout, const ToeplitzShape& shape,
                                 int64_t image_width)
    : shape_(shape), product_(layout, CirculantOf(shape, image_width)) {}

template <typename Weight, typename S, typename Out>
void ToeplitzProduct::Run(HeadArray<const Weight> weights,
                          HeadArray<const S> values, HeadArray<Out> out,
                          bool add) {
  const int64_t stride = product_.column_size();
  SUBQUAD_LAUNCH(
      LoadWeights<Weight>, Grid(PiecesOf(stride, kThreads), shape_.vectors),
      kThreads, 0, weights.data, weights.head_stride, shape_.n_q, shape_.n_k,
      shape_.causal, shape_.Length(), stride, product_.first_columns());
  product_.Run<S, Out>(values, out, add);
}

#define SUBQUAD_TOEPLITZ(Weight, S, Out)              \
  template void ToeplitzProduct::Run<Weight, S, Out>( \
      HeadArray<const Weight>, HeadArray<const S>, HeadArray<Out>, bool);
SUBQUAD_TOEPLITZ(float, float, float)
SUBQUAD_TOEPLITZ(__nv_bfloat16, __nv_bfloat16, __nv_bfloat16)
SUBQUAD_TOEPLITZ(__nv_bfloat16, __nv_bfloat16, float)
SUBQUAD_TOEPLITZ(__nv_bfloat16, float, float)
SUBQUAD_TOEPLITZ(float, __nv_bfloat16, float)
SUBQUAD_TOEPLITZ(__half, __half, __half)
SUBQUAD_TOEPLITZ(__half, __half, float)
SUBQUAD_TOEPLITZ(__half, float, float)
SUBQUAD_TOEPLITZ(float, __half, float)
#undef SUBQUAD_TOEPLITZ

}  // namespace subquad::device
