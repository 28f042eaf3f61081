// The plain program's sums over many keys, in parts.
//
// In float32 a sum of 65536 positive terms has grown so large that small terms
// no longer change it: its error is a loss, not the luck of roundings, and as
// the yardstick of other programs it would take for right what is 1.001 times
// the answer. Matrix products and tiles add up parts. So does this, from 4096
// terms on; a shorter sum has one part and is the same number.
#pragma once

#include <cstddef>
#include <vector>

namespace subquad {

// `count` sums side by side. Each term of a sum is added by Add; Next goes on
// to the next term of all of them.
template <typename Real>
class LongSums {
 public:
  static constexpr size_t kTermsOfAPart = 4096;

  explicit LongSums(size_t count) : part_(count), total_(count) {}

  void Add(size_t sum, Real term) { part_[sum] += term; }

  // weight row[x] to the first sums.
  template <typename Number>
  void AddRow(Real weight, const Number* row, size_t width) {
    for (size_t x = 0; x < width; ++x)
      part_[x] += weight * static_cast<Real>(row[x]);
  }

  void Next() {
    if (++terms_ < kTermsOfAPart) return;
    for (size_t sum = 0; sum < part_.size(); ++sum) {
      total_[sum] += part_[sum];
      part_[sum] = 0;
    }
    terms_ = 0;
  }

  Real Total(size_t sum) const { return total_[sum] + part_[sum]; }

 private:
  std::vector<Real> part_, total_;
  size_t terms_ = 0;
};

}  // namespace subquad
