// The keys that a query sees, and its position among them:
//   query_offset  p: query i is at position i + p, so that offsets are
//                 j - i - p. A vector by offset keeps its n_q + n_k - 1
//                 entries: entry t belongs to j - i = t - (n_q - 1) whatever p
//                 is. One token against a cache has n_q = 1, p = n_k - 1; a
//                 chunk of a prompt p = n_k - n_q.
//   key_lengths   one for each batch item: it sees keys j < key_lengths[b]
//                 only, the rest is padding
//   causal        query i sees j <= i + p only
// A query sees a prefix of the keys, and always at least one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reference/base/problem.h"

namespace subquad {

// Returns the rules of the parameters above; an image has no query_offset.
inline std::vector<ParamRule> VisibleKeysParams(bool image = false) {
  ParamRule offset =
      ParamRule::Integer("query_offset", "position of the first query", 0);
  offset.required = false;
  offset.default_value = "0";
  ParamRule lengths{"key_lengths", ParamType::kList,
                    "number of keys of each batch item; the rest is padding",
                    false};
  lengths.min = 1;
  if (image)
    return {ParamRule::Flag("causal", "pixel i sees pixels j <= i only"),
            lengths};
  return {
      ParamRule::Flag("causal", "query i sees keys j <= i + query_offset only"),
      offset, lengths};
}

inline int64_t QueryOffset(const Params& params) {
  return params.Has("query_offset") ? params.Integer("query_offset") : 0;
}

class VisibleKeys {
 public:
  explicit VisibleKeys(const Problem& problem)
      : keys_(problem.keys),
        heads_of_item_(problem.heads / problem.Batch()),
        causal_(problem.params.Flag("causal")),
        offset_(QueryOffset(problem.params)) {
    if (problem.params.Has("key_lengths"))
      lengths_ = problem.params.List("key_lengths");
  }

  int64_t offset() const { return offset_; }

  // Returns the number of keys of this head's batch item that are not padding.
  int64_t Length(int64_t head) const {
    return lengths_.empty() ? keys_ : lengths_[head / heads_of_item_];
  }

  // Returns how many keys query i sees: those with j < Count(head, i).
  int64_t Count(int64_t head, int64_t i) const {
    const int64_t length = Length(head);
    return causal_ ? std::min(i + offset_ + 1, length) : length;
  }

  bool Sees(int64_t head, int64_t i, int64_t j) const {
    return j < Count(head, i);
  }

 private:
  const int64_t keys_, heads_of_item_;
  const bool causal_;
  const int64_t offset_;
  IntegerList lengths_;  // empty: no padding
};

}  // namespace subquad
