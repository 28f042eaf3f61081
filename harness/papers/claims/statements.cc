#include "harness/papers/claims/statements.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <utility>

#include "harness/cases/draws.h"
#include "harness/papers/studies/spectrum.h"
#include "reference/kernelized/feature_map.h"
#include "reference/softmax/sparse_pattern.h"

namespace subquad {
namespace {

double Largest(const Numbers& x) { return *std::ranges::max_element(x); }

Numbers Reordered(const Numbers& x, int64_t width,
                  const std::vector<int64_t>& order) {
  Numbers y;
  for (int64_t row : order)
    y.insert(y.end(), x.begin() + row * width, x.begin() + (row + 1) * width);
  return y;
}

// Not its own inverse, and no token stays in its place.
std::vector<int64_t> Rotated(int64_t n, int64_t by) {
  std::vector<int64_t> order(static_cast<size_t>(n));
  for (int64_t i = 0; i < n; ++i) order[static_cast<size_t>(i)] = (i + by) % n;
  return order;
}

OperatorRun Softmax(int64_t n, int64_t d) {
  OperatorRun run("softmax_attention");
  run.Give("q", {n, d}, NormalNumbers(n * d, 1))
      .Give("k", {n, d}, NormalNumbers(n * d, 2))
      .Give("v", {n, d}, NormalNumbers(n * d, 3));
  return run;
}

double Dot(const double* a, const double* b, int64_t d) {
  return std::inner_product(a, a + d, b, 0.0);
}

std::vector<double> Sinusoids(int64_t positions, int64_t width) {
  std::vector<double> rows;
  for (int64_t i = 0; i < positions; ++i)
    for (int64_t f = 0; f < width / 2; ++f) {
      const double angle = static_cast<double>(i) *
                           std::pow(10000.0, -2 * static_cast<double>(f) /
                                                 static_cast<double>(width));
      rows.push_back(std::sin(angle));
      rows.push_back(std::cos(angle));
    }
  return rows;
}

}  // namespace

SoftmaxShift ShiftSoftmax() {
  const OperatorRun run = Softmax(20, 6);
  const Numbers before = run.Definition();
  OperatorRun queries = run, keys = run;
  for (double& x : queries["q"]) x += 0.7;
  for (double& x : keys["k"]) x += 0.7;
  return {LargestDifference(queries.Definition(), before),
          LargestDifference(keys.Definition(), before)};
}

Permuted PermuteAttention() {
  constexpr int64_t kN = 24, kD = 6;
  OperatorRun run = Softmax(kN, kD);
  OperatorRun permuted = run;
  const std::vector<int64_t> order = Rotated(kN, 7);
  for (const char* name : {"q", "k", "v"})
    permuted[name] = Reordered(run[name], kD, order);
  const Numbers before = run.Definition(), after = permuted.Definition();
  return {LargestDifference(after, before),
          LargestDifference(after, Reordered(before, kD, order))};
}

Reversal ReverseAttention() {
  constexpr int64_t kN = 24, kD = 6;
  std::vector<int64_t> order(kN);
  for (int64_t i = 0; i < kN; ++i) order[i] = kN - 1 - i;
  const auto gap = [&](bool by_distance) {
    OperatorRun run = Softmax(kN, kD);
    Numbers bias = NormalNumbers(2 * kN - 1, 4);
    if (by_distance)
      for (int64_t t = 0; t < kN - 1; ++t) bias[t] = bias[2 * kN - 2 - t];
    run.Give("bias", {2 * kN - 1}, bias);
    OperatorRun reversed = run;
    for (const char* name : {"q", "k", "v"})
      reversed[name] = Reordered(run[name], kD, order);
    return LargestDifference(reversed.Definition(),
                             Reordered(run.Definition(), kD, order));
  };
  return {gap(true), gap(false)};
}

Sharpness SharpestRow(int64_t n) {
  constexpr int64_t kD = 8;
  const auto weights = [&](const Numbers& q, const Numbers& k,
                           const Numbers& bias) {
    Numbers identity(static_cast<size_t>(n * n));
    for (int64_t j = 0; j < n; ++j) identity[j * n + j] = 1;
    OperatorRun run("softmax_attention");
    run.Set("scale", 1.0)
        .Give("q", {n, kD}, q)
        .Give("k", {n, kD}, k)
        .Give("v", {n, n}, identity);
    if (!bias.empty()) run.Give("bias", {2 * n - 1}, bias);
    return run.Definition();
  };
  const auto unit = [&](Numbers rows) {
    for (int64_t i = 0; i < n; ++i) {
      double* row = rows.data() + i * kD;
      const double length = std::sqrt(Dot(row, row, kD));
      for (int64_t c = 0; c < kD; ++c) row[c] /= length;
    }
    return rows;
  };
  const Numbers q = unit(NormalNumbers(n * kD, 1)),
                k = unit(NormalNumbers(n * kD, 2));
  Sharpness result = {};
  result.keys = n;
  const double e2 = std::exp(2.0);
  result.bound = e2 / (static_cast<double>(n - 1) + e2);
  result.drawn = Largest(weights(q, k, {}));
  // Key 0 along every query, the others against it.
  Numbers along(static_cast<size_t>(n * kD)), keys = along;
  for (int64_t i = 0; i < n; ++i) {
    along[i * kD] = 1;
    keys[i * kD] = i == 0 ? 1 : -1;
  }
  result.arranged = Largest(weights(along, keys, {}));
  Numbers bias(static_cast<size_t>(2 * n - 1));
  bias[n] = 20;  // the next token
  result.with_bias = Largest(weights(q, k, bias));
  return result;
}

std::vector<MapMean> MeansOfMaps(int64_t draws) {
  constexpr int64_t kD = 4;
  const double x[kD] = {0.5, -0.3, 0.2, 0.1}, y[kD] = {0.1, 0.4, -0.2, 0.3};
  const double exact = std::exp(Dot(x, y, kD)),
               norms = (Dot(x, x, kD) + Dot(y, y, kD)) / 2;
  std::vector<MapMean> means;
  for (const auto& [name, id] :
       {std::pair{"prf", FeatureMapId::kPrf},
        {"prf_hyperbolic", FeatureMapId::kPrfHyperbolic},
        {"trf", FeatureMapId::kTrf}}) {
    FeatureMapSpec spec;
    spec.id = id;
    spec.d = kD;
    spec.root_scale = 1;
    spec.projections = 1;
    const Draws stream(1, std::string("means/") + name);
    double sum = 0, squares = 0;
    for (int64_t draw = 0; draw < draws; ++draw) {
      double omega[kD];
      for (int64_t c = 0; c < kD; ++c)
        omega[c] = stream.Normal(static_cast<uint64_t>(draw * kD + c));
      const FeatureMap<double> map(spec, omega);
      std::vector<Scaled<double>> a, b;
      map.Row(x, a);
      map.Row(y, b);
      double product = 0;
      for (size_t f = 0; f < a.size(); ++f)
        product += std::ldexp(a[f].mantissa, a[f].exponent) *
                   std::ldexp(b[f].mantissa, b[f].exponent);
      // The map leaves out 1/sqrt(2p) where there are two features to a row.
      if (id == FeatureMapId::kPrfHyperbolic) product /= 2;
      const double ratio = product / exact;
      sum += ratio;
      squares += ratio * ratio;
    }
    const auto count = static_cast<double>(draws);
    const double mean = sum / count;
    const double error =
        std::sqrt((squares / count - mean * mean) / (count - 1));
    // exp(-|x|^2/2) of the positive features, exp(+|x|^2/2) of the others.
    const double sign = id == FeatureMapId::kTrf ? -1 : 1;
    means.push_back({name, mean, error, mean * std::exp(sign * norms / 2)});
  }
  return means;
}

int64_t PositionRank(int64_t positions, int64_t width) {
  const std::vector<double> values = Eigenvalues(
      GramMatrix(Sinusoids(positions, width), positions), positions);
  // Squares of singular values.
  return std::ranges::count_if(
      values, [&](double value) { return value > 1e-12 * values.back(); });
}

namespace {

double Nearest(const std::vector<double>& rows, int64_t width) {
  const auto count = static_cast<int64_t>(rows.size()) / width;
  double least = HUGE_VAL;
  for (int64_t i = 0; i < count; ++i)
    for (int64_t j = 0; j < i; ++j) {
      double square = 0;
      for (int64_t c = 0; c < width; ++c) {
        const double gap = rows[i * width + c] - rows[j * width + c];
        square += gap * gap;
      }
      least = std::min(least, std::sqrt(square));
    }
  return least;
}

}  // namespace

double NearestPositions(int64_t positions, int64_t width) {
  return Nearest(Sinusoids(positions, width), width);
}

double NearestOfOneFrequency(int64_t positions) {
  std::vector<double> rows;
  for (int64_t i = 0; i < positions; ++i) {
    const double angle = static_cast<double>(i) * std::numbers::pi / 4;
    rows.push_back(std::sin(angle));
    rows.push_back(std::cos(angle));
  }
  return Nearest(rows, 2);
}

int64_t QueriesOffTheShift(int64_t width, int64_t positions, int64_t offset) {
  const std::vector<double> rows = Sinusoids(positions, width);
  int64_t off = 0;
  for (int64_t i = 0; i + offset < positions; ++i) {
    std::vector<double> query(rows.begin() + i * width,
                              rows.begin() + (i + 1) * width);
    for (int64_t f = 0; f < width / 2; ++f) {
      const double angle = static_cast<double>(offset) *
                           std::pow(10000.0, -2 * static_cast<double>(f) /
                                                 static_cast<double>(width));
      const double sine = query[2 * f], cosine = query[2 * f + 1];
      query[2 * f] = std::cos(angle) * sine + std::sin(angle) * cosine;
      query[2 * f + 1] = -std::sin(angle) * sine + std::cos(angle) * cosine;
    }
    int64_t best = 0;
    double largest = -HUGE_VAL;
    for (int64_t j = 0; j < positions; ++j) {
      const double dot = Dot(query.data(), rows.data() + j * width, width);
      if (dot > largest) {
        largest = dot;
        best = j;
      }
    }
    off += best != i + offset;
  }
  return off;
}

int64_t LayersToReachAll(const Params& pattern, int64_t n, int64_t limit) {
  const SparsePattern rule(pattern, n);
  const auto size = static_cast<size_t>(n);
  std::vector<std::vector<bool>> reached(size, std::vector<bool>(size));
  for (size_t i = 0; i < size; ++i) reached[i][i] = true;
  for (int64_t layer = 1; layer <= limit; ++layer) {
    auto next = reached;
    bool all = true;
    for (size_t i = 0; i < size; ++i) {
      for (size_t j = 0; j < size; ++j) {
        if (!rule.Sees(static_cast<int64_t>(i), static_cast<int64_t>(j)))
          continue;
        for (size_t k = 0; k < size; ++k)
          if (reached[j][k]) next[i][k] = true;
      }
      all = all && std::ranges::all_of(next[i], [](bool one) { return one; });
    }
    reached = std::move(next);
    if (all) return layer;
  }
  return limit;
}

KernelRank RankOfExponential() {
  constexpr int64_t kPoints = 12, kD = 2;
  const Numbers points = NormalNumbers(kPoints * kD, 5, 1.5);
  const auto dot = [&](int64_t i, int64_t j) {
    return Dot(points.data() + i * kD, points.data() + j * kD, kD);
  };
  Numbers exponential, linear;
  for (int64_t i = 0; i < kPoints; ++i)
    for (int64_t j = 0; j < kPoints; ++j) {
      // Scaled to ones on the diagonal: the same rank, and numbers of one size.
      exponential.push_back(std::exp(dot(i, j) - (dot(i, i) + dot(j, j)) / 2));
      linear.push_back(1 + dot(i, j));
    }
  const auto least = [](const Numbers& matrix) {
    const std::vector<double> values = Eigenvalues(matrix, kPoints);
    return values.front() / values.back();
  };
  return {least(exponential), std::abs(least(linear)), kPoints, kD + 1};
}

Gating PermuteGating() {
  constexpr int64_t kN = 16, kD = 5;
  const Numbers x = NormalNumbers(kN * kD, 1), u1 = NormalNumbers(kD * kD, 2),
                u2 = NormalNumbers(kD * kD, 3),
                psi = NormalNumbers(2 * kN - 1, 4);
  const auto product = [](const Numbers& rows, const Numbers& w) {
    Numbers out(rows.size());
    for (int64_t i = 0; i < kN; ++i)
      for (int64_t c = 0; c < kD; ++c)
        for (int64_t b = 0; b < kD; ++b)
          out[i * kD + c] += rows[i * kD + b] * w[b * kD + c];
    return out;
  };
  // Psi is a Toeplitz matrix, applied by that operator.
  const auto gate = [&](const Numbers& rows, bool mixes) {
    Numbers right = product(rows, u2);
    if (mixes) {
      OperatorRun run("toeplitz_1d");
      run.Give("weights", {2 * kN - 1}, psi).Give("values", {kN, kD}, right);
      right = run.Definition();
    }
    const Numbers left = product(rows, u1);
    for (size_t c = 0; c < right.size(); ++c)
      right[c] /= 1 + std::exp(-left[c]);
    return right;
  };
  const std::vector<int64_t> order = Rotated(kN, 5);
  const auto gap = [&](bool mixes) {
    return LargestDifference(gate(Reordered(x, kD, order), mixes),
                             Reordered(gate(x, mixes), kD, order));
  };
  return {gap(false), gap(true)};
}

FourTerms AddFourTerms() {
  constexpr int64_t kN = 12, kWide = 5, kD = 4;
  const Numbers x = NormalNumbers(kN * kWide, 1),
                pos = NormalNumbers(kN * kWide, 2),
                w_q = NormalNumbers(kWide * kD, 3, 0.5),
                w_k = NormalNumbers(kWide * kD, 4, 0.5);
  Numbers identity(kWide * kWide);
  for (int64_t c = 0; c < kWide; ++c) identity[c * kWide + c] = 1;
  OperatorRun run("position_attention");
  run.Set("scheme", std::string("absolute_scores"))
      .Set("scale", 1.0)
      .Give("x", {kN, kWide}, x)
      .Give("pos", {kN, kWide}, pos)
      .Give("w_q", {kWide, kD}, w_q)
      .Give("w_k", {kWide, kD}, w_k)
      .Give("w_v", {kWide, kWide}, identity);
  const Numbers whole = run.Definition();
  const auto term = [&](const double* a, const double* b) {
    double sum = 0;
    for (int64_t c = 0; c < kD; ++c) {
      double q = 0, k = 0;
      for (int64_t s = 0; s < kWide; ++s) {
        q += a[s] * w_q[s * kD + c];
        k += b[s] * w_k[s * kD + c];
      }
      sum += q * k;
    }
    return sum;
  };
  const auto output = [&](bool last) {
    Numbers out(static_cast<size_t>(kN * kWide));
    for (int64_t i = 0; i < kN; ++i) {
      Numbers weights;
      double sum = 0;
      for (int64_t j = 0; j < kN; ++j) {
        const double *xi = x.data() + i * kWide, *xj = x.data() + j * kWide,
                     *pi = pos.data() + i * kWide, *pj = pos.data() + j * kWide;
        const double score = term(xi, xj) + term(xi, pj) + term(pi, xj) +
                             (last ? term(pi, pj) : 0);
        weights.push_back(std::exp(score));
        sum += weights.back();
      }
      for (int64_t j = 0; j < kN; ++j)
        for (int64_t c = 0; c < kWide; ++c)
          out[i * kWide + c] += weights[j] / sum * x[j * kWide + c];
    }
    return out;
  };
  return {LargestDifference(output(true), whole),
          LargestDifference(output(false), whole)};
}

}  // namespace subquad
