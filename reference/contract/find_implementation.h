// Looks up implementations in a table by their ids.
#pragma once

#include <string>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

// Returns the row with this id; throws InvalidInput that lists the table's ids.
inline const Implementation& FindImplementation(
    const std::vector<Implementation>& table, const std::string& id) {
  std::vector<std::string> ids;
  for (const Implementation& implementation : table) {
    if (implementation.id == id) return implementation;
    ids.push_back(implementation.id);
  }
  throw UnknownName("implementation", ids, id);
}

}  // namespace subquad
