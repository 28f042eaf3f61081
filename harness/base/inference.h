// Means, shares and slopes of repeated experiments, with their intervals.
// Unlike times (statistics.h), errors over independent draws have means worth
// knowing.
//
// All functions throw InvalidInput where there are too few numbers, for numbers
// that are not finite and for a confidence outside (0, 1).
#pragma once

#include <span>
#include <vector>

#include "harness/base/statistics.h"

namespace subquad {

struct Estimate {
  double value = 0;
  Interval interval;
  bool Excludes(double other) const {
    return !(interval.low <= other && other <= interval.high);
  }
};

// The mean with Student's interval: for samples that are independent and nearly
// normal, or many. At least two.
Estimate MeanWithInterval(std::span<const double> samples,
                          double confidence = 0.95);

// The largest share of misses under which `misses` or fewer in `draws` would
// still be seen with probability 1 - confidence: the one-sided bound of Clopper
// and Pearson (1934, Biometrika 26, 404-413), exact for independent draws.
double ShareUpperBound(double misses, double draws, double confidence = 0.95);
// Its mirror image: a share below this would show `misses` or more too rarely.
double ShareLowerBound(double misses, double draws, double confidence = 0.95);

// y = constant + slopes . x by least squares: the slopes with Student's
// intervals from the residuals, so that a bend in the data shows in them. More
// rows of `x` than slopes + 1. Slopes that the rows cannot tell apart are
// refused.
std::vector<Estimate> FitSlopes(const std::vector<std::vector<double>>& x,
                                std::span<const double> y,
                                double confidence = 0.95);

}  // namespace subquad
