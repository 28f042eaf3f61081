// Error bounds of stochastic_position_attention, shared by the CPU and GPU
// implementations.
#pragma once

#include "reference/contract/linear_attention.h"
#include "reference/contract/softmax_scale.h"
#include "reference/inner_attention.h"

namespace subquad {

inline std::string OnlySoftmaxOnNoise(const Problem& problem) {
  return IsSoftmax(problem) ? "" : "only for softmax";
}

template <bool kCausal>
std::string OnlyLinearOnNoise(const Problem& problem) {
  if (IsSoftmax(problem)) return "only for linear attention";
  return kCausal ? OnlyCausal(problem) : NotCausal(problem);
}

// Bounds signed features as SignedFeatureBound does: only the plain program
// uses the same weight, with the same error, in both sums.
inline RowBound SignedFeaturesOnNoise(const Problem& problem,
                                      const Inputs& inputs) {
  if (IsSoftmax(problem)) return {};
  if (FeatureMapOf(AttentionOnNoise(problem, ScoreScale<double>(problem))).id !=
      FeatureMapId::kTrf)
    return {};
  return ReferenceBound(problem, inputs);
}

}  // namespace subquad
