#include "harness/base/inference.h"

#include <fmt/format.h>

#include <Eigen/Cholesky>
#include <Eigen/LU>
#include <Eigen/QR>
#include <algorithm>
#include <cmath>

#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

void CheckFinite(std::span<const double> numbers, const char* what) {
  for (double number : numbers)
    if (!std::isfinite(number))
      throw InvalidInput(what, "finite numbers", fmt::format("{}", number));
}

void CheckCount(size_t found, size_t least, const char* what) {
  if (found < least)
    throw InvalidInput(what, fmt::format("at least {}", least),
                       fmt::format("{}", found));
}

void CheckConfidence(double confidence) {
  if (!(confidence > 0 && confidence < 1))
    throw InvalidInput("confidence", "a number between 0 and 1",
                       fmt::format("{}", confidence));
}

// Returns P(X <= misses) for a binomial X.
double AtMost(double misses, double draws, double share) {
  if (share <= 0) return 1;
  if (share >= 1) return misses >= draws ? 1 : 0;
  double sum = 0;
  for (double k = 0; k <= misses; ++k)
    sum += std::exp(std::lgamma(draws + 1) - std::lgamma(k + 1) -
                    std::lgamma(draws - k + 1) + k * std::log(share) +
                    (draws - k) * std::log1p(-share));
  return sum;
}

struct Mean {
  double value = 0, variance = 0;
};

Mean MeanOf(std::span<const double> samples) {
  CheckCount(samples.size(), 2, "samples of a mean");
  CheckFinite(samples, "samples of a mean");
  const auto count = static_cast<double>(samples.size());
  Mean mean;
  for (double sample : samples) mean.value += sample / count;
  double squares = 0;
  for (double sample : samples)
    squares += (sample - mean.value) * (sample - mean.value);
  mean.variance = squares / (count - 1) / count;
  return mean;
}

Estimate WithInterval(const Mean& mean, size_t freedom, double confidence) {
  CheckConfidence(confidence);
  const double half =
      StudentQuantile(confidence, freedom) * std::sqrt(mean.variance);
  return {mean.value, {mean.value - half, mean.value + half}};
}

}  // namespace

Estimate MeanWithInterval(std::span<const double> samples, double confidence) {
  return WithInterval(MeanOf(samples), samples.size() - 1, confidence);
}

Estimate MeanOverRowsAndColumns(const std::vector<std::vector<double>>& rows,
                                double confidence) {
  CheckCount(rows.size(), 1, "rows of a mean");
  const size_t columns = rows.front().size();
  if (rows.size() == 1) return MeanWithInterval(rows.front(), confidence);
  std::vector<double> of_columns(columns), of_rows;
  for (const std::vector<double>& row : rows) {
    if (row.size() != columns)
      throw InvalidInput("rows of a mean", fmt::format("{} columns", columns),
                         fmt::format("{}", row.size()));
    for (size_t c = 0; c < columns; ++c)
      of_columns[c] += row[c] / static_cast<double>(rows.size());
    of_rows.push_back(MeanOf(row).value);
  }
  Mean mean = MeanOf(of_columns);
  mean.variance += MeanOf(of_rows).variance;
  return WithInterval(mean, std::min(rows.size(), columns) - 1, confidence);
}

double ShareUpperBound(double misses, double draws, double confidence) {
  CheckConfidence(confidence);
  if (!(misses >= 0 && misses <= draws && draws >= 1))
    throw InvalidInput("misses", fmt::format("from 0 to {} draws", draws),
                       fmt::format("{}", misses));
  if (misses >= draws) return 1;
  double low = 0, high = 1;
  for (int step = 0; step < 100; ++step) {
    const double share = low + (high - low) / 2;
    (AtMost(misses, draws, share) > 1 - confidence ? low : high) = share;
  }
  return high;
}

double ShareLowerBound(double misses, double draws, double confidence) {
  return 1 - ShareUpperBound(draws - misses, draws, confidence);
}

std::vector<Estimate> FitSlopes(const std::vector<std::vector<double>>& x,
                                std::span<const double> y, double confidence) {
  CheckConfidence(confidence);
  CheckCount(x.size(), 1, "rows of a fit");
  const size_t slopes = x.front().size();
  CheckCount(x.size(), slopes + 2, "rows of a fit");
  if (y.size() != x.size())
    throw InvalidInput("values of a fit", fmt::format("{}", x.size()),
                       fmt::format("{}", y.size()));
  CheckFinite(y, "values of a fit");
  const auto rows = static_cast<Eigen::Index>(x.size()),
             columns = static_cast<Eigen::Index>(slopes + 1);
  Eigen::MatrixXd design = Eigen::MatrixXd::Ones(rows, columns);
  Eigen::VectorXd value(rows);
  for (Eigen::Index r = 0; r < rows; ++r) {
    const std::vector<double>& row = x[static_cast<size_t>(r)];
    if (row.size() != slopes)
      throw InvalidInput("row of a fit", fmt::format("{} numbers", slopes),
                         fmt::format("{}", row.size()));
    CheckFinite(row, "row of a fit");
    for (Eigen::Index c = 1; c < columns; ++c)
      design(r, c) = row[static_cast<size_t>(c - 1)];
    value(r) = y[static_cast<size_t>(r)];
  }
  const Eigen::ColPivHouseholderQR<Eigen::MatrixXd> solver(design);
  if (solver.rank() < columns)
    throw InvalidInput("rows of a fit", "rows that determine all slopes",
                       fmt::format("rank {} of {}", solver.rank(), columns));
  const Eigen::VectorXd solution = solver.solve(value);
  const auto freedom = static_cast<size_t>(rows - columns);
  const double scale =
      (value - design * solution).squaredNorm() / static_cast<double>(freedom);
  const Eigen::MatrixXd covariance =
      scale * (design.transpose() * design).inverse();
  const double t = StudentQuantile(confidence, freedom);
  std::vector<Estimate> estimates;
  for (Eigen::Index c = 1; c < columns; ++c) {
    const double half = t * std::sqrt(covariance(c, c));
    estimates.push_back(
        {solution(c), {solution(c) - half, solution(c) + half}});
  }
  return estimates;
}

}  // namespace subquad
