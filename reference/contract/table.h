// Tables of implementations: one for each operator and backend.
#pragma once

#include <string_view>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

// The rows of an operator's table on one backend. `scalars` are those of rows
// that name none of their own. What is the same on both backends (source, time,
// memory, what the algorithm cannot do) is in table.cc and may be left out.
std::vector<Implementation> CompleteTable(std::string_view op, Backend backend,
                                          const std::vector<Scalar>& scalars,
                                          std::vector<Implementation> rows);

}  // namespace subquad
