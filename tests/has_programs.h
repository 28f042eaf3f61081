// For tests of an operator's properties: that none of its programs is skipped
// in silence, whichever are added.
#pragma once

#include <algorithm>
#include <initializer_list>
#include <string_view>

#include "harness/judging/operator_run.h"

namespace subquad {

inline bool HasPrograms(const OperatorRun& run,
                        std::initializer_list<std::string_view> wanted) {
  const std::vector<std::string> programs = run.Programs();
  return std::ranges::all_of(wanted, [&](std::string_view id) {
    return std::ranges::count(programs, id) > 0;
  });
}

}  // namespace subquad
