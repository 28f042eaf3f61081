// The gradient of a tensor that several heads may share: the sum over those
// heads. Each head writes its own part, which is the output itself if heads
// share nothing.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/base/thread_pool.h"
#include "reference/contract/implementation.h"

namespace subquad {

template <typename T>
class SharedGradient {
 public:
  SharedGradient(Layout& layout, const Arrays& arrays, const std::string& name,
                 int64_t heads)
      : name_(name),
        arrays_(arrays),
        size_(arrays.Out<T>(name).slice_size),
        is_shared_(arrays.Out<T>(name).slices.count() < heads),
        parts_(layout, is_shared_ ? heads * size_ : 0) {}

  // Returns the memory of this head's part.
  T* Head(int64_t head) const {
    return is_shared_ ? parts_.data() + head * size_
                      : arrays_.Out<T>(name_).Head(head);
  }

  // Adds up the parts, in the order of heads for any number of threads.
  void AddUp(ThreadPool& pool) const {
    if (!is_shared_) return;
    const HeadArray<T> out = arrays_.Out<T>(name_);
    for (int64_t slice = 0; slice < out.slices.count(); ++slice) {
      const std::vector<int64_t> readers = out.slices.Readers(slice);
      constexpr int64_t kPiece = 1 << 14;
      pool.For((size_ + kPiece - 1) / kPiece, [&](int64_t piece, int) {
        const int64_t first = piece * kPiece;
        const int64_t count = std::min(kPiece, size_ - first);
        T* to = out.Slice(slice) + first;
        std::copy_n(Head(readers.front()) + first, count, to);
        for (size_t r = 1; r < readers.size(); ++r) {
          const T* part = Head(readers[r]) + first;
          for (int64_t x = 0; x < count; ++x) to[x] += part[x];
        }
      });
    }
  }

 private:
  const std::string name_;
  const Arrays arrays_;
  const int64_t size_;
  const bool is_shared_;
  Buffer<T> parts_;
};

}  // namespace subquad
