// Sums over all columns, for the gradient of the weights.
#pragma once

#include <algorithm>

#include "optimized/base/buffer.h"
#include "optimized/base/thread_pool.h"

namespace subquad {

// Adds up in a fixed number of partial sums, each over a fixed set of columns,
// so that threads do not change the order of additions.
template <typename T>
class GradientSums {
 public:
  // Sums of `size` elements; allocates nothing unless `needed`.
  GradientSums(Layout& layout, int64_t size, bool needed)
      : size_(size), sums_(layout, needed ? kSums * size : 0, OnLine{}) {}

  // Returns the sum of everything that add(task, sum, worker) adds to the
  // [size] elements at `sum` for each task.
  template <typename Add>
  T* Run(ThreadPool& pool, int64_t tasks, const Add& add) {
    T* const sums = sums_.data();
    std::fill_n(sums, kSums * size_, T{0});
    pool.For(kSums, [&](int64_t slot, int worker) {
      for (int64_t task = slot; task < tasks; task += kSums)
        add(task, sums + slot * size_, worker);
    });
    for (int64_t slot = 1; slot < kSums; ++slot)
      for (int64_t k = 0; k < size_; ++k) sums[k] += sums[slot * size_ + k];
    return sums;
  }

 private:
  static constexpr int64_t kSums = 4;

  const int64_t size_;
  Buffer<T> sums_;
};

}  // namespace subquad
