// The bias of attention: a vector with an entry for each offset of a key from a
// query, or on an image a matrix with one for each pair of row and column
// offsets.
#pragma once

#include <cstdint>
#include <numeric>
#include <string>

#include "reference/base/image.h"
#include "reference/base/operator.h"
#include "reference/base/visible_keys.h"

namespace subquad {

// Returns the rule of `bias`: [n_q+n_k-1], of an image
// [2*height-1, 2*width-1], of packed sequences from the least to the largest
// offset j - i - query_offset of all of them. An entry of -inf hides its keys.
inline TensorRule BiasRule(const Params& params) {
  TensorRule bias{"bias", {"n_q+n_k-1"}, Role::kParameter};
  bias.offset_axes = {OffsetAxis::OfIndices(0, "n_q")};
  bias.may_be_minus_infinity = true;
  if (params.Has("height")) {
    bias.shape = {"2*height-1", "2*width-1"};
    bias.offset_axes = {{0, "1-height"}, {1, "1-width"}};
  } else if (params.Has("packed_q") && params.Has("packed_k")) {
    const auto sum = [&](const char* name) {
      const IntegerList& lengths = params.List(name);
      return std::accumulate(lengths.begin(), lengths.end(), int64_t{0});
    };
    const OffsetRange offsets =
        OffsetsOf(SequencesOf(params, sum("packed_q"), sum("packed_k")));
    bias.shape = {std::to_string(offsets.count())};
    bias.offset_axes = {{0, std::to_string(-offsets.before)}};
  }
  return bias;
}

// Finds the entry of a query and a key.
class OffsetBiasIndex {
 public:
  OffsetBiasIndex(const Problem& problem, const VisibleKeys& visible)
      : visible_(visible),
        of_indices_{problem.queries,
                    problem.params.Has("width") ? problem.Dim("width") : 0},
        is_packed_(problem.params.Has("packed_q")),
        before_(OffsetsOf(
                    SequencesOf(problem.params, problem.queries, problem.keys))
                    .before) {}

  int64_t Of(int64_t i, int64_t j) const {
    return is_packed_ ? visible_.Offset(i, j) + before_
                      : of_indices_.Index(i, j);
  }

 private:
  const VisibleKeys& visible_;
  const BiasByOffset of_indices_;
  const bool is_packed_;
  const int64_t before_;  // the largest distance behind a query, if packed
};

}  // namespace subquad
