#include "harness/papers/frame/random_features.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <numeric>

namespace subquad {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using ConstMatrix = Eigen::Map<const Matrix>;
using ConstArray = Eigen::Map<const Eigen::ArrayXd>;

// Eigen's sums over memory of others start at the first aligned address, so
// that their last bits would depend on where the allocator put it. Copies in
// Eigen's own memory are aligned: the same bits every time.
Matrix Aligned(const double* values, int64_t rows, int64_t columns) {
  return ConstMatrix(values, rows, columns);
}
Eigen::VectorXd Aligned(const double* values, int64_t count) {
  return Eigen::Map<const Eigen::VectorXd>(values, count);
}

double Norm(const double* row, int64_t d) {
  return std::sqrt(std::inner_product(row, row + d, row, 0.0));
}

// Gram and Schmidt on blocks of d normal rows, twice for the sake of rounding:
// a random orthogonal basis, since normal rows have no preferred direction.
void Orthogonalize(std::vector<double>& rows, int64_t d) {
  const int64_t count = static_cast<int64_t>(rows.size()) / d;
  for (int64_t r = 0; r < count; ++r) {
    double* row = rows.data() + r * d;
    for (int pass = 0; pass < 2; ++pass) {
      for (int64_t s = r / d * d; s < r; ++s) {
        const double* other = rows.data() + s * d;
        const double dot = std::inner_product(row, row + d, other, 0.0);
        for (int64_t c = 0; c < d; ++c) row[c] -= dot * other[c];
      }
      const double norm = Norm(row, d);
      for (int64_t c = 0; c < d; ++c) row[c] /= norm;
    }
  }
}

ConstArray DotsOf(const Projections& seen, int64_t query, int64_t count) {
  return {seen.dots.data() + query * seen.n, count};
}

// exp(bias) over its largest; ones without a bias.
Eigen::ArrayXd BiasWeights(const double* bias, int64_t count) {
  if (!bias) return Eigen::ArrayXd::Ones(count);
  const ConstArray values(bias, count);
  return (values - values.maxCoeff()).exp();
}

// Softmax of square * dots + bias.
Eigen::ArrayXd ExactWeights(const ConstArray& dots, double square,
                            const double* bias) {
  Eigen::ArrayXd exact = square * dots;
  if (bias) exact += ConstArray(bias, exact.size());
  exact = (exact - exact.maxCoeff()).exp().eval();
  return exact / exact.sum();
}

}  // namespace

const std::vector<RandomMapKind>& RandomMapKinds() {
  static const std::vector<RandomMapKind> kinds = {
      {"prf", RandomMap::kPrf, OmegaSampler::kGaussian},
      {"orf", RandomMap::kPrf, OmegaSampler::kOrthogonal},
      {"sphere", RandomMap::kPrf, OmegaSampler::kSphere},
      {"prf_hyperbolic", RandomMap::kPrfHyperbolic, OmegaSampler::kGaussian},
      {"trf", RandomMap::kTrf, OmegaSampler::kGaussian},
  };
  return kinds;
}

std::vector<double> SampleNormal(const Draws& draws, int64_t draw,
                                 int64_t count) {
  std::vector<double> values(static_cast<size_t>(count));
  const uint64_t first = static_cast<uint64_t>(draw) * values.size();
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = draws.Normal(first + i);
  return values;
}

void NormalizeRows(std::vector<double>& rows, int64_t d) {
  for (size_t r = 0; r < rows.size(); r += static_cast<size_t>(d)) {
    const double norm = Norm(rows.data() + r, d);
    for (int64_t c = 0; c < d; ++c) rows[r + static_cast<size_t>(c)] /= norm;
  }
}

std::vector<double> SampleUnitRows(const Draws& draws, int64_t draw,
                                   int64_t rows, int64_t d) {
  std::vector<double> values = SampleNormal(draws, draw, rows * d);
  NormalizeRows(values, d);
  return values;
}

std::vector<double> SampleOmega(OmegaSampler sampler, const Draws& draws,
                                int64_t draw, int64_t rows, int64_t d) {
  if (sampler == OmegaSampler::kGaussian)
    return SampleNormal(draws, draw, rows * d);
  // Twice as many numbers: those of the second half give the lengths.
  std::vector<double> values = SampleNormal(draws, draw, 2 * rows * d);
  const std::vector<double> second(values.begin() + rows * d, values.end());
  values.resize(static_cast<size_t>(rows * d));
  if (sampler == OmegaSampler::kOrthogonal)
    Orthogonalize(values, d);
  else
    NormalizeRows(values, d);
  for (int64_t r = 0; r < rows; ++r) {
    const double length = sampler == OmegaSampler::kOrthogonal
                              ? Norm(second.data() + r * d, d)
                              : std::sqrt(static_cast<double>(d));
    for (int64_t c = 0; c < d; ++c)
      values[static_cast<size_t>(r * d + c)] *= length;
  }
  return values;
}

Projections Project(const std::vector<double>& queries,
                    const std::vector<double>& keys,
                    const std::vector<double>& omega, int64_t d) {
  const int64_t count = static_cast<int64_t>(queries.size()) / d;
  Projections seen;
  seen.n = static_cast<int64_t>(keys.size()) / d;
  seen.p = static_cast<int64_t>(omega.size()) / d;
  seen.queries.resize(static_cast<size_t>(count * seen.p));
  seen.keys.resize(static_cast<size_t>(seen.p * seen.n));
  seen.dots.resize(static_cast<size_t>(count * seen.n));
  seen.half_squares.resize(static_cast<size_t>(count * seen.n));
  const Matrix w = Aligned(omega.data(), seen.p, d),
               k = Aligned(keys.data(), seen.n, d),
               q = Aligned(queries.data(), count, d);
  Eigen::Map<Matrix>(seen.queries.data(), count, seen.p).noalias() =
      q * w.transpose();
  Eigen::Map<Matrix>(seen.keys.data(), seen.p, seen.n).noalias() =
      w * k.transpose();
  Eigen::Map<Matrix>(seen.dots.data(), count, seen.n).noalias() =
      q * k.transpose();
  const Eigen::VectorXd key_squares = k.rowwise().squaredNorm(),
                        query_squares = q.rowwise().squaredNorm();
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < seen.n; ++j)
      seen.half_squares[static_cast<size_t>(i * seen.n + j)] =
          (query_squares(i) + key_squares(j)) / 2;
  return seen;
}

std::vector<double> AttentionErrors(RandomMap map, const Projections& seen,
                                    int64_t query, int64_t count, double radius,
                                    const double* bias,
                                    const std::vector<int64_t>& rows) {
  std::vector<double> errors;
  AttentionEstimates(map, seen, query, count, radius, bias, rows,
                     [&](const double* estimate, const double* exact) {
                       errors.push_back((ConstArray(estimate, count) -
                                         ConstArray(exact, count))
                                            .abs()
                                            .sum());
                     });
  return errors;
}

void AttentionEstimates(RandomMap map, const Projections& seen, int64_t query,
                        int64_t count, double radius, const double* bias,
                        const std::vector<int64_t>& rows,
                        const VisitEstimate& visit) {
  const double square = radius * radius;
  const ConstArray dots = DotsOf(seen, query, count);
  const ConstArray half_squares(seen.half_squares.data() + query * seen.n,
                                count);
  const Eigen::ArrayXd weight = BiasWeights(bias, count),
                       exact = ExactWeights(dots, square, bias);
  const Eigen::ArrayXd shift = square * half_squares;
  const auto key = [&](int64_t a) {
    return ConstArray(seen.keys.data() + a * seen.n, count);
  };
  const auto projected = [&](int64_t a) {
    return seen.queries[static_cast<size_t>(query * seen.p + a)];
  };
  // What a row of Omega adds: with exp(-half_squares) inside, and the largest
  // of all taken out, so that no exponential is large and not all are zero.
  // trf has a common factor that cancels per key only.
  const Eigen::ArrayXd outside =
      map == RandomMap::kTrf
          ? Eigen::ArrayXd(weight * (shift - shift.maxCoeff()).exp())
          : weight;
  double largest = -HUGE_VAL;
  if (map != RandomMap::kTrf)
    for (int64_t a = 0; a < rows.back(); ++a) {
      const double one = projected(a);
      largest = std::max(largest, (radius * (key(a) + one) - shift).maxCoeff());
      if (map == RandomMap::kPrfHyperbolic)
        largest =
            std::max(largest, (-radius * (key(a) + one) - shift).maxCoeff());
    }
  const Eigen::ArrayXd lowered = shift + largest;
  Eigen::ArrayXd sum = Eigen::ArrayXd::Zero(count), estimate(count);
  int64_t a = 0;
  for (const int64_t end : rows) {
    for (; a < end; ++a) {
      const double one = projected(a);
      if (map == RandomMap::kTrf) {
        // sin sin + cos cos
        sum += (radius * (key(a) - one)).cos();
        continue;
      }
      sum += (radius * (key(a) + one) - lowered).exp();
      if (map == RandomMap::kPrfHyperbolic)
        sum += (-radius * (key(a) + one) - lowered).exp();
    }
    estimate = outside * sum;
    estimate /= estimate.sum();
    visit(estimate.data(), exact.data());
  }
}

const std::vector<BaselineKind>& BaselineKinds() {
  static const std::vector<BaselineKind> kinds = {
      {"uniform", Baseline::kUniform},
      {"bias", Baseline::kBias},
      {"taylor1", Baseline::kTaylor},
      {"taylor1_clipped", Baseline::kTaylorClipped},
  };
  return kinds;
}

BaselineError ErrorOf(Baseline map, const Projections& seen, int64_t query,
                      int64_t count, double radius, const double* bias,
                      const VisitEstimate& visit) {
  const double square = radius * radius;
  const ConstArray dots = DotsOf(seen, query, count);
  const Eigen::ArrayXd exact = ExactWeights(dots, square, bias);
  Eigen::ArrayXd estimate = Eigen::ArrayXd::Ones(count);
  if (map != Baseline::kUniform) estimate = BiasWeights(bias, count);
  if (map == Baseline::kTaylor || map == Baseline::kTaylorClipped)
    estimate *= 1 + square * dots;
  const auto negative = static_cast<double>((estimate < 0).count());
  if (map == Baseline::kTaylorClipped) estimate = estimate.max(0.0).eval();
  const double sum = estimate.sum();
  // Without any weight left there is no row: the largest distance there is.
  if (sum == 0) return {2, negative / static_cast<double>(count)};
  estimate /= sum;
  if (visit) visit(estimate.data(), exact.data());
  return {(estimate - exact).abs().sum(),
          negative / static_cast<double>(count)};
}

void PrfRatios(const double* omega, int64_t count, int64_t d, const double* x,
               const double* y, double* ratio) {
  const Matrix w = Aligned(omega, count, d);
  const Eigen::VectorXd first = Aligned(x, d), second = Aligned(y, d);
  const Eigen::ArrayXd features_x =
      ((w * first).array() - first.squaredNorm() / 2).exp();
  const Eigen::ArrayXd features_y =
      ((w * second).array() - second.squaredNorm() / 2).exp();
  Eigen::Map<Eigen::ArrayXd>(ratio, count) =
      features_x * features_y / std::exp(first.dot(second));
}

}  // namespace subquad
