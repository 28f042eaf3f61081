// The parameter max_distance of T5's buckets of distances.
#pragma once

#include <cstdint>

#include "reference/base/params.h"

namespace subquad {

inline constexpr int64_t kDefaultMaxDistance = 128;

// Returns the distance from which on all keys of one direction share a bucket.
inline int64_t MaxDistanceOf(const Params& params) {
  return params.Has("max_distance") ? params.Integer("max_distance")
                                    : kDefaultMaxDistance;
}

}  // namespace subquad
