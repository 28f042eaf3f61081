// The keys that the queries of a head see, for implementations on any device:
// always consecutive, and without a window a prefix (parameters causal,
// query_offset, key_lengths, window_left, window_right).
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/contract/implementation.h"

namespace subquad {

class SeenKeys {
 public:
  explicit SeenKeys(const Problem& problem)
      : queries_(problem.queries),
        keys_(problem.keys),
        heads_(problem.heads / problem.Batch()),
        causal_(problem.params.Flag("causal")) {
    const Params& params = problem.params;
    if (params.Has("query_offset")) first_ = params.Integer("query_offset");
    SetWindow(params);
    if (params.Has("key_lengths")) lengths_ = params.List("key_lengths");
  }

  // The keys of one of several sequences; indices and positions are those
  // within the sequence.
  SeenKeys(const Problem& problem, int64_t queries, int64_t keys, int64_t first)
      : queries_(queries),
        keys_(keys),
        heads_(problem.heads),
        causal_(problem.params.Flag("causal")),
        first_(first) {
    SetWindow(problem.params);
  }

  bool causal() const { return causal_; }
  // Returns the position of query 0 among the keys.
  int64_t first() const { return first_; }
  // True if some key before, or after, those that a query sees may be seen by
  // another one.
  bool LimitsBehind() const { return behind_ < kUnlimited; }
  bool LimitsAhead() const { return ahead_ < kUnlimited; }
  // Returns the first and the last key that query 0 may see, which may not
  // exist. Query i may see those i further on.
  int64_t FirstOfZero() const { return first_ - behind_; }
  int64_t LastOfZero() const { return first_ + ahead_; }

  // Returns the number of keys of a head without its padding.
  int64_t Of(int64_t head) const {
    return lengths_.empty() ? keys_ : lengths_[head / heads_];
  }
  // Returns the number of keys that some query before `end` sees.
  int64_t Before(int64_t head, int64_t end) const {
    return std::clamp<int64_t>(LastOfZero() + end, 0, Of(head));
  }
  int64_t By(int64_t head, int64_t i) const { return Before(head, i + 1); }
  // Returns the first key that query i or a later one sees, and at most the
  // number of keys that it sees or that are before those.
  int64_t From(int64_t head, int64_t i) const {
    return std::clamp<int64_t>(FirstOfZero() + i, 0, By(head, i));
  }

  // Returns how many entries of a vector by offset, j - i + n_q - 1, the mask
  // leaves visible; they are a prefix.
  int64_t Offsets() const {
    const int64_t last = causal_ ? std::min(first_, keys_ - 1) : keys_ - 1;
    return std::max<int64_t>(0, queries_ + last);
  }

 private:
  // Larger than every position, and so small that sums of a few do not
  // overflow.
  static constexpr int64_t kUnlimited = int64_t{1} << 40;

  void SetWindow(const Params& params) {
    if (params.Has("window_left")) behind_ = params.Integer("window_left");
    if (params.Has("window_right")) ahead_ = params.Integer("window_right");
    if (causal_) ahead_ = 0;
  }

  int64_t queries_, keys_, heads_;
  bool causal_;
  int64_t first_ = 0;
  int64_t behind_ = kUnlimited, ahead_ = kUnlimited;  // of a query's position
  IntegerList lengths_;  // by batch item; empty: no padding
};

}  // namespace subquad
