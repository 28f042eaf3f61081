// Medians, ratios, exponents and crossovers of repeated measurements, with
// confidence intervals.
//
// Times have long right tails and no known distribution, so medians and order
// statistics are used instead of means and standard deviations. Everything
// here is deterministic: no resampling, no random numbers. Every interval
// assumes independent samples. Consecutive runs of one program are not quite
// independent, which is why competing implementations are measured alternately.
//
// All functions throw InvalidInput for spans whose lengths do not match, for
// numbers that are not finite and for a confidence outside (0, 1).
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

namespace subquad {

struct Interval {
  double low = 0;
  double high = 0;
};

// Returns the t with P(|T| < t) = confidence, for Student's T.
double StudentQuantile(double confidence, size_t freedom);

struct Median {
  double median = 0;            // in the unit of the samples
  Interval interval;            // of the distribution's median
  bool interval_known = false;  // false: too few samples, interval is min..max
};

// Returns the sample median and an interval for the distribution's median, from
// two interpolated order statistics (Hettmansperger and Sheather 1986,
// Statistics and Probability Letters 4, 75-79). No distribution is assumed. At
// least one sample is needed. An interval with confidence c needs at least
// 1 - log2(1 - c) samples: 6 for 95 % and 15 for 99.99 %.
Median MedianWithInterval(std::span<const double> samples,
                          double confidence = 0.95);

struct ExponentFit {
  double exponent = 0;
  Interval interval;
  double n_min = 0;  // the smallest and the largest size that were used
  double n_max = 0;
  size_t points = 0;
};

// Fits the exponent p of value ~ n^p, the slope of log(value) against log(n),
// with a Student t interval. `low` and `high` are the 95 % intervals of the
// values, or both empty for exact values. Points below `n_min` are left out.
// Returns nothing if fewer than three distinct sizes are left or if a value is
// zero (an algorithm without workspace has no exponent). Also throws
// InvalidInput for sizes that are not positive, for negative values, and if
// low <= value <= high does not hold.
//
// The weights are those of a random-effects regression (Knapp and Hartung
// 2003, Statistics in Medicine 22, 2693-2710): 1 / (noise^2 + misfit^2), the
// noise from each point's own interval, the misfit common to all points and
// estimated from the residuals. With the noise alone, one very steady point
// would decide the slope, although real curves deviate from a power law by far
// more than their noise (caches, good and bad FFT lengths). With equal weights,
// one very noisy point would count as much as the others. The interval comes
// from the residuals, so that a bend widens it. The fit cannot distinguish
// n log n from a power.
std::optional<ExponentFit> FitExponent(std::span<const double> n,
                                       std::span<const double> value,
                                       std::span<const double> low,
                                       std::span<const double> high,
                                       double n_min = 0,
                                       double confidence = 0.95);

// Returns the `n_min` for a fit of the growth. At small sizes, fixed costs (a
// call, a plan, a launch) flatten every curve. The range covers the last decade
// and a half, n >= n_max / 10^1.5, and is extended downwards only until it has
// four distinct sizes.
double UpperRange(std::span<const double> n);

// One curve over sizes: medians with their intervals, one entry per size.
struct Curve {
  std::span<const double> n;
  std::span<const double> median;
  std::span<const double> low;
  std::span<const double> high;
};

enum class CrossoverKind {
  kCrosses,       // dense is at least as good first, fast is better from n on
  kAlwaysFaster,  // fast is better at every size that was measured
  kNever,         // fast is not better at the largest size
  kTooFewPoints,  // fewer than two sizes that both curves have
};

struct Crossover {
  CrossoverKind kind = CrossoverKind::kTooFewPoints;
  std::optional<double> n;  // only for kCrosses
  // The earliest and the latest crossing within the curves' intervals, for
  // every kind; empty where that end is outside the sizes or does not exist.
  std::optional<double> low;
  std::optional<double> high;
  std::string reason;  // one sentence
};

// Finds the smallest size above which `fast` stays below `dense`, on the sizes
// that both curves have, with linear interpolation in log-log. `low` is the
// crossing of fast at its lower ends with dense at its upper ends, `high` the
// reverse. Since all sizes are moved to their ends at once, this interval is
// wider than one of the curves' own confidence. It is extended to the crossings
// of parabolas through three sizes instead of lines through two, which shows
// the uncertainty of the interpolation; with two sizes, to everything between
// them. The sizes may be in any order. A size that occurs twice in a curve is
// an error; zero values are allowed.
Crossover FindCrossover(const Curve& fast, const Curve& dense);

struct Ratio {
  double ratio = 1;
  Interval interval;
  bool interval_known = false;  // false: too few samples, interval is min..max
};

// Returns how many times larger b is than a: the median of all b_j / a_i
// (Hodges-Lehmann on logarithms), with the interval that inverts the
// Mann-Whitney test (Hodges and Lehmann 1963; Hollander, Wolfe and Chicken
// 2014, section 4.3). If b is distributed as a times a constant, this is the
// ratio of the medians and needs far fewer samples than two medians do; if the
// shapes differ, it is the ratio of typical values. If both have the same
// distribution, whatever it is, the interval misses 1 with probability at most
// 1 - confidence, so that the level can be corrected for many comparisons:
// 99.99 % needs 9 samples on each side. Samples must be positive. The test's
// distribution is exact up to 10000 pairs and normal with a continuity
// correction beyond.
Ratio RatioOfMedians(std::span<const double> a, std::span<const double> b,
                     double confidence = 0.95);

// Returns the ratio of samples taken alternately, the i-th of a next to the
// i-th of b: the median of b_i / a_i with its interval. If the machine is slow
// for a while, both samples of a round are slow and their ratio stays. Also
// throws InvalidInput if the numbers of samples differ.
Ratio RatioInTurns(std::span<const double> a, std::span<const double> b,
                   double confidence = 0.95);

}  // namespace subquad
