// Progress messages of a sweep, on standard error.
#pragma once

#include <string>
#include <vector>

#include "harness/results/result_file.h"
#include "harness/sweeps/sweep_plan.h"

namespace subquad {

// Formats a duration: `75 s`, `12 min`, `2.5 h`.
std::string Duration(double seconds);

// Prints one line per case with an estimate of the remaining time.
class Progress {
 public:
  // `pass` is printed before the count: "pass 2 of 6: ".
  explicit Progress(size_t total, std::string pass = "");

  void Report(const PlannedCase& planned, const std::vector<Record>& records);
  void Skip() { ++done_; }

 private:
  const size_t total_;
  const std::string pass_;
  size_t done_ = 0;
  const double start_;
};

}  // namespace subquad
