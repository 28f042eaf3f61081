// The places of pairs in a tensor with an entry for each query and key, [n_q,
// n_k], of which all queries or all keys may share one. For implementations;
// the definitions find them in another way.
#pragma once

#include <cstdint>
#include <string>

#include "reference/base/problem.h"

namespace subquad {

struct PairPlaces {
  // Returns those of an input, or of the gradient of an input.
  static PairPlaces Of(const Problem& problem, const std::string& input) {
    const Shape shape =
        problem.InputShape(static_cast<size_t>(problem.InputIndex(input)));
    const int64_t queries = shape[shape.size() - 2], keys = shape.back();
    return {queries > 1 ? keys : 0, keys > 1 ? 1 : 0};
  }

  // Returns the place of query i and key j in a slice.
  int64_t At(int64_t i, int64_t j) const { return i * query + j * key; }

  int64_t query = 0, key = 0;  // from one to the next; 0: all share one entry
};

}  // namespace subquad
