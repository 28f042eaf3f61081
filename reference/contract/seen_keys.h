// The keys that the queries of a head see, for implementations on any device:
// always a prefix (parameters causal, query_offset, key_lengths).
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
    if (problem.params.Has("query_offset"))
      first_ = problem.params.Integer("query_offset");
    if (problem.params.Has("key_lengths"))
      lengths_ = problem.params.List("key_lengths");
  }

  bool causal() const { return causal_; }
  // Returns the position of query 0 among the keys.
  int64_t first() const { return first_; }

  // Returns the number of keys of a head without its padding.
  int64_t Of(int64_t head) const {
    return lengths_.empty() ? keys_ : lengths_[head / heads_];
  }
  // Returns the number of keys that some query before `end` sees.
  int64_t Before(int64_t head, int64_t end) const {
    return causal_ ? std::min(first_ + end, Of(head)) : Of(head);
  }
  int64_t By(int64_t head, int64_t i) const { return Before(head, i + 1); }

  // Returns how many entries of a vector by offset, j - i + n_q - 1, the mask
  // leaves visible; they are a prefix.
  int64_t Offsets() const {
    return queries_ + (causal_ ? std::min(first_, keys_ - 1) : keys_ - 1);
  }

 private:
  int64_t queries_, keys_, heads_;
  bool causal_;
  int64_t first_ = 0;
  IntegerList lengths_;  // by batch item; empty: no padding
};

}  // namespace subquad
