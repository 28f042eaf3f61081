#include "cuda/device.h"

#include "cuda/check.h"
#include "cuda/implementations.h"

namespace subquad {
namespace {

std::string Version(int number) {
  return std::to_string(number / 1000) + "." +
         std::to_string(number % 1000 / 10);
}

DeviceInfo Ask() {
  DeviceInfo info;
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    cudaGetLastError();
    info.why_not = status == cudaSuccess || status == cudaErrorNoDevice
                       ? "no CUDA device"
                       : std::string("no CUDA device: ") +
                             cudaGetErrorString(status);
    return info;
  }
  cudaDeviceProp properties{};
  SUBQUAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  int driver = 0, runtime = 0, cufft = 0;
  SUBQUAD_CUDA_CHECK(cudaDriverGetVersion(&driver));
  SUBQUAD_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  SUBQUAD_CUDA_CHECK(cufftGetVersion(&cufft));
  info.present = true;
  info.name = properties.name;
  info.driver = Version(driver);
  info.runtime = Version(runtime);
  info.cufft = std::to_string(cufft);
  info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  info.multiprocessors = properties.multiProcessorCount;
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  return info;
}

}  // namespace

const DeviceInfo& Device() {
  static const DeviceInfo info = Ask();
  return info;
}

std::vector<Implementation> CudaImplementations() {
  std::vector<Implementation> all;
  for (auto* list : {Toeplitz1dCudaImplementations})
    for (Implementation& one : list()) all.push_back(std::move(one));
  return all;
}

}  // namespace subquad
