// Applicability and error bounds of linear attention, shared by the CPU and GPU
// implementations.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "reference/contract/implementation.h"
#include "reference/contract/kernelized.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad {

inline std::string OnlyCausal(const Problem& problem) {
  return problem.params.Flag("causal")
             ? ""
             : "only causal: it processes keys in the order of the queries";
}

inline std::string NotCausal(const Problem& problem) {
  return problem.params.Flag("causal")
             ? "not causal: it sums over all keys at once"
             : "";
}

// Algorithms that keep sums over all keys so far cannot forget one, and have no
// pairs to hide.
template <bool kCausal>
std::string OnlySumsOfKeys(const Problem& problem) {
  const std::string why = kCausal ? OnlyCausal(problem) : NotCausal(problem);
  if (!why.empty()) return why;
  for (const char* window : {"window_left", "window_right"}) {
    const bool has_effect = window == std::string("window_left") || !kCausal;
    if (has_effect && problem.params.Has(window))
      return std::string(window) +
             ": this algorithm keeps sums over all keys and forgets none";
  }
  return OnlyKeyMask(problem);
}

// Returns the reference's own bound, for problems where the baseline's error is
// no measure.
inline RowBound ReferenceBound(const Problem& problem, const Inputs& inputs) {
  const std::shared_ptr<Reference<double>> rows =
      problem.op->ReferenceDouble(problem, inputs);
  return [rows](const RowId& id, std::span<double> units) {
    std::vector<double> value(units.size());
    rows->Row(id, value.data(), units.data());
  };
}

// Signed features (trf, identity) cancel in a weight phi(q) . phi(k), possibly
// leaving only rounding errors. The plain dense program uses the same weight in
// both sums, where its error cancels again; with the other bracketing,
// numerator and denominator have errors of their own. So the bound of the
// reference holds for both, but the baseline's error is no measure. A numerator
// alone has nothing that cancels.
inline RowBound SignedFeatureBound(const Problem& problem,
                                   const Inputs& inputs) {
  if (!FeatureMapOf(problem).is_signed() || !NormaliserOf(problem).normalized)
    return {};
  return ReferenceBound(problem, inputs);
}

}  // namespace subquad
