// The table at the end of `subquad verify`: counts of verdicts for each
// implementation and scalar type.
#pragma once

#include <map>
#include <string>

#include "harness/judging/verdict.h"
#include "harness/registry/registry.h"

namespace subquad {

struct Tally {
  int64_t passed = 0, failed = 0, mistrusted = 0, skipped = 0, findings = 0;
  double over_bound = 0, over_plain = 0;
  Margin least;  // the smallest margin of a verdict that passed

  void Add(const Verdict& verdict);
};

class TallyTable {
 public:
  void Add(const Implementation& implementation, Scalar scalar,
           const Verdict& verdict);
  bool empty() const { return rows_.empty(); }
  const Tally& total() const { return total_; }

  // Prints a line for each row, in the order of the registry, and the total.
  void Print() const;

 private:
  std::map<const Implementation*, std::map<Scalar, Tally>> rows_;
  Tally total_;
};

}  // namespace subquad
