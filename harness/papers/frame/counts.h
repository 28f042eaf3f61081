// Numbers of operations, counted while an algorithm runs (counted.h), against a
// growth that is claimed.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/judging/operator_run.h"
#include "harness/papers/frame/counted.h"
#include "harness/papers/frame/finding.h"

namespace subquad {

struct Counts {
  std::vector<double> sizes, operations;
};

inline Row<Counted> Counting(const Numbers& numbers) {
  return {numbers.begin(), numbers.end()};
}

double LargestDifference(const Row<Counted>& a, const Row<Counted>& b);

// Operations of `run` for each size.
template <typename Run>
Counts CountEach(const std::vector<int64_t>& sizes, Run run) {
  Counts counts;
  for (int64_t size : sizes) {
    Counted::Reset();
    run(size);
    counts.sizes.push_back(static_cast<double>(size));
    counts.operations.push_back(static_cast<double>(Counted::operations()));
  }
  return counts;
}

// A growth, and its formula in {0}.
struct Theory {
  std::string text;
  double (*of)(double n);
};
extern const Theory kLinearGrowth, kNLogN, kSquare;

// Whether operations over theory stay within a factor of 1.25 from the first
// size to the last, which are at least 8 times apart: enough to tell n^1.45
// from n log n, and n log n from n.
struct Growth {
  bool known = false;  // false where a count is missing or none
  bool holds = false;
  std::string text;  // "35.4 n log2 n operations at n = 256 and 33.1 at 16384"
};
Growth JudgeGrowth(Finding& finding, const std::string& what,
                   const std::string& symbol, const Counts& counts,
                   const Theory& theory);

// The same where nothing is judged by it.
Growth MentionGrowth(Finding& finding, const std::string& what,
                     const std::string& symbol, const Counts& counts,
                     const Theory& theory);

// One Toeplitz product of one column by transforms.
double TransformOperations(int64_t n);

}  // namespace subquad
