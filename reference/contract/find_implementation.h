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
  for (const Implementation& one : table) {
    if (one.id == id) return one;
    ids.push_back(one.id);
  }
  throw UnknownName("implementation", ids, id);
}

}  // namespace subquad
