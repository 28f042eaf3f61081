// A device emulated by the host, so that kernels are checked on machines
// without a GPU: the subset of CUDA that cuda/ uses. Compiled instead of CUDA's
// own header.
//
// The threads of a block are fibers that run one after another, in a shuffled
// order that is the same on every run, each up to its next barrier; after the
// first barrier, a warp runs as far as it can before the next warp begins. A
// missing barrier shows as values that have not been written yet. Shared memory
// begins as NaN. Device memory adjoins inaccessible pages: an index that is out
// of bounds ends the program, and so does a pair or four of values that is read
// or written at an address that a device would not accept (detected by the
// compiler's check of alignment). Blocks run in a shuffled order, too. Times
// have no meaning here.
#pragma once

#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>

#define SUBQUAD_EMULATED_CUDA 1
#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__

struct uint3 {
  unsigned x = 0, y = 0, z = 0;
};
struct dim3 {
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1)
      : x(a), y(b), z(c) {}
  unsigned x, y, z;
};
struct alignas(8) float2 {
  float x, y;
};
struct alignas(16) float4 {
  float x, y, z, w;
};
struct alignas(16) uint4 {
  unsigned x, y, z, w;
};
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) {
  return {x, y, z, w};
}
// Sine and cosine of pi x, exact at halves and integers.
void sincospif(float x, float* sine, float* cosine);

namespace subquad::emulated {

struct Thread {
  uint3 thread, block;
  dim3 block_size, grid_size;
};
extern Thread* current;

// Runs the kernel for all blocks. Throws std::runtime_error if threads wait at
// different barriers, and rethrows exceptions of the kernel.
void Run(const char* name, dim3 grid, dim3 block, size_t shared_bytes,
         const std::function<void()>& kernel);

// Returns the block's shared memory; throws if the launch requested less.
void* Shared(size_t bytes);

// True if times are the host's instead of none, to test measuring code:
// SUBQUAD_EMULATED_CLOCK=1.
bool HasClock();

void BlockBarrier();
void WarpBarrier(unsigned mask);
// Returns the bits, up to eight bytes, that lane `lane` of the warp passed in.
uint64_t Exchange(unsigned mask, uint64_t bits, int lane);
int LaneIndex();
// Gathers the data that every lane of the warp passed in, `bytes` each, one
// after another.
void Gather(unsigned mask, const void* own, size_t bytes, void* all);

// Adds 16 exact products to a sum as an H100's tensor cores do: every term is
// truncated two bits below the last place of the largest one, and then their
// sum is truncated, always towards zero.
float AddAsTensorCore(const double (&products)[16], float sum);

// Copies `bytes` of memory, and zeros up to `to_bytes`, but not before the
// thread waits for them: it waits for all groups except its last `left`.
void CopyLater(const void* from, size_t bytes, size_t to_bytes, void* to);
void EndCopies();
void WaitForCopies(size_t left);

template <typename T>
T Shuffle(unsigned mask, T value, int lane) {
  static_assert(sizeof(T) <= 8);
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof(T));
  bits = Exchange(mask, bits, lane);
  std::memcpy(&value, &bits, sizeof(T));
  return value;
}

}  // namespace subquad::emulated

#define threadIdx (::subquad::emulated::current->thread)
#define blockIdx (::subquad::emulated::current->block)
#define blockDim (::subquad::emulated::current->block_size)
#define gridDim (::subquad::emulated::current->grid_size)
inline constexpr int warpSize = 32;

inline void __syncthreads() { subquad::emulated::BlockBarrier(); }
inline void __syncwarp(unsigned mask = 0xFFFFFFFF) {
  subquad::emulated::WarpBarrier(mask);
}
template <typename T>
T __shfl_sync(unsigned mask, T value, int lane, int width = 32) {
  const int first = subquad::emulated::LaneIndex() / width * width;
  return subquad::emulated::Shuffle(mask, value, first + lane % width);
}
template <typename T>
T __shfl_xor_sync(unsigned mask, T value, int lanes, int width = 32) {
  const int me = subquad::emulated::LaneIndex(), other = me ^ lanes;
  return subquad::emulated::Shuffle(mask, value,
                                    other / width == me / width ? other : me);
}
template <typename T>
T __shfl_down_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
  const int me = subquad::emulated::LaneIndex(),
            other = me + static_cast<int>(lanes);
  return subquad::emulated::Shuffle(mask, value,
                                    other / width == me / width ? other : me);
}
template <typename T>
T __shfl_up_sync(unsigned mask, T value, unsigned lanes, int width = 32) {
  const int me = subquad::emulated::LaneIndex(),
            other = me - static_cast<int>(lanes);
  return subquad::emulated::Shuffle(
      mask, value, other >= 0 && other / width == me / width ? other : me);
}
template <typename T>
T __ldg(const T* at) {
  return *at;
}
template <typename T>
T atomicAdd(T* at, T value) {
  const T before = *at;
  *at += value;
  return before;
}
inline float __int_as_float(int bits) {
  float value;
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
inline int __float_as_int(float value) {
  int bits;
  std::memcpy(&bits, &value, sizeof bits);
  return bits;
}
template <typename T>
constexpr T min(T a, T b) {
  return b < a ? b : a;
}
template <typename T>
constexpr T max(T a, T b) {
  return a < b ? b : a;
}
#define CUDART_INF_F __builtin_inff()

// ---- the runtime
enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInsufficientDriver = 35,
  cudaErrorDevicesUnavailable = 46,
  cudaErrorNoDevice = 100,
  cudaErrorNoKernelImageForDevice = 209,
  cudaErrorIllegalAddress = 700,  // nothing runs afterwards
};
enum cudaMemcpyKind {
  cudaMemcpyHostToDevice,
  cudaMemcpyDeviceToHost,
  cudaMemcpyDeviceToDevice
};
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int multiProcessorCount, major, minor, l2CacheSize;
};
enum cudaDeviceAttr {
  cudaDevAttrClockRate = 13,
  cudaDevAttrMemoryClockRate = 36,
  cudaDevAttrGlobalMemoryBusWidth = 37,
};
using cudaStream_t = void*;
struct cudaEvent {
  std::chrono::steady_clock::time_point time;
};
using cudaEvent_t = cudaEvent*;

struct cudaFuncAttributes {};

const char* cudaGetErrorString(cudaError_t status);
cudaError_t cudaGetLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr which,
                                   int device);
cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes,
                                  void (*kernel)());
cudaError_t cudaMalloc(void** data, size_t bytes);
cudaError_t cudaFree(void* data);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes,
                       cudaMemcpyKind kind);
cudaError_t cudaMemset(void* data, int byte, size_t bytes);
cudaError_t cudaMemsetAsync(void* data, int byte, size_t bytes,
                            cudaStream_t stream);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes,
                            cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemGetInfo(size_t* available, size_t* total);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaEventCreate(cudaEvent_t* event);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventSynchronize(cudaEvent_t event);
cudaError_t cudaEventElapsedTime(float* milliseconds, cudaEvent_t start,
                                 cudaEvent_t end);
