// What programs of stochastic_position_attention say of themselves, wherever
// they run.
#pragma once

#include <string>

#include "algorithms/linear_attention.h"
#include "reference/stochastic_position_attention.h"

namespace subquad {

inline bool IsSoftmaxOnNoise(const Problem& problem) {
  return problem.params.Text("attention") == "softmax";
}

inline std::string OnlySoftmaxOnNoise(const Problem& problem) {
  return IsSoftmaxOnNoise(problem) ? "" : "only for softmax";
}

template <bool kCausal>
std::string OnlyLinearOnNoise(const Problem& problem) {
  if (IsSoftmaxOnNoise(problem)) return "only for linear attention";
  return kCausal ? OnlyCausal(problem) : NotCausal(problem);
}

// As SignedFeatureBound: only the plain program puts one and the same weight,
// with its error, into both sums.
inline RowBound SignedFeaturesOnNoise(const Problem& problem,
                                      const Inputs& inputs) {
  if (IsSoftmaxOnNoise(problem)) return {};
  if (FeatureMapOf(AttentionOnNoise(problem)).id != FeatureMapId::kTrf)
    return {};
  return ReferenceBound(problem, inputs);
}

}  // namespace subquad
