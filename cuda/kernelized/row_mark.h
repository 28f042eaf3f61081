// The state of a query's output row after a fast implementation.
#pragma once

#include "cuda/kernelized/scaled.h"

namespace subquad::device {

enum class RowMark : unsigned char {
  kDone = 0,
  // The error of a transform may be as large as the normaliser.
  kForTiles = 1,
  // The query's visible keys are lost next to hidden ones.
  kForPairs = 2,
};

__device__ inline RowMark MarkUnless(bool kept) {
  return kept ? RowMark::kDone : RowMark::kForPairs;
}

// True if the sum of a row's weights has kept its digits. Products of features
// that have one scale for all keys are zero below 2^-126; here they were
// multiplied by factors below 2^largest, and the sum is relative to 2^top.
// False for NaN.
__device__ inline bool KeptDigits(float sum, int largest, int top) {
  return fabsf(sum) >= PowerOfTwo(min(largest - top - 60, 127));
}

}  // namespace subquad::device
