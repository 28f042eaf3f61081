// cuFFT and cuBLAS of the emulated device, by FFTW and by plain loops: results
// have the same bits on every processor.
#include <fftw3.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "cublas_v2.h"
#include "cuda_bf16.h"
#include "cuda_fp16.h"
#include "cufft.h"

namespace {

struct Plan {
  std::vector<int> n, input_embed, output_embed;
  int input_stride = 1, input_distance = 0, output_stride = 1,
      output_distance = 0, batch = 0;
  bool automatic = true, has_area = false;
  std::map<int, fftwf_plan> plans;  // by direction
};

std::map<cufftHandle, Plan>& Plans() {
  static auto* plans = new std::map<cufftHandle, Plan>;
  return *plans;
}

Plan* Find(cufftHandle handle) {
  const auto it = Plans().find(handle);
  return it == Plans().end() ? nullptr : &it->second;
}

std::vector<int> Ints(int rank, const long long* extents) {
  return {extents, extents + rank};
}

}  // namespace

cufftResult cufftCreate(cufftHandle* handle) {
  static int next = 0;
  Plans()[*handle = ++next];
  return CUFFT_SUCCESS;
}

cufftResult cufftDestroy(cufftHandle handle) {
  Plan* plan = Find(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  for (const auto& [direction, made] : plan->plans) fftwf_destroy_plan(made);
  Plans().erase(handle);
  return CUFFT_SUCCESS;
}

cufftResult cufftSetAutoAllocation(cufftHandle handle, int automatic) {
  Plan* plan = Find(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  plan->automatic = automatic != 0;
  return CUFFT_SUCCESS;
}

cufftResult cufftMakePlanMany64(cufftHandle handle, int rank, long long* n,
                                long long* input_embed, long long input_stride,
                                long long input_distance,
                                long long* output_embed,
                                long long output_stride,
                                long long output_distance, cufftType type,
                                long long batch, size_t* area_bytes) {
  Plan* plan = Find(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  plan->n = Ints(rank, n);
  plan->input_embed = Ints(rank, input_embed);
  plan->output_embed = Ints(rank, output_embed);
  plan->input_stride = static_cast<int>(input_stride);
  plan->input_distance = static_cast<int>(input_distance);
  plan->output_stride = static_cast<int>(output_stride);
  plan->output_distance = static_cast<int>(output_distance);
  if (type != CUFFT_C2C) return CUFFT_INVALID_VALUE;
  plan->batch = static_cast<int>(batch);
  *area_bytes = 1024;
  return CUFFT_SUCCESS;
}

cufftResult cufftSetWorkArea(cufftHandle handle, void*) {
  Plan* plan = Find(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  plan->has_area = true;
  return CUFFT_SUCCESS;
}

cufftResult cufftExecC2C(cufftHandle handle, cufftComplex* in,
                         cufftComplex* out, int direction) {
  Plan* plan = Find(handle);
  if (!plan) return CUFFT_INVALID_PLAN;
  if (!plan->automatic && !plan->has_area) return CUFFT_INVALID_VALUE;
  auto* from = reinterpret_cast<fftwf_complex*>(in);
  auto* to = reinterpret_cast<fftwf_complex*>(out);
  fftwf_plan& made = plan->plans[direction];
  if (!made)
    made = fftwf_plan_many_dft(
        static_cast<int>(plan->n.size()), plan->n.data(), plan->batch, from,
        plan->input_embed.data(), plan->input_stride, plan->input_distance, to,
        plan->output_embed.data(), plan->output_stride, plan->output_distance,
        direction, FFTW_ESTIMATE | FFTW_UNALIGNED);
  fftwf_execute_dft(made, from, to);
  return CUFFT_SUCCESS;
}

cufftResult cufftGetVersion(int* version) {
  *version = 0;
  return CUFFT_SUCCESS;
}

struct EmulatedCublas {};

const char* cublasGetStatusString(cublasStatus_t) { return "cuBLAS failed"; }

cublasStatus_t cublasCreate(cublasHandle_t* handle) {
  static EmulatedCublas instance;
  *handle = &instance;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasGetProperty(libraryPropertyType, int* value) {
  *value = 0;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasSetWorkspace(cublasHandle_t, void*, size_t) {
  return CUBLAS_STATUS_SUCCESS;
}

namespace {

float ElementAt(const void* data, cudaDataType_t type, long long index) {
  switch (type) {
    case CUDA_R_32F:
      return static_cast<const float*>(data)[index];
    case CUDA_R_16F:
      return __half2float(static_cast<const __half*>(data)[index]);
    case CUDA_R_16BF:
      return __bfloat162float(static_cast<const __nv_bfloat16*>(data)[index]);
  }
  return std::nanf("");
}

// Returns op(X), rows x columns, of a matrix that is stored by columns; the
// result is by columns, too.
std::vector<float> Read(const void* data, cudaDataType_t type, int leading,
                        cublasOperation_t op, int rows, int columns,
                        long long offset) {
  std::vector<float> matrix;
  matrix.reserve(static_cast<size_t>(rows) * static_cast<size_t>(columns));
  for (int c = 0; c < columns; ++c)
    for (int r = 0; r < rows; ++r) {
      const long long at = op == CUBLAS_OP_N
                               ? static_cast<long long>(c) * leading + r
                               : static_cast<long long>(r) * leading + c;
      matrix.push_back(ElementAt(data, type, offset + at));
    }
  return matrix;
}

}  // namespace

cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t, cublasOperation_t op_a, cublasOperation_t op_b, int m,
    int n, int k, const void* alpha, const void* a, cudaDataType_t a_type,
    int lda, long long stride_a, const void* b, cudaDataType_t b_type, int ldb,
    long long stride_b, const void* beta, void* c, cudaDataType_t c_type,
    int ldc, long long stride_c, int batch, cublasComputeType_t,
    cublasGemmAlgo_t) {
  if (m < 0 || n < 0 || k < 0 || c_type != CUDA_R_32F || a_type != b_type ||
      lda < (op_a == CUBLAS_OP_N ? m : k) ||
      ldb < (op_b == CUBLAS_OP_N ? k : n) || ldc < m)
    return CUBLAS_STATUS_INVALID_VALUE;
  const float factor = *static_cast<const float*>(alpha);
  const float keep = *static_cast<const float*>(beta);
  for (int i = 0; i < batch; ++i) {
    const std::vector<float> left =
        Read(a, a_type, lda, op_a, m, k, i * stride_a);
    const std::vector<float> right =
        Read(b, b_type, ldb, op_b, k, n, i * stride_b);
    float* out = static_cast<float*>(c) + i * stride_c;
    std::vector<float> sums(static_cast<size_t>(m));
    for (int column = 0; column < n; ++column) {
      std::fill(sums.begin(), sums.end(), 0.0f);
      const float* x = left.data();
      for (int p = 0; p < k; ++p, x += m) {
        const float y = right[static_cast<size_t>(column) * k + p];
        for (int row = 0; row < m; ++row) sums[row] += x[row] * y;
      }
      for (int row = 0; row < m; ++row) {
        float& to = out[static_cast<long long>(column) * ldc + row];
        // Does not read an output that is not kept: it may be NaN.
        to = factor * sums[row] + (keep == 0 ? 0 : keep * to);
      }
    }
  }
  return CUBLAS_STATUS_SUCCESS;
}
