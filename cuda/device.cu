#include <algorithm>

#include "cuda/base/check.h"
#include "cuda/base/memory.h"
#include "cuda/base/stopwatch.h"
#include "cuda/device.h"
#include "cuda/implementations.h"

namespace subquad {
namespace {

std::string Version(int number) {
  return std::to_string(number / 1000) + "." +
         std::to_string(number % 1000 / 10);
}

std::string CublasVersion() {
  int parts[3] = {};
  const libraryPropertyType kinds[] = {MAJOR_VERSION, MINOR_VERSION,
                                       PATCH_LEVEL};
  for (int i = 0; i < 3; ++i)
    SUBQUAD_CUDA_CHECK(cublasGetProperty(kinds[i], &parts[i]));
  return std::to_string(parts[0]) + "." + std::to_string(parts[1]) + "." +
         std::to_string(parts[2]);
}

double Attribute(cudaDeviceAttr which) {
  int value = 0;
  SUBQUAD_CUDA_CHECK(cudaDeviceGetAttribute(&value, which, 0));
  return value;
}

double Hertz(cudaDeviceAttr rate) { return 1e3 * Attribute(rate); }

// Peak multiply-adds per cycle of a multiprocessor; 0 for unknown
// architectures.
struct MultiplyAdds {
  int float32, matrix;  // matrix: tensor cores with 16-bit factors
};
MultiplyAdds MultiplyAddsOf(int major, int minor) {
  switch (major) {
    case 8:
      return minor == 0 ? MultiplyAdds{64, 1024} : MultiplyAdds{128, 512};
    case 9:
      return {128, 2048};
    case 10:
      return {128, 4096};
    case 12:
      return {128, 512};
  }
  return {0, 0};
}

__global__ void Nothing() {}

// Returns why the first device cannot be used, or nothing; sets `there` if
// there is a device.
std::string WhyNot(int driver, int runtime, bool& there) {
  const auto failed = [](cudaError_t status) {
    cudaGetLastError();
    return status != cudaSuccess;
  };
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  // The runtime calls a missing driver, version 0, too old.
  there = driver > 0 && status != cudaErrorNoDevice &&
          (failed(status) || count > 0);
  if (!there) return "no CUDA device";
  if (status == cudaErrorInsufficientDriver)
    return "a driver for CUDA " + Version(driver) +
           ", which is older than the runtime of this program, " +
           Version(runtime);
  if (failed(status))
    return std::string("a driver without a device: ") +
           cudaGetErrorString(status);
  cudaDeviceProp properties{};
  if (const cudaError_t asked = cudaGetDeviceProperties(&properties, 0);
      failed(asked))
    return std::string("a device that does not answer: ") +
           cudaGetErrorString(asked);
  const std::string name = properties.name;
  // Makes the first call that needs a context, which fails if the device is
  // taken by another process, is split into instances none of which is assigned
  // to this process, or is out of memory.
  if (const cudaError_t opened = cudaFree(nullptr); failed(opened))
    return name + ", which cannot be opened: " + cudaGetErrorString(opened);
  cudaFuncAttributes attributes{};
  if (const cudaError_t loaded = cudaFuncGetAttributes(&attributes, Nothing);
      failed(loaded))
    return name + " of compute capability " + std::to_string(properties.major) +
           "." + std::to_string(properties.minor) +
           ", for which this program has no kernels "
           "(CMAKE_CUDA_ARCHITECTURES): " +
           cudaGetErrorString(loaded);
  return "";
}

DeviceInfo Ask() {
  DeviceInfo info;
  int driver = 0, runtime = 0, cufft = 0;
  SUBQUAD_CUDA_CHECK(cudaDriverGetVersion(&driver));
  SUBQUAD_CUDA_CHECK(cudaRuntimeGetVersion(&runtime));
  bool there = false;
  info.why_not = WhyNot(driver, runtime, there);
  if (!info.why_not.empty()) {
    info.unusable = there;
    return info;
  }
  cudaDeviceProp properties{};
  SUBQUAD_CUDA_CHECK(cudaGetDeviceProperties(&properties, 0));
  SUBQUAD_CUDA_CHECK(cufftGetVersion(&cufft));
  info.present = true;
#ifdef SUBQUAD_EMULATED_CUDA
  info.emulated = true;
  info.has_clock = emulated::HasClock();
#endif
  info.name = properties.name;
  info.driver = Version(driver);
  info.runtime = Version(runtime);
  info.cufft = std::to_string(cufft);
  info.cublas = CublasVersion();
  info.memory_bytes = static_cast<int64_t>(properties.totalGlobalMem);
  info.cache_bytes = properties.l2CacheSize;
  info.multiprocessors = properties.multiProcessorCount;
  info.compute_major = properties.major;
  info.compute_minor = properties.minor;
  const MultiplyAdds starts =
      MultiplyAddsOf(properties.major, properties.minor);
  const double cycles = info.multiprocessors * Hertz(cudaDevAttrClockRate);
  info.peak_flops_per_second = 2 * starts.float32 * cycles;
  info.peak_matrix_flops_per_second = 2 * starts.matrix * cycles;
  // Memory makes two transfers per clock cycle.
  info.peak_bytes_per_second = 2.0 * Hertz(cudaDevAttrMemoryClockRate) *
                               Attribute(cudaDevAttrGlobalMemoryBusWidth) / 8;
  return info;
}

}  // namespace

const DeviceInfo& Device() {
  static const DeviceInfo info = Ask();
  return info;
}

std::vector<Implementation> CudaImplementations() {
  std::vector<Implementation> all;
  for (auto* list : {
           Toeplitz1dCudaImplementations,
           Toeplitz2dXyCudaImplementations,
           Toeplitz2dCudaImplementations,
           SoftmaxAttentionCudaImplementations,
           LinearAttentionCudaImplementations,
           FastRpbAttentionCudaImplementations,
           KernelizedRpeAttentionCudaImplementations,
           ClippedRpeProductCudaImplementations,
           KernelizedClippedRpeAttentionCudaImplementations,
           TransformerXlAttentionCudaImplementations,
           PositionAttentionCudaImplementations,
           RelativeLogitsAttentionCudaImplementations,
           SparseAttentionCudaImplementations,
           LinformerAttentionCudaImplementations,
           MemoryCompressedAttentionCudaImplementations,
           StochasticPositionAttentionCudaImplementations,
       })
    for (Implementation& implementation : list())
      all.push_back(std::move(implementation));
  return all;
}

bool DeviceIsBroken() {
  return Device().present && cudaDeviceSynchronize() != cudaSuccess;
}

double MeasureDeviceCopyBandwidth() {
  constexpr int64_t kBytes = int64_t{1} << 28;  // well beyond any cache
  constexpr int kRuns = 9;
  if (!Device().present || !Device().has_clock) return 0;
  const device::DeviceMemory from(kBytes, device::DeviceUse::kTensor);
  const device::DeviceMemory to(kBytes, device::DeviceUse::kTensor);
  from.Poison();
  double best = 0;
  for (int run = 0; run < kRuns; ++run) {
    device::Stopwatch watch;
    SUBQUAD_CUDA_CHECK(cudaMemcpyAsync(to.data(), from.data(), kBytes,
                                       cudaMemcpyDeviceToDevice, nullptr));
    best = std::max(best, 2.0 * kBytes / watch.Seconds());
  }
  return best;
}

}  // namespace subquad
