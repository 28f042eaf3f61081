// Helpers for tests of an operator's properties with any number of
// implementations: none is skipped silently, and those too slow at a large size
// are left out.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "harness/judging/operator_run.h"

namespace subquad {

inline bool HasPrograms(const OperatorRun& run,
                        std::initializer_list<std::string_view> wanted) {
  const std::vector<std::string> programs = run.Programs();
  return std::ranges::all_of(wanted, [&](std::string_view id) {
    return std::ranges::count(programs, id) > 0;
  });
}

// Returns the implementations for this problem except `dense` and those that
// would take seconds in plain loops, by their own count of operations.
inline std::vector<std::string> FastPrograms(const OperatorRun& run,
                                             Scalar scalar = Scalar::kFloat64) {
  const Problem problem = run.Resolve(scalar);
  std::vector<std::string> fast;
  for (const Implementation* implementation : CpuImplementations(problem))
    if (implementation->id != "dense" &&
        implementation->CostOf(problem, 1).flops <= 4e9)
      fast.push_back(implementation->id);
  return fast;
}

}  // namespace subquad
