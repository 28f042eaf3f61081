// The two terms of fastrpb_attention as problems of their own operators, for
// programs that add the results of two others.
#pragma once

#include <string>

#include "reference/contract/implementation.h"
#include "reference/inner_attention.h"

namespace subquad {

inline bool IsImage(const Problem& problem) {
  return problem.params.Has("height");
}

// A causal image's weights depend on both offsets together.
inline bool NeedsFullImage(const Problem& problem) {
  return IsImage(problem) && problem.params.Flag("causal");
}

// The product W v as a problem of its own operator.
Problem ProductOf(const Problem& problem);

// The tensors of one of the two terms, of those of the sum: its inputs, where
// the values of W v are v, and the sum's output. The weights of a full image
// have no data yet.
Arrays PartOf(const Problem& term, const Arrays& whole);

// Weights [2H-1, 2W-1] of both offsets on a causal image, for one head: raster
// order is the mask. T is float or double.
template <typename T>
void FillImageWeights(int64_t height, int64_t width, const T* rows,
                      const T* columns, T* weights);

// The attention's bound element by element, the product's norm-wise, and the
// rounding of their sum. `product`: the program that computes W v.
RowBound FastRpbBound(const Problem& problem, const Inputs& inputs,
                      const Implementation& product);

// Why this attention and this product cannot run the problem; empty if they
// can.
template <bool kSoftmax, bool kXy>
std::string WhyNotFastRpb(const Problem& problem) {
  if (IsSoftmax(problem) != kSoftmax)
    return kSoftmax ? "only for softmax attention"
                    : "only for linear attention";
  if (kXy && !IsImage(problem)) return "only for images: it needs two axes";
  if (kXy && NeedsFullImage(problem))
    return "not causal: a raster mask is no sum of a row and a column part";
  if (!kXy && IsImage(problem) && !NeedsFullImage(problem))
    return "the image's product is a sum of rows and columns, which is faster";
  return "";
}

}  // namespace subquad
