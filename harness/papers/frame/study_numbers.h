// Numbers that studies make of samples, and verdicts of rules that hold.
#pragma once

#include <vector>

#include "harness/papers/frame/claim_verdict.h"

namespace subquad {

// Mean and its standard error, by the sum of squares about the mean.
struct MeanError {
  double mean = 0, error = 0;
};
MeanError MeanWithError(const std::vector<double>& samples);

// The q-quantile of the samples, interpolated.
double Quantile(std::vector<double> samples, double q);

// The larger or smaller of two, or NaN if one of them is: no verdict may ignore
// a missing number.
double Worst(double a, double b);
double Least(double a, double b);

// kReproduced, or kInPart if only the weaker rule holds.
ClaimVerdict Decide(bool fully, bool in_part = false);

}  // namespace subquad
