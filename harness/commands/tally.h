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
  std::map<std::string, int64_t> skipped_for;  // number of cases by reason

  void Add(const Verdict& verdict);
  // Returns the largest errors and the smallest margin, or "" if nothing ran.
  std::string ErrorsText() const;
  // Returns the commonest reason of skipped cases, or "" if there are none.
  std::string SkippedText() const;
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
