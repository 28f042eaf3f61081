// Launches of kernels. Every launch is checked, and the error names the kernel.
#pragma once

#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "cuda/base/check.h"

namespace subquad::device {

// The emulated device has thresholds between code paths so low that tests of
// small problems take both paths.
#ifdef SUBQUAD_EMULATED_CUDA
inline constexpr bool kEmulated = true;
#else
inline constexpr bool kEmulated = false;
#endif

// The largest number of blocks in the second and third dimension of a grid.
inline constexpr int64_t kMostBlocksAcross = 65535;

// Returns how many pieces of `size` cover `count`.
inline int64_t PiecesOf(int64_t count, int64_t size) {
  return (count + size - 1) / size;
}

// Returns the size of equal groups that divide `all` into as few groups of at
// most `most` as possible, rounded up to a multiple of `step`, or `all` itself.
// Used for groups whose last one costs as much as a full one.
constexpr int64_t EqualGroup(int64_t all, int64_t most, int64_t step) {
  const int64_t groups = (all + most - 1) / most;
  const int64_t each = (all + groups - 1) / groups;
  const int64_t group = (each + step - 1) / step * step;
  return group < all ? group : all;
}
static_assert(EqualGroup(768, 704, 32) == 384);   // instead of 704 and 64
static_assert(EqualGroup(1024, 320, 32) == 256);  // instead of three and a rest
static_assert(EqualGroup(100, 64, 32) == 64 && EqualGroup(19, 64, 32) == 19);

// Makes a grid of blocks; throws DeviceError if it is larger than a device
// allows.
inline dim3 Grid(int64_t x, int64_t y = 1, int64_t z = 1) {
  if (x < 1 || y < 1 || z < 1 || x > 0x7FFFFFFF || y > kMostBlocksAcross ||
      z > kMostBlocksAcross)
    throw DeviceError("a grid of " + std::to_string(x) + " x " +
                      std::to_string(y) + " x " + std::to_string(z) +
                      " blocks is not possible");
  return dim3(static_cast<unsigned>(x), static_cast<unsigned>(y),
              static_cast<unsigned>(z));
}

// Launches a kernel; use SUBQUAD_LAUNCH instead. Blocks get `shared_bytes` of
// shared memory, which kernels access by SUBQUAD_SHARED.
template <typename... Parameters, typename... Arguments>
void LaunchKernel(const char* name, void (*kernel)(Parameters...), dim3 grid,
                  dim3 block, size_t shared_bytes, Arguments&&... arguments) {
  static_assert(sizeof...(Parameters) == sizeof...(Arguments));
  std::tuple<std::remove_cv_t<Parameters>...> values(
      static_cast<Parameters>(arguments)...);
#ifdef SUBQUAD_EMULATED_CUDA
  emulated::Run(name, grid, block, shared_bytes,
                [&] { std::apply(kernel, values); });
#else
  constexpr size_t kWithoutAsking = 48 << 10;
  if (shared_bytes > kWithoutAsking)
    CheckCall(cudaFuncSetAttribute(reinterpret_cast<const void*>(kernel),
                                   cudaFuncAttributeMaxDynamicSharedMemorySize,
                                   static_cast<int>(shared_bytes)),
              name);
  std::apply(
      [&](auto&... value) {
        void* pointers[] = {static_cast<void*>(&value)...};
        CheckCall(cudaLaunchKernel(reinterpret_cast<const void*>(kernel), grid,
                                   block, pointers, shared_bytes, nullptr),
                  name);
      },
      values);
#endif
}

}  // namespace subquad::device

// Usage: SUBQUAD_LAUNCH((Kernel<float>), grid, block, shared_bytes,
// arguments...), with parentheses if the kernel's name contains a comma.
#define SUBQUAD_LAUNCH(kernel, grid, block, shared_bytes, ...)               \
  ::subquad::device::LaunchKernel("launch of " #kernel, kernel, grid, block, \
                                  shared_bytes __VA_OPT__(, ) __VA_ARGS__)

// Declares, in a kernel, a reference `name` to the block's shared memory as a
// Type (one word; use an alias for a template). Launch with at least
// sizeof(Type) bytes. Only one per kernel.
#ifdef SUBQUAD_EMULATED_CUDA
#define SUBQUAD_SHARED(Type, name) \
  Type& name = *static_cast<Type*>(::subquad::emulated::Shared(sizeof(Type)))
#else
#define SUBQUAD_SHARED(Type, name)                                      \
  extern __shared__ __align__(16) unsigned char subquad_shared_bytes[]; \
  Type& name = *reinterpret_cast<Type*>(subquad_shared_bytes)
#endif
