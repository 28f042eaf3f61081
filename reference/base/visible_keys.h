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
//   packed_q,     the lengths of sequences that are stored one after another: a
//   packed_k      query sees keys of its own sequence only. i and j then count
//                 from the start of the sequence, and query_offset may have an
//                 entry for each. A vector by offset has entries from the least
//                 to the largest j - i - p of all sequences.
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
// key_lengths, and whether it has a bias by offset.
struct VisibleKeysRules {
  bool query_offset = true;
  int64_t least_offset = 0;
  bool windows = false;
  bool packed = false;
  bool bias = true;
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
  if (takes.packed) {
    rules[1].may_be_list = true;
    rules[1].meaning += "; of packed sequences, one for all or one for each";
    for (const char* name : {"packed_q", "packed_k"}) {
      ParamRule packed{name, ParamType::kList,
                       name == std::string("packed_q")
                           ? "queries of each sequence, stored one after "
                             "another; a query sees keys of its own sequence"
                           : "keys of each sequence, beside packed_q",
                       false, 0};
      rules.push_back(std::move(packed));
    }
    if (takes.bias)
      rules.back().meaning +=
          "; a bias by offset then has an entry for each j - i - query_offset "
          "of all sequences";
  }
  return rules;
}

// Returns the position of the first query of every sequence; 0 if each has a
// position of its own.
inline int64_t QueryOffset(const Params& params) {
  if (!params.Has("query_offset")) return 0;
  const ParamValue& offset = params.values().at("query_offset");
  const int64_t* for_all = std::get_if<int64_t>(&offset);
  return for_all ? *for_all : 0;
}

// A sequence of queries and keys. Without packing, a problem has one.
struct Sequence {
  int64_t first_query = 0, queries = 0;
  int64_t first_key = 0, keys = 0;
  int64_t offset = 0;  // position of the first query among these keys
};

// Lists the sequences of a problem with this many queries and keys. Throws
// InvalidInput if the parameters do not fit each other.
std::vector<Sequence> SequencesOf(const Params& params, int64_t queries,
                                  int64_t keys);

// The offsets j - i - p of all sequences lie between -before and after.
struct OffsetRange {
  int64_t before = 0, after = 0;

  int64_t count() const { return before + after + 1; }
};
OffsetRange OffsetsOf(const std::vector<Sequence>& sequences);

class VisibleKeys {
 public:
  explicit VisibleKeys(const Problem& problem)
      : keys_(problem.keys),
        heads_of_item_(problem.heads / problem.Batch()),
        behind_(Window(problem.params, "window_left")),
        ahead_(problem.params.Flag("causal")
                   ? 0
                   : Window(problem.params, "window_right")),
        sequences_(SequencesOf(problem.params, problem.queries, problem.keys)) {
    if (problem.params.Has("key_lengths"))
      lengths_ = problem.params.List("key_lengths");
  }

  // Returns the offset of key j from the position of query i of its sequence.
  int64_t Offset(int64_t i, int64_t j) const {
    const Sequence& own = SequenceOf(i);
    return j - own.first_key - (i - own.first_query) - own.offset;
  }

  // Returns the number of keys of this head's batch item that are not padding.
  int64_t Length(int64_t head) const {
    return lengths_.empty() ? keys_ : lengths_[head / heads_of_item_];
  }

  const std::vector<Sequence>& sequences() const { return sequences_; }
  // Returns the index of the sequence that query i belongs to.
  size_t SequenceIndex(int64_t i) const {
    const auto next =
        std::ranges::upper_bound(sequences_, i, {}, &Sequence::first_query);
    return static_cast<size_t>(next - sequences_.begin()) - 1;
  }

  // Query i sees the keys First(head, i) <= j < End(head, i).
  int64_t First(int64_t head, int64_t i) const {
    const Sequence& own = SequenceOf(i);
    return std::clamp(own.first_key + Position(own, i) - behind_, own.first_key,
                      End(head, i));
  }
  int64_t End(int64_t head, int64_t i) const {
    const Sequence& own = SequenceOf(i);
    const int64_t keys = sequences_.size() > 1 ? own.keys : Length(head);
    return own.first_key +
           std::clamp<int64_t>(Position(own, i) + ahead_ + 1, 0, keys);
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

  static int64_t Position(const Sequence& own, int64_t i) {
    return i - own.first_query + own.offset;
  }

  const Sequence& SequenceOf(int64_t i) const {
    return sequences_[SequenceIndex(i)];
  }

  const int64_t keys_, heads_of_item_;
  const int64_t behind_, ahead_;  // of a query's own position
  const std::vector<Sequence> sequences_;
  IntegerList lengths_;  // empty: no padding
};

}  // namespace subquad
