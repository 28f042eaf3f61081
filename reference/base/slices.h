// The leading axes of a tensor: batch items and heads. A tensor is [..], [h,
// ..] or [b, h, ..]. The rest of its axes form a slice; heads and batch items
// may share a slice, which is then read in place.
#pragma once

#include <cstdint>
#include <vector>

namespace subquad {

// Maps each head of a problem to the slice of a tensor that it reads. The heads
// of all batch items are numbered consecutively: head a of item b is b * heads
// + a.
class Slices {
 public:
  Slices() = default;

  // Maps a problem of `batch` items with `heads` heads each to a tensor with
  // `tensor_batch` items (1 or batch) of `tensor_heads` heads (a divisor of
  // heads): head a reads the tensor's head floor(a * tensor_heads / heads).
  Slices(int64_t batch, int64_t heads, int64_t tensor_batch,
         int64_t tensor_heads)
      : count_(tensor_batch * tensor_heads),
        readers_(batch * heads),
        heads_(heads),
        group_(heads / tensor_heads),
        next_item_(tensor_batch > 1 ? tensor_heads : 0) {}

  int64_t count() const { return count_; }
  constexpr int64_t Of(int64_t head) const {
    return head / heads_ * next_item_ + head % heads_ / group_;
  }

  // True if there is one slice for each head or one for all of them, so that
  // Of(head) is head * step.
  bool IsEvenlySpaced() const { return count_ == 1 || count_ == readers_; }
  int64_t Step() const { return count_ == 1 ? 0 : 1; }

  // True if no earlier head reads the slice of this one.
  bool IsFirst(int64_t head) const {
    return (head < heads_ || next_item_ > 0) && head % heads_ % group_ == 0;
  }

  // Lists the heads that read a slice, in ascending order.
  std::vector<int64_t> Readers(int64_t slice) const {
    std::vector<int64_t> heads;
    for (int64_t head = 0; head < readers_; ++head)
      if (Of(head) == slice) heads.push_back(head);
    return heads;
  }

 private:
  int64_t count_ = 1;
  int64_t readers_ = 1;  // heads of the problem
  int64_t heads_ = 1;    // heads of a batch item
  int64_t group_ = 1;    // heads that share a slice of an item
  int64_t next_item_ = 0;
};

}  // namespace subquad
