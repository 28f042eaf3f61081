// What is known of a query's row of the output after a fast program.
#pragma once

#include "cuda/kernelized/scaled.h"

namespace subquad::device {

enum class RowMark : unsigned char {
  kDone = 0,
  // What a transform may be off by is as large as the normaliser.
  kForTiles = 1,
  // What the query sees is lost beside what it does not see.
  kForPairs = 2,
};

__device__ inline RowMark MarkUnless(bool kept) {
  return kept ? RowMark::kDone : RowMark::kForPairs;
}

// Products of features that have one scale for all keys are zero below 2^-126.
// Has the sum of a row's weights kept its digits, where products were
// multiplied by numbers below 2^largest and the sum is relative to 2^top? Not
// where it is NaN.
__device__ inline bool KeptDigits(float sum, int largest, int top) {
  return fabsf(sum) >= PowerOfTwo(min(largest - top - 60, 127));
}

}  // namespace subquad::device
