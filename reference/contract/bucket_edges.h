// Computes where T5's buckets of distances begin, for implementations: by
// integers, in another way than the definition.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/base/max_distance.h"
#include "reference/base/problem.h"

namespace subquad {

class BucketEdges {
 public:
  // Reads the parameters of a problem that has the input buckets.
  explicit BucketEdges(const Problem& problem)
      : bidirectional_(problem.params.Flag("bidirectional")) {
    const int64_t count = problem.Dim("B") / (bidirectional_ ? 2 : 1);
    const int64_t exact = count / 2;
    const int64_t most = MaxDistanceOf(problem.params);
    for (int64_t bucket = 0; bucket < count; ++bucket)
      first_.push_back(
          bucket <= exact
              ? bucket
              : FirstBeyond(bucket - exact, count - exact, exact, most));
  }

  // Returns the buckets of keys `first`, first + 1, .. after their query.
  std::vector<int64_t> From(int64_t first, int64_t count) const {
    std::vector<int64_t> buckets;
    for (int64_t offset = first; offset < first + count; ++offset) {
      const bool after = offset > 0;
      const int64_t distance = after ? (bidirectional_ ? offset : 0) : -offset;
      const int64_t bucket =
          std::upper_bound(first_.begin(), first_.end(), distance) -
          first_.begin() - 1;
      buckets.push_back(bucket +
                        (after && bidirectional_ ? std::ssize(first_) : 0));
    }
    return buckets;
  }

 private:
  // Returns the least distance m with (m / exact)^buckets >= (most /
  // exact)^steps.
  static int64_t FirstBeyond(int64_t steps, int64_t buckets, int64_t exact,
                             int64_t most) {
    const double share =
        static_cast<double>(steps) / static_cast<double>(buckets);
    const double start = static_cast<double>(exact);
    const double edge =
        start * std::pow(static_cast<double>(most) / start, share);
    // An edge that is an integer may be computed with a few roundings.
    const double nearest = std::round(edge);
    return static_cast<int64_t>(
        std::abs(edge - nearest) <= 1e-13 * edge ? nearest : std::ceil(edge));
  }

  const bool bidirectional_;
  std::vector<int64_t> first_;  // the least distance of each bucket
};

}  // namespace subquad
