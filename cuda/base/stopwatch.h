// Times by the device's own clock.
#pragma once

#include "cuda/base/check.h"

namespace subquad::device {

// Starts when the device has finished all previously launched work.
class Stopwatch {
 public:
  Stopwatch() {
    SUBQUAD_CUDA_CHECK(cudaEventCreate(&start_));
    SUBQUAD_CUDA_CHECK(cudaEventCreate(&end_));
    SUBQUAD_CUDA_CHECK(cudaEventRecord(start_, nullptr));
  }
  ~Stopwatch() {
    cudaEventDestroy(start_);
    cudaEventDestroy(end_);
  }
  Stopwatch(const Stopwatch&) = delete;
  Stopwatch& operator=(const Stopwatch&) = delete;

  // Waits for the work launched since the start.
  double Seconds() const {
    SUBQUAD_CUDA_CHECK(cudaEventRecord(end_, nullptr));
    SUBQUAD_CUDA_CHECK(cudaEventSynchronize(end_));
    float milliseconds = 0;
    SUBQUAD_CUDA_CHECK(cudaEventElapsedTime(&milliseconds, start_, end_));
    return milliseconds * 1e-3;
  }

 private:
  cudaEvent_t start_ = nullptr, end_ = nullptr;
};

}  // namespace subquad::device
