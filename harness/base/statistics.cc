#include "harness/base/statistics.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numbers>
#include <numeric>
#include <string_view>
#include <vector>

#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Half the width of a 95 % interval, in standard deviations.
constexpr double kNormal95 = 1.959963984540054;

void CheckConfidence(double confidence) {
  if (!(confidence > 0 && confidence < 1)) {
    throw InvalidInput("confidence", "a number between 0 and 1",
                       std::to_string(confidence));
  }
}

void CheckFinite(std::span<const double> numbers, std::string_view what) {
  for (const double number : numbers) {
    if (!std::isfinite(number)) {
      throw InvalidInput(std::string(what), "finite numbers",
                         std::to_string(number));
    }
  }
}

void CheckSameSize(size_t expected, size_t actual, std::string_view what) {
  if (actual != expected) {
    throw InvalidInput(std::string(what), std::to_string(expected) + " numbers",
                       std::to_string(actual));
  }
}

// Returns the samples in order. Throws InvalidInput if there are none or if one
// is not finite.
std::vector<double> Sorted(std::span<const double> samples) {
  if (samples.empty()) throw InvalidInput("samples", "at least one", "none");
  CheckFinite(samples, "samples");
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return sorted;
}

// Returns the x in [low, high] at which an increasing function reaches
// `target`.
template <typename Function>
double Solve(double low, double high, double target, Function function) {
  for (int step = 0; step < 200; ++step) {
    const double middle = low + (high - low) / 2;
    if (middle <= low || middle >= high) break;
    (function(middle) < target ? low : high) = middle;
  }
  return low + (high - low) / 2;
}

// Returns P(|T| < t) for Student's t with a whole number of degrees of freedom,
// by the finite sums of Abramowitz and Stegun 26.7.3 and 26.7.4.
double StudentCentral(double t, size_t freedom) {
  const double theta = std::atan2(t, std::sqrt(static_cast<double>(freedom)));
  const double sine = std::sin(theta);
  const double cosine = std::cos(theta);
  const bool odd = freedom % 2 == 1;
  // Odd: cos + 2/3 cos^3 + 2*4/(3*5) cos^5 ...; even: 1 + 1/2 cos^2 + ...
  double term = odd ? cosine : 1.0;
  double sum = 0;
  for (size_t power = odd ? 1 : 0; power + 2 <= freedom; power += 2) {
    sum += term;
    const auto p = static_cast<double>(power);
    term *= cosine * cosine * (p + 1) / (p + 2);
  }
  return odd ? 2 / std::numbers::pi * (theta + sine * sum) : sine * sum;
}

// Returns the z with P(Z > z) = tail, for tails below one half.
double NormalUpperQuantile(double tail) {
  return Solve(0, 40, -tail, [](double z) {
    return -0.5 * std::erfc(z / std::numbers::sqrt2);
  });
}

double MedianOfSorted(const std::vector<double>& sorted) {
  const size_t middle = sorted.size() / 2;
  if (sorted.size() % 2 == 1) return sorted[middle];
  return std::midpoint(sorted[middle - 1], sorted[middle]);
}

}  // namespace

// Searches over the angle of StudentCentral's sums, since t itself has no upper
// end: with one degree of freedom it is tan(c * pi / 2).
double StudentQuantile(double confidence, size_t freedom) {
  const double root = std::sqrt(static_cast<double>(freedom));
  const double theta =
      Solve(0, std::numbers::pi / 2, confidence, [&](double angle) {
        return StudentCentral(root * std::tan(angle), freedom);
      });
  return root * std::tan(theta);
}

Median MedianWithInterval(std::span<const double> samples, double confidence) {
  CheckConfidence(confidence);
  const std::vector<double> sorted = Sorted(samples);
  const size_t n = sorted.size();
  Median result;
  result.median = MedianOfSorted(sorted);

  // If B is the number of heads in n fair throws, the interval from the
  // depth-th smallest to the depth-th largest sample covers the median with
  // probability 1 - 2 P(B < depth). Find the deepest interval that still covers
  // enough. `depth + 1` beyond the middle is an empty interval, which covers
  // nothing.
  double coverage = 1;  // of depth 0, the whole line
  double next = 1;
  size_t depth = 0;
  double log_probability = -static_cast<double>(n) * std::numbers::ln2;
  while (true) {
    next = 2 * (depth + 1) > n + 1
               ? 0
               : std::max(0.0, coverage - 2 * std::exp(log_probability));
    if (next < confidence) break;
    coverage = next;
    ++depth;
    log_probability += std::log(static_cast<double>(n - depth + 1)) -
                       std::log(static_cast<double>(depth));
  }
  if (depth == 0) {
    // Even the range of all samples contains the median too rarely, with 93.75
    // % for five samples. No method without assumptions can do better.
    result.interval = {sorted.front(), sorted.back()};
    return result;
  }

  // A whole depth covers more than requested, for eight samples 99.2 % instead
  // of 95 %. Going a part of the way to the next depth comes close to the
  // request. The part is derived for the double exponential distribution and
  // hardly depends on it.
  const double share = (coverage - confidence) / (coverage - next);
  const auto d = static_cast<double>(depth);
  const auto count = static_cast<double>(n);
  const double weight = (count - d) * share / (d + (count - 2 * d) * share);
  // The last step inward ends where both sides meet, at the median itself.
  const bool meets = 2 * (depth + 1) > n;
  const double inner_low = meets ? result.median : sorted[depth];
  const double inner_high = meets ? result.median : sorted[n - 1 - depth];
  result.interval = {std::lerp(sorted[depth - 1], inner_low, weight),
                     std::lerp(sorted[n - depth], inner_high, weight)};
  result.interval_known = true;
  return result;
}

double UpperRange(std::span<const double> n) {
  std::vector<double> sizes = Sorted(n);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  // The bound is rounded, so that a size slightly below it still counts.
  const double bound = sizes.back() / std::pow(10.0, 1.5) * (1 - 1e-12);
  const auto first = std::lower_bound(sizes.begin(), sizes.end(), bound);
  const auto wanted =
      std::min<std::ptrdiff_t>(4, static_cast<std::ptrdiff_t>(sizes.size()));
  return *std::min(first, sizes.end() - wanted);
}

namespace {

struct LogPoint {
  double x = 0;         // log n
  double y = 0;         // log value
  double variance = 0;  // of y, from the value's own interval
};

struct Line {
  double slope = 0;
  double misfit = 0;  // weighted sum of squared residuals
  double spread = 0;  // weighted sum of squares of x about its mean
};

Line FitLine(const std::vector<LogPoint>& points, double extra_variance) {
  double weights = 0, mean_x = 0, mean_y = 0;
  for (const LogPoint& point : points) {
    const double weight = 1 / (point.variance + extra_variance);
    weights += weight;
    mean_x += weight * point.x;
    mean_y += weight * point.y;
  }
  mean_x /= weights;
  mean_y /= weights;
  double product = 0;
  Line line;
  for (const LogPoint& point : points) {
    const double weight = 1 / (point.variance + extra_variance);
    line.spread += weight * (point.x - mean_x) * (point.x - mean_x);
    product += weight * (point.x - mean_x) * (point.y - mean_y);
  }
  line.slope = product / line.spread;
  for (const LogPoint& point : points) {
    const double residual = point.y - mean_y - line.slope * (point.x - mean_x);
    line.misfit += residual * residual / (point.variance + extra_variance);
  }
  return line;
}

// Returns the variance that the points need beyond their own so that the
// residuals are as large as expected (Paule and Mandel 1982); zero if none.
double ExtraVariance(const std::vector<LogPoint>& points) {
  const auto freedom = static_cast<double>(points.size() - 2);
  if (FitLine(points, 0).misfit <= freedom) return 0;
  double high = 1;
  while (FitLine(points, high).misfit > freedom) high *= 4;
  return Solve(0, high, -freedom,
               [&](double extra) { return -FitLine(points, extra).misfit; });
}

}  // namespace

std::optional<ExponentFit> FitExponent(std::span<const double> n,
                                       std::span<const double> value,
                                       std::span<const double> low,
                                       std::span<const double> high,
                                       double n_min, double confidence) {
  CheckConfidence(confidence);
  CheckSameSize(n.size(), value.size(), "values");
  const bool exact = low.empty() && high.empty();
  if (!exact) {
    CheckSameSize(n.size(), low.size(), "lower ends");
    CheckSameSize(n.size(), high.size(), "upper ends");
  }
  for (const auto numbers : {n, value, low, high}) {
    CheckFinite(numbers, "points of a fit");
  }

  std::vector<LogPoint> points;
  std::vector<double> sizes;
  for (size_t i = 0; i < n.size(); ++i) {
    if (n[i] <= 0) {
      throw InvalidInput("size", "a number above 0", std::to_string(n[i]));
    }
    if (value[i] < 0) {
      throw InvalidInput("value", "a number of at least 0",
                         std::to_string(value[i]));
    }
    if (!exact && !(low[i] <= value[i] && value[i] <= high[i])) {
      throw InvalidInput("interval", "low <= value <= high",
                         std::to_string(low[i]) + ", " +
                             std::to_string(value[i]) + ", " +
                             std::to_string(high[i]));
    }
    if (n[i] < n_min) continue;
    if (value[i] == 0) return std::nullopt;

    // A lower end of zero or below has no logarithm; the upper half then counts
    // for both.
    double deviation = 0;
    if (!exact) {
      deviation = (low[i] > 0 ? std::log(high[i] / low[i]) / 2
                              : std::log(high[i] / value[i])) /
                  kNormal95;
    }
    // The minimum keeps the weights finite. It is far below any clock's
    // resolution, and gives exact values equal weights.
    deviation = std::max(deviation, 1e-9);
    points.push_back(
        {std::log(n[i]), std::log(value[i]), deviation * deviation});
    sizes.push_back(n[i]);
  }
  std::sort(sizes.begin(), sizes.end());
  const auto distinct = std::unique(sizes.begin(), sizes.end()) - sizes.begin();
  if (distinct < 3) return std::nullopt;
  sizes.resize(static_cast<size_t>(distinct));

  // The residuals determine the scale of the interval, whatever the points' own
  // intervals are: misfit / freedom is about one if those are right.
  const size_t freedom = points.size() - 2;
  const Line line = FitLine(points, ExtraVariance(points));
  const double error =
      std::sqrt(line.misfit / static_cast<double>(freedom) / line.spread);
  const double half = StudentQuantile(confidence, freedom) * error;
  return ExponentFit{line.slope,
                     {line.slope - half, line.slope + half},
                     sizes.front(),
                     sizes.back(),
                     points.size()};
}

namespace {

// Checks a curve and returns its entries in increasing order of size.
std::vector<size_t> OrderBySize(const Curve& curve, const std::string& name) {
  CheckSameSize(curve.n.size(), curve.median.size(), name + " medians");
  CheckSameSize(curve.n.size(), curve.low.size(), name + " lower ends");
  CheckSameSize(curve.n.size(), curve.high.size(), name + " upper ends");
  for (const auto numbers : {curve.n, curve.median, curve.low, curve.high}) {
    CheckFinite(numbers, name + " curve");
  }
  std::vector<size_t> order(curve.n.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::sort(order.begin(), order.end(),
            [&](size_t i, size_t j) { return curve.n[i] < curve.n[j]; });
  for (size_t i = 0; i < order.size(); ++i) {
    const size_t at = order[i];
    if (curve.n[at] <= 0) {
      throw InvalidInput(name + " size", "a number above 0",
                         std::to_string(curve.n[at]));
    }
    if (i > 0 && curve.n[order[i - 1]] == curve.n[at]) {
      throw InvalidInput(name + " curve", "each size once",
                         std::to_string(curve.n[at]) + " twice");
    }
    if (curve.median[at] < 0 || curve.low[at] > curve.median[at] ||
        curve.high[at] < curve.median[at]) {
      throw InvalidInput(name + " curve", "0 <= median, low <= median <= high",
                         std::to_string(curve.low[at]) + ", " +
                             std::to_string(curve.median[at]) + ", " +
                             std::to_string(curve.high[at]));
    }
  }
  return order;
}

// Returns log(fast / dense). An algorithm without workspace has value zero, and
// two of them are equal.
double LogRatio(double fast, double dense) {
  fast = std::max(fast, 0.0);
  dense = std::max(dense, 0.0);
  if (fast == 0 && dense == 0) return 0;
  if (fast == 0) return -kInfinity;
  if (dense == 0) return kInfinity;
  return std::log(fast) - std::log(dense);
}

// The point at which a curve of log ratios goes below zero for the last time.
struct Crossing {
  CrossoverKind kind;
  double n = 0;
  double low = 0, high = 0;  // uncertainty of the interpolation
};

// Returns the interval in which the crossing between n[i] and n[i + 1] may lie
// if the curve is not straight: between the crossings of the parabolas through
// one more size on either side; without such a size, anywhere between the two.
std::pair<double, double> CrossingsOfParabolas(
    const std::vector<double>& n, const std::vector<double>& log_ratio,
    size_t i) {
  const double a = std::log(n[i]), b = std::log(n[i + 1]);
  double low = b, high = a;
  int parabolas = 0;
  for (const size_t first : {i - 1, i}) {  // i - 1 wraps for the first size
    if (first >= n.size() || first + 2 >= n.size()) continue;
    double x[3], y[3];
    for (size_t k = 0; k < 3; ++k) {
      x[k] = std::log(n[first + k]);
      y[k] = log_ratio[first + k];
    }
    if (!std::isfinite(y[0]) || !std::isfinite(y[1]) || !std::isfinite(y[2]))
      continue;
    const auto height = [&](double at) {
      double sum = 0;
      for (size_t k = 0; k < 3; ++k) {
        double term = y[k];
        for (size_t l = 0; l < 3; ++l)
          if (l != k) term *= (at - x[l]) / (x[k] - x[l]);
        sum += term;
      }
      return sum;
    };
    // At both ends, which are sizes, the parabola has the sign of the curve.
    double left = a, right = b;
    for (int step = 0; step < 60; ++step) {
      const double middle = (left + right) / 2;
      (height(middle) >= 0 ? left : right) = middle;
    }
    low = std::min(low, left);
    high = std::max(high, right);
    ++parabolas;
  }
  if (parabolas == 0) return {n[i], n[i + 1]};
  return {std::exp(low), std::exp(high)};
}

Crossing LastCrossing(const std::vector<double>& n,
                      const std::vector<double>& log_ratio) {
  size_t losses = n.size();  // entries up to the last one that `fast` loses
  while (losses > 0 && log_ratio[losses - 1] < 0) --losses;
  if (losses == 0) return {CrossoverKind::kAlwaysFaster};
  if (losses == n.size()) return {CrossoverKind::kNever};

  const double before = log_ratio[losses - 1];
  const double after = log_ratio[losses];
  double share = before / (before - after);
  if (std::isinf(before)) share = std::isinf(after) ? 0.5 : 1;
  const double step = n[losses] / n[losses - 1];
  const double at = n[losses - 1] * std::pow(step, share);
  const auto [low, high] = CrossingsOfParabolas(n, log_ratio, losses - 1);
  return {CrossoverKind::kCrosses, at, std::min(at, low), std::max(at, high)};
}

std::string SizeText(double n) { return std::to_string(std::llround(n)); }

}  // namespace

Crossover FindCrossover(const Curve& fast, const Curve& dense) {
  const std::vector<size_t> fast_order = OrderBySize(fast, "fast");
  const std::vector<size_t> dense_order = OrderBySize(dense, "dense");

  std::vector<double> n, middle, best, worst;
  for (size_t i = 0, j = 0; i < fast_order.size() && j < dense_order.size();) {
    const size_t f = fast_order[i];
    const size_t d = dense_order[j];
    if (fast.n[f] < dense.n[d]) {
      ++i;
    } else if (dense.n[d] < fast.n[f]) {
      ++j;
    } else {
      n.push_back(fast.n[f]);
      middle.push_back(LogRatio(fast.median[f], dense.median[d]));
      best.push_back(LogRatio(fast.low[f], dense.high[d]));
      worst.push_back(LogRatio(fast.high[f], dense.low[d]));
      ++i;
      ++j;
    }
  }
  Crossover result;
  if (n.size() < 2) {
    result.reason = "sizes in common: " + std::to_string(n.size()) +
                    ", a crossover needs at least 2";
    return result;
  }

  const Crossing crossing = LastCrossing(n, middle);
  const Crossing earliest = LastCrossing(n, best);
  const Crossing latest = LastCrossing(n, worst);
  result.kind = crossing.kind;
  if (crossing.kind == CrossoverKind::kCrosses) result.n = crossing.n;
  if (earliest.kind == CrossoverKind::kCrosses) result.low = earliest.low;
  if (latest.kind == CrossoverKind::kCrosses) result.high = latest.high;

  // Counts the changes from losing to winning. If there are several, the reason
  // says so.
  int turns = 0;
  for (size_t i = 1; i < n.size(); ++i) {
    turns += middle[i - 1] >= 0 && middle[i] < 0;
  }
  switch (crossing.kind) {
    case CrossoverKind::kCrosses:
      result.reason = turns == 1 ? "the curves cross once"
                                 : "the curves cross " + std::to_string(turns) +
                                       " times, this is the last";
      if (!result.low) {
        result.reason += "; within the intervals it may lie below n = " +
                         SizeText(n.front());
      }
      if (!result.high) {
        result.reason +=
            "; within the intervals it may lie above n = " + SizeText(n.back());
      }
      break;
    case CrossoverKind::kAlwaysFaster:
      result.reason =
          "better at every size from n = " + SizeText(n.front()) + " on";
      if (result.high) {
        result.reason +=
            "; within the intervals only from n = " + SizeText(*result.high) +
            " on";
      } else if (latest.kind == CrossoverKind::kNever) {
        result.reason += "; within the intervals perhaps nowhere";
      }
      break;
    case CrossoverKind::kNever:
      result.reason =
          "not better at the largest size, n = " + SizeText(n.back());
      if (turns > 0) result.reason += ", but at smaller ones";
      if (result.low) {
        result.reason +=
            "; within the intervals perhaps from n = " + SizeText(*result.low) +
            " on";
      } else if (earliest.kind == CrossoverKind::kAlwaysFaster) {
        result.reason += "; within the intervals perhaps everywhere";
      }
      break;
    case CrossoverKind::kTooFewPoints:
      break;
  }
  return result;
}

namespace {

// Returns the largest number of pairs that each end of the interval may leave
// out: P(U < count) <= tail, where U counts the pairs with b < a among m and n
// samples of one distribution.
size_t PairsToDrop(size_t m, size_t n, double tail) {
  const size_t pairs = m * n;
  if (pairs > 10000) {
    const auto p = static_cast<double>(pairs);
    const double deviation = std::sqrt(p * static_cast<double>(m + n + 1) / 12);
    const double bound = p / 2 + 0.5 - NormalUpperQuantile(tail) * deviation;
    return bound > 0 ? static_cast<size_t>(bound) : 0;
  }
  // The number of orders with U = u is the coefficient of q^u in the Gaussian
  // binomial, product of (1 - q^(n+i)) / (1 - q^i) for i = 1..m. Only the lower
  // half is needed, whose coefficients depend on nothing above them. They grow
  // up to the middle, so the differences lose no digits that matter.
  if (m > n) std::swap(m, n);
  const size_t half = pairs / 2;
  std::vector<double> orders(half + 1, 0.0);
  orders[0] = 1;
  double all = 1;
  for (size_t i = 1; i <= m; ++i) {
    for (size_t u = half + 1; u-- > n + i;) orders[u] -= orders[u - n - i];
    for (size_t u = i; u <= half; ++u) orders[u] += orders[u - i];
    all *= static_cast<double>(n + i) / static_cast<double>(i);
  }
  double below = 0;
  size_t count = 0;
  while (count <= half && below + orders[count] <= tail * all) {
    below += orders[count++];
  }
  return count;
}

// Maps doubles to integers of the same order, to bisect an interval of doubles.
int64_t OrderedBits(double value) {
  const auto bits = std::bit_cast<int64_t>(value);
  return bits < 0 ? std::numeric_limits<int64_t>::min() - bits : bits;
}

double FromOrderedBits(int64_t ordered) {
  return std::bit_cast<double>(
      ordered < 0 ? std::numeric_limits<int64_t>::min() - ordered : ordered);
}

// Returns the difference b_j - a_i with `rank` smaller ones, without listing
// all of them: 64 bisections, each with one walk along both sorted samples.
double DifferenceOfRank(const std::vector<double>& a,
                        const std::vector<double>& b, size_t rank) {
  const auto count_up_to = [&](double bound) {
    size_t count = 0;
    size_t j = 0;
    for (const double left : a) {
      while (j < b.size() && b[j] - left <= bound) ++j;
      count += j;
    }
    return count;
  };
  int64_t low = OrderedBits(b.front() - a.back());
  int64_t high = OrderedBits(b.back() - a.front());
  while (low < high) {
    const int64_t middle = std::midpoint(low, high);  // rounds towards low
    if (count_up_to(FromOrderedBits(middle)) > rank) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return FromOrderedBits(low);
}

std::vector<double> SortedLogs(std::span<const double> samples) {
  std::vector<double> logs = Sorted(samples);
  if (logs.front() <= 0) {
    throw InvalidInput("samples", "numbers above 0",
                       fmt::format("{}", logs.front()));
  }
  for (double& value : logs) value = std::log(value);
  return logs;
}

}  // namespace

Ratio RatioOfMedians(std::span<const double> a, std::span<const double> b,
                     double confidence) {
  CheckConfidence(confidence);
  const std::vector<double> log_a = SortedLogs(a);
  const std::vector<double> log_b = SortedLogs(b);
  const size_t pairs = a.size() * b.size();

  Ratio result;
  const double middle =
      std::midpoint(DifferenceOfRank(log_a, log_b, (pairs - 1) / 2),
                    DifferenceOfRank(log_a, log_b, pairs / 2));
  result.ratio = std::exp(middle);

  const size_t drop = PairsToDrop(a.size(), b.size(), (1 - confidence) / 2);
  const size_t first = drop > 0 ? drop - 1 : 0;
  result.interval_known = drop > 0;
  result.interval = {
      std::exp(DifferenceOfRank(log_a, log_b, first)),
      std::exp(DifferenceOfRank(log_a, log_b, pairs - 1 - first))};
  return result;
}

Ratio RatioInTurns(std::span<const double> a, std::span<const double> b,
                   double confidence) {
  CheckSameSize(a.size(), b.size(), "samples taken alternately");
  std::vector<double> logs;
  for (size_t i = 0; i < a.size(); ++i) {
    if (!(a[i] > 0 && b[i] > 0))
      throw InvalidInput("samples", "numbers above 0",
                         fmt::format("{}", std::min(a[i], b[i])));
    logs.push_back(std::log(b[i] / a[i]));
  }
  const Median median = MedianWithInterval(logs, confidence);
  return {std::exp(median.median),
          {std::exp(median.interval.low), std::exp(median.interval.high)},
          median.interval_known};
}

}  // namespace subquad
