// Our programs against our definitions: what a claim that holds by construction
// says of this project.
#pragma once

#include <string>
#include <vector>

#include "harness/judging/operator_run.h"
#include "harness/papers/frame/finding.h"

namespace subquad {

// Rows, features and channels of the tensors that such claims are tried on.
inline constexpr int64_t kTriedN = 48, kTriedD = 6, kTriedE = 5;
inline constexpr double kTriedRounding = 1e-11;

// An operator with q, k [kTriedN, kTriedD] and v [kTriedN, kTriedE].
OperatorRun TriedAttention(const std::string& op);

// The largest difference of the programs, in float64, from the definition in
// long double, relative to the definition's largest number. Programs that this
// build lacks are left out.
void AddPrograms(Finding& finding, const OperatorRun& run,
                 const std::string& what,
                 const std::vector<std::string>& programs);

}  // namespace subquad
