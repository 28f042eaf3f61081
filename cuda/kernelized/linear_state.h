// Linear attention from features: sums over keys first (FastRPB eq. 3;
// Transformers II eq. 18-20), in float32 throughout.
//
//   S = sum_j keys[j] values[j]^T  [f, e],   z = sum_j keys[j]  [f]
//   out[i] = queries[i]^T S / queries[i]^T z
//
// and, if causal, with sums over j <= i: in chunks of 64 tokens, the state
// before a chunk and the chunk's own triangle.
//
//   queries [heads, n_q, f], keys [heads, n_k, f]   float32
//   values  [n_k, e]                                of any type of storage
//   out     [n_q, e]                                the same type, or float32
//
// Features may have any source. Those of features.h have scales: kShared if it
// is not causal, and kChunks with the exponents of its chunks if it is.
#pragma once

#include "cuda/kernelized/features.h"
#include "cuda/kernelized/row_mark.h"

namespace subquad::device {

struct LinearShape {
  int64_t n_q, n_k, f, e, heads;
  bool causal;
};

class LinearState {
 public:
  LinearState(Layout& layout, const LinearShape& shape);

  // `exponents` are the scales of features.h if causal; {} if features have
  // none. With `normalisers` [heads, n_q], out is not divided by queries^T z,
  // which is written there instead. With `marks` [heads, n_q], causal queries
  // that the scale of their chunk has lost are marked there for direct_rows.h.
  template <typename S, typename Out>
  void Run(const float* queries, const float* keys, KeyExponents exponents,
           HeadArray<const S> values, HeadArray<Out> out,
           float* normalisers = nullptr, RowMark* marks = nullptr);

  static double Flops(const LinearShape& shape);

 private:
  // Returns the number of keys per partial sum: whole chunks.
  static int64_t Segment(const LinearShape& shape);
  static int64_t Segments(const LinearShape& shape);
  static int64_t StateSize(const LinearShape& shape) {
    return shape.f * (shape.e + 1);
  }

  const LinearShape shape_;
  DeviceBuffer<float>
      states_;  // [heads, segments, f, e + 1], the last column is z
  DeviceBuffer<float> totals_;  // [heads, f, e + 1], if not causal
};

}  // namespace subquad::device
