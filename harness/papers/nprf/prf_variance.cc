// NPRF lemma 2: phi(x) phi(y) of positive random features has mean exp(x y)
// and variance (exp(|x+y|^2) - 1) exp(x y)^2 / m. And the same for the two maps
// with two features to a row of Omega, hyperbolic and trigonometric ones:
// over exp(x y)^2 / m it is cosh(|x+y|^2) - 1 and cosh(|x-y|^2) - 1.
//
// The features are those of the library's programs (Target::features), with its
// constants put back. Every cell (map, lengths, angle, m) has vectors and a
// matrix of its own: cells are independent.
//
// The estimate has a long tail: a sample variance lies below the variance more
// often than above it, and no symmetric interval holds. Over exp(x y) one row
// of Omega gives, with g from N(0, 1) and s = |x+y|^2 or |x-y|^2,
//   exp(g sqrt(s) - s/2),  exp(-s/2) cosh(g sqrt(s)),  exp(s/2) cos(g sqrt(s)).
// So the distribution of a cell's sample mean and variance, if the lemma holds,
// is simulated from single normal numbers, and its middle 95 % is the interval.
// The verdict counts the cells outside: a binomial number with 5 %.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/nprf/nprf.h"
#include "optimized/targets.h"

namespace subquad {
namespace {

constexpr double kOutside = 0.05;     // of the cells, if the lemma holds
constexpr double kChance = 0.001;     // of as many cells outside, or more
constexpr double kWidest = 1.5;       // high over low of a cell that is judged
constexpr int64_t kBlockRows = 1600;  // of Omega, at once

struct Map {
  std::string name;
  FeatureMapId id;
  // The estimate over exp(x y) of one row, and its variance.
  double (*ratio)(double g, double s);
  double (*variance)(double s);
};

const std::vector<Map>& Maps() {
  const auto cosh_less_one = [](double s) {
    const double half = std::sinh(s / 2);
    return 2 * half * half;
  };
  static const std::vector<Map> maps = {
      {"prf", FeatureMapId::kPrf,
       [](double g, double s) { return std::exp(g * std::sqrt(s) - s / 2); },
       [](double s) { return std::expm1(s); }},
      {"prf_hyperbolic", FeatureMapId::kPrfHyperbolic,
       [](double g, double s) {
         return std::exp(-s / 2) * std::cosh(g * std::sqrt(s));
       },
       cosh_less_one},
      {"trf", FeatureMapId::kTrf,
       [](double g, double s) {
         return std::exp(s / 2) * std::cos(g * std::sqrt(s));
       },
       cosh_less_one}};
  return maps;
}

struct Cell {
  const Map* map;
  double norm, cosine, spread;  // spread: s
  int64_t m;
  std::string name;
};

std::vector<Cell> CellsOf(const Json& parameters) {
  std::vector<Cell> cells;
  for (const Map& map : Maps())
    for (double cosine : parameters.at("cosines").get<std::vector<double>>())
      for (double norm : parameters.at("norms").get<std::vector<double>>())
        for (int64_t m : parameters.at("m").get<std::vector<int64_t>>()) {
          const double sign = map.id == FeatureMapId::kTrf ? -1 : 1;
          cells.push_back(
              {&map, norm, cosine, 2 * norm * norm * (1 + sign * cosine), m,
               fmt::format("{}/{}/{}/{}", map.name, norm, cosine, m)});
        }
  return cells;
}

// Mean less one and variance of the averages over m neighbours.
struct Moments {
  double mean = 0, variance = 0;
};
Moments MomentsOf(const std::vector<double>& ratio, int64_t m) {
  const auto draws = static_cast<int64_t>(ratio.size()) / m;
  double first = 0, second = 0;
  for (int64_t draw = 0; draw < draws; ++draw) {
    double total = 0;
    for (int64_t a = 0; a < m; ++a)
      total += ratio[static_cast<size_t>(draw * m + a)] - 1;
    total /= static_cast<double>(m);
    first += total;
    second += total * total;
  }
  const auto count = static_cast<double>(draws);
  const double mean = first / count;
  return {mean, (second - count * mean * mean) / (count - 1)};
}

// Unit vectors with the given cosine: the first two of a random basis.
std::pair<std::vector<double>, std::vector<double>> Directions(
    const Draws& draws, int64_t d, double cosine) {
  const std::vector<double> basis =
      SampleOmega(OmegaSampler::kOrthogonal, draws, 0, d, d);
  std::vector<double> x(basis.begin(), basis.begin() + d);
  std::vector<double> other(basis.begin() + d, basis.begin() + 2 * d);
  NormalizeRows(x, d);
  NormalizeRows(other, d);
  std::vector<double> y(x);
  for (size_t c = 0; c < y.size(); ++c)
    y[c] = cosine * x[c] + std::sqrt(1 - cosine * cosine) * other[c];
  return {x, y};
}

// phi(x) phi(y) / exp(x y) for each of `rows` rows of Omega, by the features of
// the library's programs.
std::vector<double> Sample(const StudyRun& run, const Cell& cell, int64_t d,
                           int64_t rows) {
  auto [x, y] =
      Directions(run.DrawsOf("directions/" + cell.name), d, cell.cosine);
  double dot = 0;
  for (size_t c = 0; c < x.size(); ++c) {
    x[c] *= cell.norm;
    y[c] *= cell.norm;
    dot += x[c] * y[c];
  }
  FeatureMapSpec spec;
  spec.id = cell.map->id;
  spec.d = d;
  spec.root_scale = 1;
  spec.projections = kBlockRows;
  const auto f = static_cast<size_t>(spec.features());
  const bool two = spec.features() == 2 * kBlockRows;
  std::vector<double> mantissas[2], exponents[2];
  for (int side = 0; side < 2; ++side) {
    mantissas[side].resize(f);
    exponents[side].resize(f);
  }
  const Draws draws = run.DrawsOf("omega/" + cell.name);
  std::vector<double> ratio;
  for (int64_t first = 0; first < rows; first += kBlockRows) {
    const std::vector<double> omega =
        SampleNormal(draws, first / kBlockRows, kBlockRows * d);
    for (int side = 0; side < 2; ++side)
      CurrentTarget().features(spec, (side == 0 ? x : y).data(), 1,
                               omega.data(), mantissas[side].data(),
                               exponents[side].data());
    const auto product = [&](size_t a) {
      return mantissas[0][a] * mantissas[1][a] *
             std::exp2(exponents[0][a] + exponents[1][a]);
    };
    // The program leaves 1/2 of hyperbolic features out; cos and sin add up.
    const double factor =
        cell.map->id == FeatureMapId::kPrfHyperbolic ? 0.5 : 1;
    for (int64_t row = 0; row < std::min(kBlockRows, rows - first); ++row) {
      const auto a = static_cast<size_t>(row);
      const double sum =
          product(a) + (two ? product(a + static_cast<size_t>(kBlockRows)) : 0);
      ratio.push_back(factor * sum / std::exp(dot));
    }
  }
  return ratio;
}

StudyTable EmptyTable() {
  return {"variance",
          {{"map", "name", "feature map"},
           {"norm", "1", "|x| = |y|"},
           {"cosine", "1", "of the angle between x and y"},
           {"spread", "1", "|x+y|^2, of trf |x-y|^2"},
           {"m", "1", "rows of Omega"},
           {"draws", "1", "estimates"},
           {"mean_ratio", "1", "sample mean / exp(x y)"},
           {"mean_low", "1",
            "95 % of samples have a mean from here, by the "
            "lemma"},
           {"mean_high", "1", "to here"},
           {"variance", "1", "sample variance of the estimate over exp(x y)"},
           {"lemma", "1", "the variance by theory"},
           {"variance_ratio", "1", "sample variance / variance by theory"},
           {"low", "1", "95 % of samples have a ratio from here, by the lemma"},
           {"high", "1", "to here"},
           {"judged", "flag", "high is at most 1.5 times low"}},
          {}};
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t d = parameters.at("d"), rows = parameters.at("rows"),
                simulations = parameters.at("simulations");
  const std::vector<Cell> cells = CellsOf(parameters);
  // What the lemma gives: [simulation][cell].
  std::vector<std::vector<Moments>> null(static_cast<size_t>(simulations));
  const Draws normal = run.DrawsOf("null");
  run.For(simulations, [&](int64_t simulation) {
    const std::vector<double> g = SampleNormal(normal, simulation, rows);
    std::vector<double> ratio(g.size());
    std::vector<Moments>& moments = null[static_cast<size_t>(simulation)];
    for (size_t i = 0; i < cells.size(); ++i) {
      const Cell& cell = cells[i];
      if (i == 0 || cell.map != cells[i - 1].map ||
          cell.spread != cells[i - 1].spread)
        std::ranges::transform(g, ratio.begin(), [&](double one) {
          return cell.map->ratio(one, cell.spread);
        });
      moments.push_back(MomentsOf(ratio, cell.m));
    }
  });
  std::vector<Moments> found(cells.size());
  run.For(static_cast<int64_t>(cells.size()), [&](int64_t index) {
    const Cell& cell = cells[static_cast<size_t>(index)];
    found[static_cast<size_t>(index)] =
        MomentsOf(Sample(run, cell, d, rows), cell.m);
  });
  StudyTable table = EmptyTable();
  for (size_t i = 0; i < cells.size(); ++i) {
    const Cell& cell = cells[i];
    const double theory =
        cell.map->variance(cell.spread) / static_cast<double>(cell.m);
    std::vector<double> means, ratios;
    for (const auto& simulation : null) {
      means.push_back(1 + simulation[i].mean);
      ratios.push_back(simulation[i].variance / theory);
    }
    const double low = Quantile(ratios, kOutside / 2),
                 high = Quantile(ratios, 1 - kOutside / 2);
    table.Add({cell.map->name, cell.norm, cell.cosine, cell.spread, cell.m,
               rows / cell.m, 1 + found[i].mean, Quantile(means, kOutside / 2),
               Quantile(means, 1 - kOutside / 2), found[i].variance, theory,
               found[i].variance / theory, low, high, high <= kWidest * low});
  }
  return {table};
}

// P(at least k of n), each with probability kOutside.
double ChanceOf(int64_t k, int64_t n) {
  double below = 0, term = std::pow(1 - kOutside, static_cast<double>(n));
  for (int64_t i = 0; i < k; ++i) {
    below += term;
    term *= static_cast<double>(n - i) / static_cast<double>(i + 1) * kOutside /
            (1 - kOutside);
  }
  return std::max(0.0, 1 - below);
}

// Cells of a map whose number lies outside its interval after it is multiplied.
int64_t Outside(const StudyTable& table, const std::vector<size_t>& rows,
                const char* value, const char* low, const char* high,
                double factor) {
  return std::ranges::count_if(rows, [&](size_t r) {
    const double x = factor * table.Number(r, value);
    return !(x >= table.Number(r, low) && x <= table.Number(r, high));
  });
}

// The least factor above 1 by which all variances could be too large, or too
// small, and the rule would say so.
double Power(const StudyTable& table, const std::vector<size_t>& rows) {
  const auto count = static_cast<int64_t>(rows.size());
  const auto refused = [&](double factor) {
    return ChanceOf(
               Outside(table, rows, "variance_ratio", "low", "high", factor),
               count) < kChance;
  };
  for (double factor = 1.001; factor < 4; factor *= 1.001)
    if (refused(factor) && refused(1 / factor)) return factor;
  return NAN;
}

StudyVerdict JudgeMap(const StudyTable& table, const std::string& map,
                      const std::string& claim, const std::string& says) {
  std::vector<size_t> rows, judged;
  double largest = 0;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    if (table.Text(r, "map") != map) continue;
    rows.push_back(r);
    if (!table.Flag(r, "judged")) continue;
    judged.push_back(r);
    largest = Worst(largest, table.Number(r, "spread"));
  }
  const auto cells = static_cast<int64_t>(rows.size()),
             with_power = static_cast<int64_t>(judged.size());
  const int64_t means =
      Outside(table, rows, "mean_ratio", "mean_low", "mean_high", 1);
  const int64_t variances =
      Outside(table, judged, "variance_ratio", "low", "high", 1);
  StudyVerdict verdict{claim, says};
  verdict.outcome =
      Decide(with_power > 0 && ChanceOf(means, cells) >= kChance &&
             ChanceOf(variances, with_power) >= kChance);
  verdict.numbers = fmt::format(
      "{}: the mean of {} of {} independent cells and the variance of {} of {} "
      "lie outside what 95 % of samples have by the lemma (simulated; as many "
      "or more have a chance of {:.2g} and {:.2g}, limit {:g}); variances "
      "{:.1f} % off would have been found; s up to {:.3g}",
      map, means, cells, variances, with_power, ChanceOf(means, cells),
      ChanceOf(variances, with_power), kChance,
      100 * (Power(table, judged) - 1), largest);
  if (cells > with_power)
    verdict.numbers += fmt::format(
        "; the variance of {} more cannot be judged by sampling: their "
        "intervals reach over a factor of {:g}",
        cells - with_power, kWidest);
  return verdict;
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "variance");
  return {JudgeMap(table, "prf", "nprf-lemma2",
                   "the estimate of exp(x y) by positive random features is "
                   "unbiased, with the variance of lemma 2"),
          JudgeMap(table, "prf_hyperbolic", "prf-variance-hyperbolic",
                   "with exp(w x) and exp(-w x) it is unbiased, with variance "
                   "(cosh |x+y|^2 - 1) exp(x y)^2 / m"),
          JudgeMap(table, "trf", "nprf-lemma2-trf",
                   "trigonometric features are unbiased, with variance "
                   "(cosh |x-y|^2 - 1) exp(x y)^2 / m: it grows with the "
                   "lengths in the same way")};
}

}  // namespace

Study PrfVarianceStudy() {
  Study study;
  study.name = "prf_variance";
  study.purpose =
      "Mean and variance of the estimate of the softmax kernel by random "
      "features, compared with lemma 2.";
  study.source = "NPRF lemma 2";
  study.parameters = {{"d", 8},
                      {"rows", 96000},
                      {"simulations", 399},
                      {"m", {1, 4, 16, 64}},
                      {"norms", {0.25, 0.5, 0.75, 1.0, 1.5, 2.0}},
                      {"cosines", {-0.5, 0.0, 0.5}}};
  study.tiny = {{"rows", 16000}, {"simulations", 99}, {"cosines", {0.0}}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
