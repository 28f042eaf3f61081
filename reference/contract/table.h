// Tables of implementations: one for each operator and backend.
#pragma once

#include <string_view>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

// Completes the rows of an operator's table on one backend. `scalars` apply to
// rows that name none of their own. Properties that are the same on both
// backends (source, time, memory, unsupported problems) are in table.cc and may
// be omitted.
std::vector<Implementation> CompleteTable(std::string_view op, Backend backend,
                                          const std::vector<Scalar>& scalars,
                                          std::vector<Implementation> rows);

}  // namespace subquad
