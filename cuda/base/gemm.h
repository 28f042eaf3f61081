// Products of matrices by cuBLAS, for all heads at once. Row-major, with
// float32 arithmetic throughout: TensorFloat32 is never used.
#pragma once

#include "cuda/base/memory.h"
#include "cuda/base/storage.h"

namespace subquad::device {

// A batch of matrices in device memory: `rows` x `columns`, rows `stride`
// elements apart, matrices `batch_stride` apart (0: one matrix for all). With
// `transposed` the operand is the transpose.
template <typename S>
struct DeviceMatrix {
  S* data;
  int64_t rows, columns;
  int64_t stride, batch_stride;
  bool transposed = false;
};

// cuBLAS with its own work area, counted as workspace: as large as NVIDIA
// recommends for the device, 32 MiB from Hopper on and 4 MiB before. A smaller
// area makes some of its kernels unavailable. One per prepared implementation.
class Gemm {
 public:
  explicit Gemm(Layout& layout);

  // Computes C = alpha A B + beta C for each of `batch` matrices. S is the
  // storage type of A and B; products of storage types are exact in float32.
  // Sums of more than 16384 terms are added up in parts.
  template <typename S>
  void Run(int64_t batch, float alpha, const DeviceMatrix<const S>& a,
           const DeviceMatrix<const S>& b, float beta,
           const DeviceMatrix<float>& c);

 private:
  DeviceBuffer<unsigned char> area_;
};

}  // namespace subquad::device
