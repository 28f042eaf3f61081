#include "harness/papers/frame/study_numbers.h"

#include <algorithm>
#include <cmath>

namespace subquad {

MeanError MeanWithError(const std::vector<double>& samples) {
  const double count = static_cast<double>(samples.size());
  double sum = 0, squares = 0;
  for (double value : samples) sum += value;
  const double mean = sum / count;
  for (double value : samples) squares += (value - mean) * (value - mean);
  return {mean, std::sqrt(squares / (count - 1) / count)};
}

double Quantile(std::vector<double> samples, double q) {
  std::sort(samples.begin(), samples.end());
  const double place = q * static_cast<double>(samples.size() - 1);
  const size_t below = static_cast<size_t>(place);
  const size_t above = std::min(below + 1, samples.size() - 1);
  const double part = place - static_cast<double>(below);
  // Monotone in q, and exact between equal samples, on every processor.
  return std::lerp(samples[below], samples[above], part);
}

double Worst(double a, double b) { return std::isnan(a) || a > b ? a : b; }
double Least(double a, double b) { return std::isnan(a) || a < b ? a : b; }

ClaimVerdict Decide(bool fully, bool in_part) {
  if (fully) return ClaimVerdict::kReproduced;
  return in_part ? ClaimVerdict::kInPart : ClaimVerdict::kNotReproduced;
}

}  // namespace subquad
