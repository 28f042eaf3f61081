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

// What algorithms refuse that keep sums over all keys so far: they cannot
// forget a key. In causal order a window has no keys ahead.
inline std::vector<Refusal> SumsOfKeysRefuse(bool causal) {
  const std::string why =
      "this algorithm keeps sums over all keys and forgets none";
  std::vector<Refusal> refusals = {{"window_left", why}};
  if (!causal) refusals.push_back({"window_right", why});
  for (const Refusal& refusal : FeaturesOfKeysRefuse())
    refusals.push_back(refusal);
  return refusals;
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
