// What repeated measurements say, with how much certainty.
//
// Times have long right tails and no known distribution, so medians and order
// statistics are used instead of means and standard deviations. Everything
// here is deterministic: no resampling, no random numbers. Every interval
// assumes independent samples; neighbouring runs of one program are not quite
// that, which is why competing implementations are measured in turns.
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

// The t with P(|T| < t) = confidence, for Student's T.
double StudentQuantile(double confidence, size_t freedom);

struct Median {
  double median = 0;            // in the unit of the samples
  Interval interval;            // of the distribution's median
  bool interval_known = false;  // false: too few samples, interval is min..max
};

// The sample median and an interval for the distribution's median, from two
// interpolated order statistics (Hettmansperger and Sheather 1986, Statistics
// and Probability Letters 4, 75-79). No distribution is assumed. At least one
// sample; an interval at confidence c exists from 1 - log2(1 - c) samples on,
// 6 for 95 % and 15 for 99.99 %.
Median MedianWithInterval(std::span<const double> samples,
                          double confidence = 0.95);

struct ExponentFit {
  double exponent = 0;
  Interval interval;
  double n_min = 0;  // the smallest and the largest size that were used
  double n_max = 0;
  size_t points = 0;
};

// The exponent p of value ~ n^p: slope of log(value) against log(n), with a
// Student t interval. `low` and `high` are the 95 % intervals of the values, or
// both empty for values that are exact. Points below `n_min` are left out.
// Nothing where fewer than three distinct sizes are left, or where one of the
// values is zero (no workspace at all has no exponent). Throws InvalidInput
// also for sizes that are not positive, for negative values, and where
// low <= value <= high does not hold.
//
// The weights are those of a random-effects regression (Knapp and Hartung
// 2003, Statistics in Medicine 22, 2693-2710): 1 / (noise^2 + misfit^2), the
// noise from each point's own interval, the misfit common to all points and
// estimated from the residuals. By noise alone, one very steady point would
// decide the slope, though real curves leave a power law by far more than
// their noise (caches, good and bad FFT lengths); by equal weights, one
// hopelessly noisy point would count like the others. The interval comes from
// the residuals, so a bend shows in it; it cannot tell n log n from a power.
std::optional<ExponentFit> FitExponent(std::span<const double> n,
                                       std::span<const double> value,
                                       std::span<const double> low,
                                       std::span<const double> high,
                                       double n_min = 0,
                                       double confidence = 0.95);

// The `n_min` for a fit that is to say something about growth: at small sizes
// fixed costs (a call, a plan, a launch) flatten every curve. Takes the sizes
// of the last decade and a half, n >= n_max / 10^1.5, and goes further down
// only as long as that leaves fewer than four distinct sizes.
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

// The smallest size above which `fast` stays below `dense`, on the sizes that
// both have, linear in log-log between them. `low` is the crossing of fast at
// its best with dense at its worst, `high` the other way round; as both curves
// are pushed to their ends at all sizes at once, this is wider than an interval
// of the curves' own confidence. Both ends also hold the
// crossings of parabolas through three sizes instead of lines through two: what
// interpolation leaves open; with two sizes in all, everything between them.
// The order of the sizes does not matter; a
// size that occurs twice in a curve is refused, zero values are allowed.
Crossover FindCrossover(const Curve& fast, const Curve& dense);

struct Ratio {
  double ratio = 1;
  Interval interval;
  bool interval_known = false;  // false: too few samples, interval is min..max
};

// How many times larger b is than a: the median of all b_j / a_i
// (Hodges-Lehmann on logarithms), with the interval that inverts the
// Mann-Whitney test (Hodges and Lehmann 1963; Hollander, Wolfe and Chicken
// 2014, section 4.3). If b is distributed as a times a constant, this is the
// ratio of the medians, found with far fewer samples than from two medians; if
// the shapes differ, it is the ratio of typical values. When both are equally
// distributed the interval misses 1 with probability at most 1 - confidence,
// whatever the distribution. So the level can be corrected for many
// comparisons: 99.99 % exists from 9 samples on each side. Samples must be
// positive. The test's distribution is exact up to 10000 pairs, beyond that
// normal with a continuity correction.
Ratio RatioOfMedians(std::span<const double> a, std::span<const double> b,
                     double confidence = 0.95);

// The same for samples taken in turns, the i-th of a beside the i-th of b: the
// median of b_i / a_i with its interval. What slows the machine for a while
// slows both samples of a round and leaves their ratio. Throws InvalidInput
// also where the numbers of samples differ.
Ratio RatioInTurns(std::span<const double> a, std::span<const double> b,
                   double confidence = 0.95);

}  // namespace subquad
