// The emulated device finds the faults that it is there to find: every test
// runs a right kernel and the same with one fault.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/base/launch.h"
#include "cuda/base/memory.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 96;

// Device memory for `count` numbers; NaN.
struct Numbers {
  explicit Numbers(int64_t count)
      : memory(count * static_cast<int64_t>(sizeof(float)),
               DeviceUse::kWorkspace),
        at(static_cast<float*>(memory.data())) {}
  DeviceMemory memory;
  float* at;
};

int CountNan(const Numbers& numbers, int count) {
  int nan = 0;
  for (int i = 0; i < count; ++i) nan += std::isnan(numbers.at[i]);
  return nan;
}

// The numbers of a block in reverse, by shared memory.
__global__ void Reverse(bool barrier, float* out) {
  struct Tile {
    float at[kThreads];
  };
  SUBQUAD_SHARED(Tile, tile);
  const auto t = static_cast<int>(threadIdx.x);
  tile.at[t] = static_cast<float>(t);
  if (barrier) __syncthreads();
  out[t] = tile.at[kThreads - 1 - t];
}

TEST(Emulation, MissingBarrierShowsAsNan) {
  const Numbers right(kThreads), wrong(kThreads);
  constexpr size_t kShared = kThreads * sizeof(float);
  SUBQUAD_LAUNCH(Reverse, 1, kThreads, kShared, true, right.at);
  for (int t = 0; t < kThreads; ++t)
    EXPECT_EQ(right.at[t], static_cast<float>(kThreads - 1 - t));
  SUBQUAD_LAUNCH(Reverse, 1, kThreads, kShared, false, wrong.at);
  EXPECT_GT(CountNan(wrong, kThreads), 0);
}

TEST(Emulation, SharedMemoryIsWhatTheLaunchGives) {
  const Numbers out(kThreads);
  EXPECT_THROW(SUBQUAD_LAUNCH(Reverse, 1, kThreads,
                              (kThreads - 1) * sizeof(float), true, out.at),
               std::runtime_error);
  EXPECT_THROW(
      SUBQUAD_LAUNCH(Reverse, 1, kThreads, size_t{228} << 10, true, out.at),
      std::runtime_error);
  EXPECT_THROW(
      SUBQUAD_LAUNCH(Reverse, 1, 1025, kThreads * sizeof(float), true, out.at),
      std::runtime_error);
}

__global__ void Meet(unsigned threads) {
  if (threadIdx.x < threads) __syncthreads();
}

TEST(Emulation, BarrierThatSomeDoNotReachIsAnError) {
  SUBQUAD_LAUNCH(Meet, 2, kThreads, 0, unsigned{kThreads});
  SUBQUAD_LAUNCH(Meet, 2, kThreads, 0, 0u);
  try {
    SUBQUAD_LAUNCH(Meet, 2, kThreads, 0, 64u);
    FAIL() << "nothing was thrown";
  } catch (const std::runtime_error& error) {
    EXPECT_NE(std::string(error.what()).find("64 of 96 threads"),
              std::string::npos)
        << error.what();
  }
}

__global__ void Copy(const float* from, float* to, int count) {
  const auto i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x);
  if (i < count) to[i] = from[i];
}

TEST(EmulationDeathTest, AnIndexOutOfBoundsEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Numbers from(kThreads), to(kThreads);
  SUBQUAD_LAUNCH(Copy, 1, 2 * kThreads, 0, from.at, to.at, kThreads);
  EXPECT_DEATH(
      SUBQUAD_LAUNCH(Copy, 1, 2 * kThreads, 0, from.at, to.at, kThreads + 1),
      "");
  // What lies before the page that these numbers are on.
  const auto page = static_cast<uintptr_t>(::sysconf(_SC_PAGESIZE));
  const auto* before = reinterpret_cast<const float*>(
                           reinterpret_cast<uintptr_t>(from.at) / page * page) -
                       kThreads;
  EXPECT_DEATH(SUBQUAD_LAUNCH(Copy, 1, kThreads, 0, before, to.at, kThreads),
               "");
}

__global__ void CopyFours(const float* from, float* to) {
  reinterpret_cast<float4*>(to)[threadIdx.x] =
      reinterpret_cast<const float4*>(from)[threadIdx.x];
}

TEST(EmulationDeathTest, FourNumbersFromAnywhereEndTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Numbers from(4 * kThreads), to(4 * kThreads);
  SUBQUAD_LAUNCH(CopyFours, 1, kThreads - 1, 0, from.at + 4, to.at);
  EXPECT_DEATH(
      SUBQUAD_LAUNCH(CopyFours, 1, kThreads - 1, 0, from.at + 2, to.at), "");
  EXPECT_DEATH(
      SUBQUAD_LAUNCH(CopyFours, 1, kThreads - 1, 0, from.at, to.at + 1), "");
}

// Every block adds to what the one before it wrote.
__global__ void Chain(float* sums) {
  sums[blockIdx.x + 1] = sums[blockIdx.x] + 1.0f;
}

TEST(Emulation, BlocksDoNotWaitForEachOther) {
  constexpr int kBlocks = 16;
  const Numbers sums(kBlocks + 1);
  sums.at[0] = 0.0f;
  SUBQUAD_LAUNCH(Chain, kBlocks, 1, 0, sums.at);
  EXPECT_GT(CountNan(sums, kBlocks + 1), 0);
}

__global__ void Neighbours(float* out) {
  const auto lane = static_cast<float>(threadIdx.x % 32);
  float* own = out + 4 * threadIdx.x;
  own[0] = __shfl_sync(0xFFFFFFFF, lane, 5);
  own[1] = __shfl_xor_sync(0xFFFFFFFF, lane, 8, 16);
  own[2] = __shfl_down_sync(0xFFFFFFFF, lane, 3, 16);
  own[3] = __shfl_up_sync(0xFFFFFFFF, lane, 3, 16);
}

TEST(Emulation, WarpsExchangeAsTheManualSays) {
  const Numbers out(4 * kThreads);
  SUBQUAD_LAUNCH(Neighbours, 1, kThreads, 0, out.at);
  for (int t = 0; t < kThreads; ++t) {
    const int lane = t % 32, part = lane / 16 * 16;
    const float* own = out.at + 4 * t;
    EXPECT_EQ(own[0], 5.0f);
    EXPECT_EQ(own[1], static_cast<float>(lane ^ 8));
    EXPECT_EQ(own[2],
              static_cast<float>(lane + 3 < part + 16 ? lane + 3 : lane));
    EXPECT_EQ(own[3], static_cast<float>(lane - 3 >= part ? lane - 3 : lane));
  }
}

}  // namespace
}  // namespace subquad::device
