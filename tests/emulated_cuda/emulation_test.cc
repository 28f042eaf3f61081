// The emulated device detects the faults that it is made to detect: every test
// runs a correct kernel and a copy with one fault.
#include <gtest/gtest.h>
#include <unistd.h>

#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <vector>

#include "cuda/base/launch.h"
#include "cuda/base/memory.h"
#include "cuda/base/tensor_core.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 96;

// Device memory for `count` values, initially NaN.
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

// Reverses the values of a block through shared memory.
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

TEST(Emulation, SharedMemoryHasTheLaunchedSize) {
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

TEST(Emulation, ABarrierThatSomeThreadsMissIsAnError) {
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
  // Reads from the page before the page of these values.
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

TEST(EmulationDeathTest, UnalignedFourWideAccessEndsTheProgram) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const Numbers from(4 * kThreads), to(4 * kThreads);
  SUBQUAD_LAUNCH(CopyFours, 1, kThreads - 1, 0, from.at + 4, to.at);
  EXPECT_DEATH(
      SUBQUAD_LAUNCH(CopyFours, 1, kThreads - 1, 0, from.at + 2, to.at), "");
  EXPECT_DEATH(
      SUBQUAD_LAUNCH(CopyFours, 1, kThreads - 1, 0, from.at, to.at + 1), "");
}

// Every block adds to the result of the previous block.
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

// Computes out [16, 8] = left [16, 16] right [16, 8] as a warp does on tensor
// cores; the right factor is given by its columns, or by its rows.
struct TwoFactors {
  alignas(16) __half left[16][16], columns[8][16], rows[16][8];
};

__global__ void Multiply(bool by_rows, float* out) {
  SUBQUAD_SHARED(TwoFactors, shared);
  const auto lane = static_cast<int>(threadIdx.x);
  for (int at = lane; at < 256; at += kWarp) {
    const int row = at / 16, column = at % 16;
    Store(static_cast<float>(at % 37), &shared.left[row][column]);
    if (row >= 8) continue;
    const auto number = static_cast<float>(at % 11 - 5);
    Store(number, &shared.columns[row][column]);
    Store(number, &shared.rows[column][row]);
  }
  __syncthreads();
  uint32_t left[4], right[4];
  LoadMatrices<false>(&shared.left[lane % 16][lane / 16 * 8], left);
  if (by_rows)
    LoadMatrices<true>(&shared.rows[lane % 16][0], right);
  else
    LoadMatrices<false>(&shared.columns[lane % 8][lane / 8 % 2 * 8], right);
  float sum[4] = {};
  AddProduct<__half>(left, right[0], right[1], sum);
  for (int i = 0; i < 4; ++i)
    out[(lane / 4 + i / 2 * 8) * 8 + lane % 4 * 2 + i % 2] = sum[i];
}

TEST(Emulation, TensorCoresMultiplyAsTheManualSays) {
  for (const bool by_rows : {false, true}) {
    const Numbers out(16 * 8);
    SUBQUAD_LAUNCH(Multiply, 1, kWarp, sizeof(TwoFactors), by_rows, out.at);
    for (int row = 0; row < 16; ++row)
      for (int column = 0; column < 8; ++column) {
        int sum = 0;
        for (int k = 0; k < 16; ++k)
          sum += (row * 16 + k) % 37 * ((column * 16 + k) % 11 - 5);
        EXPECT_EQ(out.at[row * 8 + column], static_cast<float>(sum))
            << row << " " << column;
      }
  }
}

TEST(Emulation, TensorCoresTruncate) {
  // Adds some equal products to a sum.
  const auto add = [](int count, double each, float sum) {
    double products[16] = {};
    for (int i = 0; i < count; ++i) products[i] = each;
    return emulated::AddAsTensorCore(products, sum);
  };
  const float last = std::ldexp(1.0f, -23);  // the last place of 1
  EXPECT_EQ(add(16, last / 4, 1), 1 + 4 * last);
  EXPECT_EQ(add(16, last / 8, 1), 1);
  EXPECT_EQ(add(16, -last * 5 / 8, -1), -1 - 8 * last);
  // A value between two floats becomes the one nearer to zero.
  EXPECT_EQ(add(3, last / 4, 1), 1);
  EXPECT_EQ(add(1, -1.75 * last, -1), -1 - last);
  EXPECT_EQ(add(16, 0, 0), 0);
  EXPECT_TRUE(std::isnan(add(1, std::nan(""), 1)));
}

// Copies the values of a block through shared memory without registers in
// between, and one value too many.
__global__ void CopyAlong(bool wait, const float* from, float* to) {
  struct Fours {
    alignas(16) float at[kThreads + 1][4];
  };
  SUBQUAD_SHARED(Fours, shared);
  const auto t = static_cast<int>(threadIdx.x);
  CopyLater(from + t * 4, true, shared.at[t]);
  EndCopies();
  if (t == 0) CopyLater(from, false, shared.at[kThreads]);
  EndCopies();
  if (wait)
    WaitForCopies<0>();
  else
    WaitForCopies<1>();
  __syncthreads();
  to[t] = shared.at[t][3] + shared.at[kThreads][t % 4];
}

TEST(Emulation, CopiesAreCompleteAfterWaiting) {
  const Numbers from(4 * kThreads), right(kThreads), wrong(kThreads);
  constexpr size_t kShared = (kThreads + 1) * 4 * sizeof(float);
  for (int i = 0; i < 4 * kThreads; ++i) from.at[i] = static_cast<float>(i);
  SUBQUAD_LAUNCH(CopyAlong, 1, kThreads, kShared, true, from.at, right.at);
  for (int t = 0; t < kThreads; ++t)
    EXPECT_EQ(right.at[t], static_cast<float>(4 * t + 3));
  SUBQUAD_LAUNCH(CopyAlong, 1, kThreads, kShared, false, from.at, wrong.at);
  EXPECT_EQ(CountNan(wrong, kThreads), kThreads);
  EXPECT_THROW(SUBQUAD_LAUNCH(CopyAlong, 1, kThreads, kShared, true,
                              from.at + 1, right.at),
               std::runtime_error);
}

}  // namespace
}  // namespace subquad::device
