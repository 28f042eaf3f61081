// T5's buckets of distances between queries and keys: one for each of the first
// distances, then of widths that grow like the distance, up to `max_distance`,
// beyond which all distances share the last one.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>

namespace subquad {

class DistanceBuckets {
 public:
  // With `bidirectional`, half of the buckets are for keys after the query;
  // without, these are in bucket 0.
  DistanceBuckets(int64_t buckets, int64_t max_distance, bool bidirectional)
      : bidirectional_(bidirectional),
        count_(bidirectional ? buckets / 2 : buckets),
        exact_(count_ / 2),
        max_distance_(max_distance) {}

  // Returns how many of the first distances have a bucket of their own, in each
  // direction.
  int64_t exact() const { return exact_; }

  // Returns the bucket of a key that is `offset` after its query.
  int64_t Of(int64_t offset) const {
    const int64_t distance =
        bidirectional_ ? std::abs(offset) : std::max<int64_t>(-offset, 0);
    const int64_t bucket = distance < exact_ ? distance : Beyond(distance);
    return bidirectional_ && offset > 0 ? bucket + count_ : bucket;
  }

 private:
  int64_t Beyond(int64_t distance) const {
    // A quotient that is an integer may be computed too small. Others differ
    // from every integer by more than this for the distances of any sequence
    // that fits into memory, as far as such numbers are spread at random.
    constexpr long double kRounding = 1e-14L;
    const auto log_of = [&](int64_t x) {
      return std::log(static_cast<long double>(x) / exact_);
    };
    const long double place =
        log_of(distance) / log_of(max_distance_) * (count_ - exact_);
    return std::min(count_ - 1,
                    exact_ + static_cast<int64_t>(place + kRounding));
  }

  const bool bidirectional_;
  const int64_t count_, exact_;  // in one direction
  const int64_t max_distance_;
};

}  // namespace subquad
