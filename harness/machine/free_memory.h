// Refuses problems that do not fit into memory, before anything is allocated.
#pragma once

#include <string>

#include "reference/base/problem.h"

namespace subquad {

// Throws InvalidInput about `subject` if the generated tensors of a problem,
// which exist in its scalar type and in double, are larger than the free
// memory.
void CheckFitsMemory(const std::string& subject, const Problem& problem);

}  // namespace subquad
