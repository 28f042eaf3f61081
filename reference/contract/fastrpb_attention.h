// The two terms of fastrpb_attention as problems of their own operators, for
// implementations that add the results of two others.
#pragma once

#include <string>

#include "reference/contract/implementation.h"
#include "reference/inner_attention.h"

namespace subquad {

inline bool IsImage(const Problem& problem) {
  return problem.params.Has("height");
}

// A causal image's weights depend on both offsets at once.
inline bool NeedsFullImage(const Problem& problem) {
  return IsImage(problem) && problem.params.Flag("causal");
}

// The product W v as a problem of its own operator.
Problem ProductOf(const Problem& problem);

// Selects the tensors of one of the two terms: its inputs, where the values of
// W v are v, and the sum's output. The weights of a full image have no data
// yet.
Arrays PartOf(const Problem& term, const Arrays& whole);

// Fills in the weights [2H-1, 2W-1] by both offsets on a causal image, for one
// head; the mask is the raster order. T is float or double.
template <typename T>
void FillImageWeights(int64_t height, int64_t width, const T* rows,
                      const T* columns, T* weights);

// Adds the attention's element-wise bound, the product's norm-wise bound and
// the rounding of their sum. `product` is the implementation that computes W v.
RowBound FastRpbBound(const Problem& problem, const Inputs& inputs,
                      const Implementation& product);

// Says why this attention or this product cannot run the problem; empty if both
// can.
template <bool kSoftmax, bool kXy>
std::string WhyNotFastRpb(const Problem& problem) {
  if (IsSoftmax(problem) != kSoftmax)
    return kSoftmax ? "only for softmax attention"
                    : "only for linear attention";
  if (kXy && !IsImage(problem)) return "only for images: it needs two axes";
  if (kXy && NeedsFullImage(problem))
    return "not causal: a raster mask is not a sum of a row part and a column "
           "part";
  if (!kXy && IsImage(problem) && !NeedsFullImage(problem))
    return kSoftmax ? "for an image use softmax_xy, which needs no FFT"
                    : "for an image use linear_xy, which needs no FFT";
  return "";
}

}  // namespace subquad
