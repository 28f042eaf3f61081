// Checks every CUDA and library call; the error names the call.
#pragma once

#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <cufft.h>

#include <cstdint>
#include <stdexcept>
#include <string>

namespace subquad::device {

class DeviceError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

inline void CheckCall(cudaError_t status, const char* call) {
  if (status == cudaSuccess) return;
  cudaGetLastError();  // clears the error for the next case
  throw DeviceError(std::string(call) + ": " + cudaGetErrorString(status));
}

inline void CheckCall(cufftResult status, const char* call) {
  if (status != CUFFT_SUCCESS)
    throw DeviceError(std::string(call) + ": cuFFT status " +
                      std::to_string(static_cast<int>(status)));
}

inline void CheckCall(cublasStatus_t status, const char* call) {
  if (status != CUBLAS_STATUS_SUCCESS)
    throw DeviceError(std::string(call) + ": " + cublasGetStatusString(status));
}

}  // namespace subquad::device

#define SUBQUAD_CUDA_CHECK(call) ::subquad::device::CheckCall((call), #call)
