// The errors of attention heads (attention_heads.h) beside those of weights
// that need no features, and compared head by head: what differs between heads
// then does not matter, and differences have intervals over heads.
#pragma once

#include <cmath>
#include <string>

#include "harness/base/inference.h"
#include "harness/papers/frame/attention_heads.h"

namespace subquad {

// What a row of the table `paired` compares.
namespace compared {
// |A - A^|_1 over that of equal weights, or of exp(bias) alone.
inline constexpr const char* kOverUniform = "error / uniform";
inline constexpr const char* kOverBias = "error / bias";
// |(A - A^) V| over that of equal weights.
inline constexpr const char* kOutput = "output / uniform";
// |A - A^|_1 with the head's bias less that without.
inline constexpr const char* kRpe = "rpe - none";
// The error over that of exp(bias) alone (equal weights without RPE) of
// standard attention, less the same of normalised attention.
inline constexpr const char* kStandard = "standard - normalised";
}  // namespace compared

// Errors of the baselines, by head.
StudyTable HeadBaselineTable(const AttentionHeads& all,
                             const std::vector<HeadResult>& results);

// Means over the heads of a model, with Student's intervals. Models with one
// head have none and are left out.
StudyTable PairedTable(const AttentionHeads& all,
                       const std::vector<HeadResult>& results,
                       const HeadSettings& settings);

// A row of it; NaN if the table lacks it.
struct PairedRow {
  Estimate mean{NAN, {NAN, NAN}};
  double heads = NAN, lower = NAN;
};
PairedRow FindPaired(const StudyTable& table, const std::string& what,
                     const std::string& model, bool normalised, bool rpe,
                     const std::string& map, double f);

}  // namespace subquad
