// The work of sparse attention in blocks, planned from the parameters.
#pragma once

#include <vector>

#include "reference/contract/sparse_attention.h"

namespace subquad::device {

// A part of the keys of up to 64 queries that process their keys together.
struct SparseJob {
  int first_query, queries;  // in SparsePlan::queries
  int first_key, keys;       // in SparsePlan::keys
  int part;                  // place of its partial sums; -1: none
};

// Queries whose keys are split among several jobs.
struct SparseSplit {
  int first_query, queries;
  int first_part, parts;
};

// Groups of queries that see nearly the same keys, each with all keys that one
// of its queries sees: the kernel masks the other pairs. Queries that see many
// keys are split, so that none of them runs alone at the end.
struct SparsePlan {
  explicit SparsePlan(const SparseKeys& visible);

  std::vector<int> queries;     // positions, group after group
  std::vector<int> keys;        // positions, ascending in each group
  std::vector<SparseJob> jobs;  // the longest first
  std::vector<SparseSplit> splits;
  int parts = 0;

  double Pairs() const;  // of queries and keys, including masked ones
};

// The keys first, first + step, .. of a query that are numbered begin to end.
struct alignas(16) SparseRun {
  int first, step, begin, end;
};

// The keys of each query separately: query i has the runs from begin[i] on and
// before begin[i + 1].
struct SparseRuns {
  explicit SparseRuns(const SparseKeys& visible);

  std::vector<int> begin;
  std::vector<SparseRun> runs;
};

}  // namespace subquad::device
