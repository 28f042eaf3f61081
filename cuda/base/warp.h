// Sums and maxima over the lanes of a warp and over the threads of a block, in
// an order that is the same on every run, so that every thread gets the same
// bits.
#pragma once

#include <cuda_runtime.h>

namespace subquad::device {

inline constexpr int kWarp = 32;
inline constexpr unsigned kAllLanes = 0xFFFFFFFF;

// Sums over groups of kLanes adjacent lanes.
template <int kLanes = kWarp>
__device__ inline float SumOfLanes(float value) {
#pragma unroll
  for (int lane = kLanes / 2; lane > 0; lane /= 2)
    value += __shfl_xor_sync(kAllLanes, value, lane);
  return value;
}

template <int kLanes = kWarp, typename T>
__device__ inline T LargestOfLanes(T value) {
#pragma unroll
  for (int lane = kLanes / 2; lane > 0; lane /= 2)
    value = max(value, __shfl_xor_sync(kAllLanes, value, lane));
  return value;
}

// Collects one value per warp of a one-dimensional block of kThreads, a
// multiple of 32; `each` is shared.
template <int kThreads, typename T>
__device__ inline void CollectFromWarps(T value, T (&each)[kThreads / kWarp]) {
  __syncthreads();  // another thread may still read `each` of the previous call
  if (threadIdx.x % kWarp == 0) each[threadIdx.x / kWarp] = value;
  __syncthreads();
}

template <int kThreads>
__device__ inline float SumOfBlock(float value,
                                   float (&each)[kThreads / kWarp]) {
  CollectFromWarps<kThreads>(SumOfLanes(value), each);
  float sum = each[0];
  for (int w = 1; w < kThreads / kWarp; ++w) sum += each[w];
  return sum;
}

template <int kThreads, typename T>
__device__ inline T LargestOfBlock(T value, T (&each)[kThreads / kWarp]) {
  CollectFromWarps<kThreads>(LargestOfLanes(value), each);
  T largest = each[0];
  for (int w = 1; w < kThreads / kWarp; ++w) largest = max(largest, each[w]);
  return largest;
}

}  // namespace subquad::device
