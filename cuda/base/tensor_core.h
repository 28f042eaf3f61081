// Gives kernels products of 16 x 16 x 8 numbers of two bytes on tensor
// cores, what loads their factors from shared memory, and copies from global to
// shared memory that go on while the program does.
//
// A factor of such a product lies spread over the 32 lanes of a warp. In PTX's
// terms (mma.m16n8k16), with g = lane / 4 and t = lane % 4, every register a
// pair of neighbours:
//
//   left  [16, 16]  0: (g, 2t)  1: (g+8, 2t)  2: (g, 2t+8)  3: (g+8, 2t+8)
//   right [16, 8]   0: (2t, g)  1: (2t+8, g), pairs along the column
//   sum   [16, 8]   0, 1: (g, 2t), (g, 2t+1)  2, 3: (g+8, 2t), (g+8, 2t+1)
//
// Products are exact. How a tensor core adds them up is not documented (Fasi,
// Higham, Mikaitis and Pranesh 2021 found out for some). An H100 cuts off every
// term of a sum two bits behind the last one of the largest term, and then the
// sum: 16 products of 2^-25 beside 1 are added in full, of 2^-26 not at all.
// Always towards zero, so that errors of long sums do not cancel: sums of many
// products are taken in pieces, and these added in float32.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "cuda/base/storage.h"
#include "cuda/base/warp.h"

namespace subquad::device {

// Multiplies a bound that counts one rounding to the nearest for each term: a
// term that is cut off is off by twice as much.
inline constexpr double kTensorCoreBoundFactor = 2;

// ---- pairs of numbers in a register

// Packs two numbers, the first one at the lower address.
template <typename S>
__device__ inline uint32_t Pair(float first, float second) {
  S two[2];
  uint32_t bits;
#ifdef SUBQUAD_EMULATED_CUDA
  Store(first, &two[0]);
  Store(second, &two[1]);
#else
  if constexpr (sizeof(S) == 2 && ScalarOf<S>() == Scalar::kBFloat16) {
    const __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    two[0] = pair.x;
    two[1] = pair.y;
  } else {
    const __half2 pair = __floats2half2_rn(first, second);
    two[0] = pair.x;
    two[1] = pair.y;
  }
#endif
  memcpy(&bits, two, sizeof bits);
  return bits;
}

template <typename S>
__device__ inline float2 Numbers(uint32_t pair) {
  S two[2];
  memcpy(two, &pair, sizeof pair);
  return make_float2(ToFloat(two[0]), ToFloat(two[1]));
}

// ---- factors and products

// Loads four matrices of 8 x 8 numbers from shared memory: matrix m into
// register m, its row l from where lane 8 m + l points, a multiple of 16 bytes.
// A lane gets the pair 2 (lane % 4) of row lane / 4; of the transposed matrix,
// if so asked.
template <bool kTransposed, typename S>
__device__ inline void LoadMatrices(const S* row, uint32_t (&to)[4]) {
  static_assert(sizeof(S) == 2);
#ifdef SUBQUAD_EMULATED_CUDA
  if (reinterpret_cast<uintptr_t>(row) % 16 != 0)
    throw std::runtime_error("a row of a matrix that is not aligned");
  const S* rows[kWarp];
  emulated::Gather(kAllLanes, &row, sizeof row, rows);
  const int lane = emulated::LaneIndex(), g = lane / 4, t = lane % 4;
  for (int m = 0; m < 4; ++m) {
    S two[2];
    for (int i = 0; i < 2; ++i)
      two[i] =
          kTransposed ? rows[8 * m + 2 * t + i][g] : rows[8 * m + g][2 * t + i];
    memcpy(&to[m], two, sizeof to[m]);
  }
#else
  const auto at = static_cast<uint32_t>(__cvta_generic_to_shared(row));
  if constexpr (kTransposed)
    asm volatile(
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0,%1,%2,%3}, [%4];"
        : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
        : "r"(at));
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                 : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
                 : "r"(at));
#endif
}

// Adds the product of left and right, of numbers of type S, to sum.
template <typename S>
__device__ inline void AddProduct(const uint32_t (&left)[4], uint32_t right_0,
                                  uint32_t right_1, float (&sum)[4]) {
#ifdef SUBQUAD_EMULATED_CUDA
  struct Factors {
    uint32_t left[4], right[2];
  };
  const Factors own = {{left[0], left[1], left[2], left[3]},
                       {right_0, right_1}};
  Factors all[kWarp];
  emulated::Gather(kAllLanes, &own, sizeof own, all);
  const int lane = emulated::LaneIndex(), g = lane / 4, t = lane % 4;
  for (int i = 0; i < 4; ++i) {
    double products[16];
    for (int k = 0; k < 16; ++k) {
      // The lane of this term in the row of the left and in the column of the
      // right factor, the register, and which one of the pair.
      const int of = k % 8 / 2, half = k / 8, one = k % 2;
      const float2 x = Numbers<S>(all[g * 4 + of].left[half * 2 + i / 2]);
      const float2 y = Numbers<S>(all[(2 * t + i % 2) * 4 + of].right[half]);
      products[k] = one == 0 ? double{x.x} * y.x : double{x.y} * y.y;
    }
    sum[i] = emulated::AddAsTensorCore(products, sum[i]);
  }
#else
  if constexpr (ScalarOf<S>() == Scalar::kBFloat16)
    asm("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0),
          "r"(right_1));
  else
    asm("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 "
        "{%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(sum[0]), "+f"(sum[1]), "+f"(sum[2]), "+f"(sum[3])
        : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "r"(right_0),
          "r"(right_1));
#endif
}

// Returns 2^x with a relative error of at most 2^-22; 0 where that is below the
// smallest normal number.
__device__ inline float PowerOfTwo(float x) {
#ifdef SUBQUAD_EMULATED_CUDA
  return x < -126 ? 0.0f : std::exp2(x);
#else
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#endif
}

// ---- copies that go on

// Begins to copy 16 bytes to shared memory, both ends multiples of 16 bytes;
// zeros, and nothing is read, unless `there`.
__device__ inline void CopyLater(const void* from, bool there, void* to) {
#ifdef SUBQUAD_EMULATED_CUDA
  emulated::CopyLater(from, there ? 16 : 0, 16, to);
#else
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(
                   static_cast<uint32_t>(__cvta_generic_to_shared(to))),
               "l"(from), "r"(there ? 16 : 0)
               : "memory");
#endif
}

// Ends a group of copies of this thread.
__device__ inline void EndCopies() {
#ifdef SUBQUAD_EMULATED_CUDA
  emulated::EndCopies();
#else
  asm volatile("cp.async.commit_group;" ::: "memory");
#endif
}

// Waits until all groups of this thread but the last kLeft are there. Other
// threads see them after a barrier.
template <int kLeft>
__device__ inline void WaitForCopies() {
#ifdef SUBQUAD_EMULATED_CUDA
  emulated::WaitForCopies(kLeft);
#else
  asm volatile("cp.async.wait_group %0;" ::"n"(kLeft) : "memory");
#endif
}

}  // namespace subquad::device
