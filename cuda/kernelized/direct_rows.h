// Kernelized attention of single queries, pair by pair:
//   out_i = sum_j w_ij v_j / sum_j w_ij,  w_ij = phi(q_i) . phi(k_j) c(j - i),
// where every feature, weight and sum has an exponent of its own, so that
// visible keys are never lost next to hidden ones. The fast implementations
// scale features by the largest of many keys; they mark the queries, usually
// none, whose digits this scaling has lost, and these rows of their output are
// overwritten.
#pragma once

#include "cuda/kernelized/row_mark.h"
#include "cuda/kernelized/shape.h"

namespace subquad::device {

class DirectRows {
 public:
  DirectRows(Layout& layout, const DeviceKernelizedShape& shape);

  // Marks [heads, n_q], to be filled in by the fast implementation.
  RowMark* marks() const { return marks_.data(); }

  // Writes the rows of out that are marked kForPairs. q [n_q, d], k [n_k, d],
  // omega as the map has it or {}, bias.at null without a bias, values [n_k,
  // e], out [n_q, e]. Takes O(n_k (f d + e)) for each such row, with d only if
  // the map projects.
  template <typename X, typename O, typename S, typename Out>
  void Run(HeadArray<const X> q, HeadArray<const X> k, HeadArray<const O> omega,
           const BiasWeights& bias, HeadArray<const S> values,
           HeadArray<Out> out);

 private:
  static int64_t Blocks(const DeviceKernelizedShape& shape);

  const DeviceKernelizedShape shape_;
  DeviceBuffer<RowMark> marks_;
  DeviceBuffer<Scaled> features_;  // [blocks, f], for a block's query
  DeviceBuffer<float> sums_;       // [blocks, e]
};

}  // namespace subquad::device
