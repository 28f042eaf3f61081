// cuBLAS of the emulated device.
#pragma once

#include "cuda_runtime.h"

enum cublasStatus_t {
  CUBLAS_STATUS_SUCCESS = 0,
  CUBLAS_STATUS_NOT_INITIALIZED = 1,
  CUBLAS_STATUS_INVALID_VALUE = 7
};
enum cublasOperation_t { CUBLAS_OP_N, CUBLAS_OP_T };
enum cudaDataType_t { CUDA_R_32F = 0, CUDA_R_16F = 2, CUDA_R_16BF = 14 };
enum cublasComputeType_t { CUBLAS_COMPUTE_32F = 68 };
enum cublasGemmAlgo_t { CUBLAS_GEMM_DEFAULT = -1 };
using cublasHandle_t = struct EmulatedCublas*;

const char* cublasGetStatusString(cublasStatus_t status);
cublasStatus_t cublasCreate(cublasHandle_t* handle);
enum libraryPropertyType { MAJOR_VERSION, MINOR_VERSION, PATCH_LEVEL };
cublasStatus_t cublasGetProperty(libraryPropertyType kind, int* value);
cublasStatus_t cublasSetWorkspace(cublasHandle_t handle, void* area,
                                  size_t bytes);
cublasStatus_t cublasGemmStridedBatchedEx(
    cublasHandle_t handle, cublasOperation_t op_a, cublasOperation_t op_b,
    int m, int n, int k, const void* alpha, const void* a,
    cudaDataType_t a_type, int lda, long long stride_a, const void* b,
    cudaDataType_t b_type, int ldb, long long stride_b, const void* beta,
    void* c, cudaDataType_t c_type, int ldc, long long stride_c, int batch,
    cublasComputeType_t compute, cublasGemmAlgo_t algorithm);
