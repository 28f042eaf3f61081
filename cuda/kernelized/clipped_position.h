// The position term of kernelized attention with clipped relative embeddings
// (LRPE sections III and IV): sums over j of
//   s_ij v_j and s_ij,  s_ij = queries[i] . rpe[clip(j - i, -r, r) + r],
// where all keys that are r or more before a query have one weight, and all
// that are r or more after it another: their values are added up in whole
// chunks of 64 keys. Between them is a window of tiles.
#pragma once

#include "cuda/base/launch.h"
#include "cuda/base/memory.h"
#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

struct ClippedShape {
  explicit ClippedShape(const Problem& problem);

  int64_t n_q, n_k, d, e, r, heads;  // n_k: keys that some query sees
  int64_t embeddings;                // of 2 r + 1 rows: 1, or one for each head
  bool causal;
};

// Computes phi = elu + 1 of queries [heads, n_q, d] and keys [heads, n_k, d] in
// float32; those of a query are multiplied by a factor that brings the largest
// to about one.
template <typename S>
void ClippedFeatures(const ClippedShape& shape, HeadArray<const S> q,
                     HeadArray<const S> k, float* queries, float* keys);

template <typename S>
class ClippedPosition {
 public:
  ClippedPosition(Layout& layout, const ClippedShape& shape);

  // Computes out = (sums + sum_j s_ij v_j) / (normalisers + sum_j s_ij), with
  // sums [heads, n_q, e] and normalisers [heads, n_q] of the content term.
  void Run(const float* queries, HeadArray<const S> rpe, HeadArray<const S> v,
           const float* sums, const float* normalisers, HeadArray<S> out);

  static double Flops(const ClippedShape& shape);

 private:
  const ClippedShape shape_;
  // Sums of the values of all keys before a chunk, and of all keys from it on,
  // [heads, chunks + 1, e].
  DeviceBuffer<float> before_, after_;
};

}  // namespace subquad::device
