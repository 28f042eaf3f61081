// Means, shares and slopes of repeated experiments, with confidence intervals.
// Unlike times (statistics.h), errors over independent draws have useful means.
//
// All functions throw InvalidInput if there are too few samples, if a sample is
// not finite, and if the confidence is outside (0, 1).
#pragma once

#include <span>
#include <vector>

#include "harness/base/statistics.h"

namespace subquad {

struct Estimate {
  double value = 0;
  Interval interval;
};

// Returns the mean with Student's interval. The samples, at least two, have to
// be independent and nearly normal, or many.
Estimate MeanWithInterval(std::span<const double> samples,
                          double confidence = 0.95);

// Returns the mean of a table, whose rows and columns both stand for others
// (draws, sentences). Its variance is that of the means of rows plus that of
// the means of columns, which is slightly too large (what both have in common
// is in both), and Student's interval has the freedom of the fewer. One row is
// taken as certain. The rows need equally many columns, two or more.
Estimate MeanOverRowsAndColumns(const std::vector<std::vector<double>>& rows,
                                double confidence = 0.95);

// Returns the largest share of misses under which `misses` or fewer in `draws`
// still occur with probability 1 - confidence. This is the one-sided bound of
// Clopper and Pearson (1934, Biometrika 26, 404-413), exact for independent
// draws.
double ShareUpperBound(double misses, double draws, double confidence = 0.95);
// Returns the corresponding lower bound: the smallest share under which
// `misses` or more still occur with probability 1 - confidence.
double ShareLowerBound(double misses, double draws, double confidence = 0.95);

// Fits y = constant + slopes . x by least squares and returns the slopes with
// Student's intervals from the residuals, which widen if the data are bent. `x`
// needs more rows than slopes + 1. Throws InvalidInput if the rows do not
// determine all slopes.
std::vector<Estimate> FitSlopes(const std::vector<std::vector<double>>& x,
                                std::span<const double> y,
                                double confidence = 0.95);

}  // namespace subquad
