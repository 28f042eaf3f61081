// The keys that a query sees, and its position among them:
//   query_offset  p: query i is at position i + p, so that offsets are
//                 j - i - p. A vector by offset keeps its n_q + n_k - 1
//                 entries: entry t belongs to j - i = t - (n_q - 1) whatever p
//                 is. One token against a cache has n_q = 1, p = n_k - 1; a
//                 chunk of a prompt p = n_k - n_q.
//   key_lengths   one for each batch item: it sees keys j < key_lengths[b]
//                 only, the rest is padding
//   causal        query i sees j <= i + p only
//   window_left,  query i sees keys from i + p - window_left to i + p +
//   window_right  window_right only
// A query sees consecutive keys, without a window from the first one on. If it
// sees none, sums over keys are empty: they are zero, and so are their quotient
// and what the query adds to any gradient.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reference/base/problem.h"

namespace subquad {

// What an operator takes of the parameters above besides causal and
// key_lengths.
struct VisibleKeysRules {
  bool query_offset = true;
  int64_t least_offset = 0;
  bool windows = false;
};

inline std::vector<ParamRule> VisibleKeysParams(
    const VisibleKeysRules& takes = {}) {
  ParamRule offset = ParamRule::Integer(
      "query_offset", "position of the first query", takes.least_offset);
  offset.required = false;
  offset.default_value = "0";
  ParamRule lengths{"key_lengths", ParamType::kList,
                    "number of keys of each batch item; the rest is padding",
                    false};
  lengths.min = 0;
  if (!takes.query_offset)
    return {ParamRule::Flag("causal", "pixel i sees pixels j <= i only"),
            lengths};
  std::vector<ParamRule> rules = {
      ParamRule::Flag("causal", "query i sees keys j <= i + query_offset only"),
      offset, lengths};
  if (takes.windows) {
    rules.push_back(ParamRule::Window(
        "window_left",
        "keys before a query's own position that it sees: w - 1 for a window "
        "of w tokens that counts the query itself"));
    rules.push_back(ParamRule::Window(
        "window_right", "keys after a query's own position that it sees"));
  }
  return rules;
}

inline int64_t QueryOffset(const Params& params) {
  return params.Has("query_offset") ? params.Integer("query_offset") : 0;
}

class VisibleKeys {
 public:
  explicit VisibleKeys(const Problem& problem)
      : keys_(problem.keys),
        heads_of_item_(problem.heads / problem.Batch()),
        behind_(Window(problem.params, "window_left")),
        ahead_(problem.params.Flag("causal")
                   ? 0
                   : Window(problem.params, "window_right")),
        offset_(QueryOffset(problem.params)) {
    if (problem.params.Has("key_lengths"))
      lengths_ = problem.params.List("key_lengths");
  }

  int64_t offset() const { return offset_; }

  // Returns the number of keys of this head's batch item that are not padding.
  int64_t Length(int64_t head) const {
    return lengths_.empty() ? keys_ : lengths_[head / heads_of_item_];
  }

  // Query i sees the keys First(head, i) <= j < End(head, i).
  int64_t First(int64_t head, int64_t i) const {
    return std::clamp<int64_t>(i + offset_ - behind_, 0, End(head, i));
  }
  int64_t End(int64_t head, int64_t i) const {
    return std::clamp<int64_t>(i + offset_ + ahead_ + 1, 0, Length(head));
  }

  bool Sees(int64_t head, int64_t i, int64_t j) const {
    return j >= First(head, i) && j < End(head, i);
  }

 private:
  // Larger than every position, and so small that sums of a few do not
  // overflow.
  static constexpr int64_t kUnlimited = int64_t{1} << 40;

  static int64_t Window(const Params& params, const std::string& name) {
    return params.Has(name) ? params.Integer(name) : kUnlimited;
  }

  const int64_t keys_, heads_of_item_;
  const int64_t behind_, ahead_;  // of a query's own position
  const int64_t offset_;
  IntegerList lengths_;  // empty: no padding
};

}  // namespace subquad
