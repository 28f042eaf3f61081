// Merges results of softmax attention over parts of the keys, for kernels in
// which several blocks share the keys of a query.
#pragma once

#include "cuda/base/memory.h"
#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

// Results of [splits, heads, queries] rows. With top the largest score of a row
// over its part of the keys, or the lowest finite number if it sees none of
// them:
//
//   weight_j = 2^(unit (score_j - top) + raised),  sum = sum_j weight_j,
//   out = sum_j weight_j v_j
struct SoftmaxPartials {
  float* top;  // [rows]
  float* sum;  // [rows]
  float* out;  // [rows, columns]
  int64_t columns;
  float raised = 0;
};

// Returns the logarithm of the sum of the weights, whose largest score is `top`
// in the units of SoftmaxPartials.
__device__ inline float LogOfSum(float top, float unit, float sum,
                                 float raised) {
  constexpr float kLn2 = 0.693147180559945309417f;
  return (fmaf(top, unit, -raised) + log2f(sum)) * kLn2;
}

// Memory for `rows` rows; empty if `rows` is zero.
class PartialsBuffer {
 public:
  PartialsBuffer() = default;
  PartialsBuffer(Layout& layout, int64_t rows, int64_t columns);

  SoftmaxPartials Get() const;

 private:
  int64_t rows_ = 0, columns_ = 0;
  DeviceBuffer<float> numbers_;
};

// out[h][i] = sum_s 2^(unit (top_s - top)) out_s / sum_s 2^(unit (top_s - top))
// sum_s, with the largest top, over the parts of head h and query i, and
// lse[h][i] if its data is not null. The order of the sums is the same in every
// run. A query that sees no key gets zeros.
//
// Instantiated for the three storage types.
template <typename S>
void MergePartials(const SoftmaxPartials& partials, int64_t splits,
                   int64_t heads, int64_t queries, float unit, HeadArray<S> out,
                   HeadArray<S> lse);

}  // namespace subquad::device
