#include <algorithm>

#include "cuda/base/gemm.h"
#include "cuda/device.h"

namespace subquad::device {
namespace {

template <typename S>
constexpr cudaDataType_t kType = CUDA_R_32F;
template <>
constexpr cudaDataType_t kType<__nv_bfloat16> = CUDA_R_16BF;
template <>
constexpr cudaDataType_t kType<__half> = CUDA_R_16F;

cublasHandle_t Handle() {
  static cublasHandle_t handle = [] {
    cublasHandle_t made = nullptr;
    SUBQUAD_CUDA_CHECK(cublasCreate(&made));
    return made;
  }();
  return handle;
}

// Longer sums are added up in parts: the running total of a single sum would
// grow so large that it absorbs the digits of later terms.
constexpr int64_t kTermsOfAPart = 16384;

int Int(int64_t value) {
  if (value > 0x7FFFFFFF)
    throw DeviceError("too large for cuBLAS: an extent of " +
                      std::to_string(value));
  return static_cast<int>(value);
}

}  // namespace

Gemm::Gemm(Layout& layout)
    : area_(layout, Device().compute_major >= 9 ? 32 << 20 : 4 << 20) {}

template <typename S>
void Gemm::Run(int64_t batch, float alpha, const DeviceMatrix<const S>& a,
               const DeviceMatrix<const S>& b, float beta,
               const DeviceMatrix<float>& c) {
  const int64_t m = a.transposed ? a.columns : a.rows;
  const int64_t k = a.transposed ? a.rows : a.columns;
  const int64_t b_rows = b.transposed ? b.columns : b.rows;
  const int64_t n = b.transposed ? b.rows : b.columns;
  if (b_rows != k || c.rows != m || c.columns != n || c.transposed)
    throw DeviceError("matrix product: the shapes do not match");
  SUBQUAD_CUDA_CHECK(cublasSetWorkspace(Handle(), area_.data(),
                                        static_cast<size_t>(area_.size())));
  // cuBLAS is column-major: it reads a row-major matrix as its transpose, and
  // C^T = B^T A^T.
  int64_t first = 0;
  do {
    const int64_t terms = std::min(k - first, kTermsOfAPart);
    const float kept = first > 0 ? 1 : beta;
    SUBQUAD_CUDA_CHECK(cublasGemmStridedBatchedEx(
        Handle(), b.transposed ? CUBLAS_OP_T : CUBLAS_OP_N,
        a.transposed ? CUBLAS_OP_T : CUBLAS_OP_N, Int(n), Int(m), Int(terms),
        &alpha, b.data + first * (b.transposed ? 1 : b.stride), kType<S>,
        Int(b.stride), b.batch_stride,
        a.data + first * (a.transposed ? a.stride : 1), kType<S>, Int(a.stride),
        a.batch_stride, &kept, c.data, CUDA_R_32F, Int(c.stride),
        c.batch_stride, Int(batch), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
    first += terms;
  } while (first < k);
}

template void Gemm::Run<float>(int64_t, float, const DeviceMatrix<const float>&,
                               const DeviceMatrix<const float>&, float,
                               const DeviceMatrix<float>&);
template void Gemm::Run<__nv_bfloat16>(int64_t, float,
                                       const DeviceMatrix<const __nv_bfloat16>&,
                                       const DeviceMatrix<const __nv_bfloat16>&,
                                       float, const DeviceMatrix<float>&);
template void Gemm::Run<__half>(int64_t, float,
                                const DeviceMatrix<const __half>&,
                                const DeviceMatrix<const __half>&, float,
                                const DeviceMatrix<float>&);

}  // namespace subquad::device
