// The plain program's sums over many keys, in parts.
//
// In float32 a sum of 65536 positive terms has grown so large that small terms
// no longer change it. Its error is then a systematic loss rather than
// rounding; as the baseline for other implementations it would accept answers
// that are wrong by a factor of 1.001. Matrix products and tiles add up parts,
// so the plain program does so too for sums of more than 4096 terms. A shorter
// sum has one part and does not change.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "reference/base/functions.h"

namespace subquad {

// Holds `count` sums side by side. Add adds one term to one sum; Next moves on
// to the next term of all sums.
template <typename Real>
class LongSums {
 public:
  static constexpr size_t kTermsOfAPart = 4096;

  explicit LongSums(size_t count) : part_(count), total_(count) {}

  void Add(size_t sum, Real term) { part_[sum] += term; }

  // Adds weight * row[x] to sum x.
  template <typename Number>
  void AddRow(Real weight, const Number* row, size_t width) {
    AddScaledRow(part_.data(), weight, row, static_cast<int64_t>(width));
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
