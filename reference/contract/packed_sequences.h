// Sequences that are stored one after another (parameters packed_q, packed_k),
// for implementations. A problem that is not packed has one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "reference/contract/seen_keys.h"

namespace subquad {

struct PackedSequence {
  int64_t first_query = 0, queries = 0;
  int64_t first_key = 0, keys = 0;
  SeenKeys seen;  // by indices within the sequence
};

class PackedSequences {
 public:
  explicit PackedSequences(const Problem& problem) {
    const Params& params = problem.params;
    if (!params.Has("packed_q")) {
      all_.push_back({0, problem.queries, 0, problem.keys, SeenKeys(problem)});
    } else {
      const IntegerList& queries = params.List("packed_q");
      const IntegerList& keys = params.List("packed_k");
      int64_t query = 0, key = 0;
      for (size_t s = 0; s < queries.size(); ++s) {
        all_.push_back(
            {query, queries[s], key, keys[s],
             SeenKeys(problem, queries[s], keys[s], FirstPosition(params, s))});
        query += queries[s];
        key += keys[s];
      }
    }
    for (const PackedSequence& one : all_) {
      before_ = std::max(before_, one.queries - 1 + one.seen.first());
      after_ = std::max(after_, one.keys - 1 - one.seen.first());
    }
  }

  const std::vector<PackedSequence>& all() const { return all_; }

  // Returns the entries of a vector by offset.
  int64_t Offsets() const { return before_ + after_ + 1; }
  // Returns the entry of a vector by offset for query i and key 0 of a
  // sequence.
  int64_t Entry(const PackedSequence& one, int64_t i) const {
    return before_ - one.seen.first() - i;
  }
  // Returns the entry of offset zero.
  int64_t before() const { return before_; }

 private:
  static int64_t FirstPosition(const Params& params, size_t sequence) {
    if (!params.Has("query_offset")) return 0;
    const ParamValue& offset = params.values().at("query_offset");
    if (const IntegerList* list = std::get_if<IntegerList>(&offset))
      return (*list)[sequence];
    return std::get<int64_t>(offset);
  }

  std::vector<PackedSequence> all_;
  int64_t before_ = -kMaxInteger, after_ = -kMaxInteger;
};

}  // namespace subquad
