// The blocks of queries and keys of sparse patterns.
#pragma once

#include <cstdint>

#include "reference/base/params.h"

namespace subquad {

struct BlockSizes {
  int64_t queries = 1, keys = 1;
};

// Returns the parameter `block`: one number for both, or one for each. Throws
// InvalidInput for a list of another length.
inline BlockSizes BlockSizesOf(const Params& params) {
  if (!params.Has("block")) return {};
  const ParamValue& block = params.values().at("block");
  const IntegerList* list = std::get_if<IntegerList>(&block);
  if (!list) return {params.Integer("block"), params.Integer("block")};
  if (list->size() != 2)
    throw InvalidInput("parameter block",
                       "an integer, or two: of queries and of keys",
                       ToString(block));
  return {list->front(), list->back()};
}

}  // namespace subquad
