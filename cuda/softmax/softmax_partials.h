// Softmax attention of queries over parts of their keys, and how the parts are
// merged: for programs in which several blocks share the keys of a query.
#pragma once

#include "cuda/base/memory.h"
#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

// Points to the results of [splits, heads, queries] rows. With top the largest
// score of a row's part of the keys, or the lowest finite number where it sees
// none of them:
//
//   weight_j = 2^(unit (score_j - top)),  sum = sum_j weight_j,
//   out = sum_j weight_j v_j
struct SoftmaxPartials {
  float* top;  // [rows]
  float* sum;  // [rows]
  float* out;  // [rows, columns]
  int64_t columns;
};

// Holds the memory of that many rows, and none at all where `rows` is zero.
class PartialsBuffer {
 public:
  PartialsBuffer() = default;
  PartialsBuffer(Layout& layout, int64_t rows, int64_t columns);

  SoftmaxPartials Get() const;

 private:
  int64_t rows_ = 0, columns_ = 0;
  DeviceBuffer<float> numbers_;
};

// Computes out[h][i] = sum_s 2^(unit (top_s - top)) out_s / sum_s 2^(unit
// (top_s - top)) sum_s, with the largest top, over the parts of head h and
// query i. The order of the sums is the same in every run. A query that sees no
// key gets NaN (0/0).
//
// The three types of storage are instantiated.
template <typename S>
void MergePartials(const SoftmaxPartials& partials, int64_t splits,
                   int64_t heads, int64_t queries, float unit,
                   HeadArray<S> out);

}  // namespace subquad::device
