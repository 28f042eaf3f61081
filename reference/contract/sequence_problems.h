// Packed sequences as problems of their own, for algorithms that run one after
// another, and their bounds. A problem that is not packed is its own only one.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

struct SequenceProblem {
  Problem problem;  // not packed; its tensors are parts of the whole ones
  int64_t first_query = 0, first_key = 0;
  int64_t first_bias = 0;  // of a vector by offset
};

// Lists the sequences that have queries and keys; other queries see nothing.
std::vector<SequenceProblem> SequenceProblemsOf(const Problem& whole);

// Returns the bounds of an algorithm that runs sequences one after another.
// Where `bound` returns nothing, the plain program's bound holds.
RowBound BoundBySequence(const Problem& problem, const Inputs& inputs,
                         RowBound (*bound)(const Problem&, const Inputs&));

}  // namespace subquad
