// NPRF theorem 3: m = Theta(n exp(4 R^2) / (epsilon^2 delta)) features suffice
// for Pr(|A - A^|_1 >= epsilon) <= delta.
//
// The proof chooses m = n exp(4R^2) / (e^2 delta) and ends with an error below
// 2e / (1 - e) < 4e, where the last step needs e < 1/2. So for an error of
// epsilon it asks for e = epsilon / 4, m = 16 n exp(4R^2) / (epsilon^2 delta),
// with which the smallest sufficient m is compared. The share of draws that
// miss epsilon has a Wilson interval, and so the smallest m has one.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/cases/draws.h"
#include "harness/papers/studies/random_features.h"
#include "harness/papers/studies/studies.h"

namespace subquad {
namespace {

// Wilson's 95 % interval of a share.
Interval Wilson(double misses, double draws) {
  const double z = 1.96, share = misses / draws;
  const double scale = 1 + z * z / draws;
  const double middle = (share + z * z / (2 * draws)) / scale;
  const double half =
      z / scale *
      std::sqrt(share * (1 - share) / draws + z * z / (4 * draws * draws));
  return {middle - half, middle + half};
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t d = parameters.at("d"), draws = parameters.at("draws");
  const double delta = parameters.at("delta");
  const auto keys = parameters.at("n").get<std::vector<int64_t>>();
  const auto radii = parameters.at("R").get<std::vector<double>>();
  const auto epsilons = parameters.at("epsilon").get<std::vector<double>>();
  std::vector<int64_t> rows;  // powers of sqrt(2)
  for (double m = 1; m <= parameters.at("m_max").get<double>() + 0.5;
       m *= std::sqrt(2.0))
    if (rows.empty() || std::llround(m) > rows.back())
      rows.push_back(std::llround(m));
  const Draws query_draws = run.DrawsOf("query"),
              key_draws = run.DrawsOf("keys"),
              omega_draws = run.DrawsOf("omega");
  // [draw][n][R][m]
  std::vector<std::vector<std::vector<std::vector<double>>>> errors(
      static_cast<size_t>(draws));
  run.For(draws, [&](int64_t draw) {
    const std::vector<double> query = SampleUnitRows(query_draws, draw, 1, d);
    const std::vector<double> key =
        SampleUnitRows(key_draws, draw, keys.back(), d);
    const std::vector<double> omega =
        SampleOmega(OmegaSampler::kGaussian, omega_draws, draw, rows.back(), d);
    auto& one = errors[static_cast<size_t>(draw)];
    for (int64_t n : keys) {
      const Projections seen =
          Project(query, {key.begin(), key.begin() + n * d}, omega, d);
      one.emplace_back();
      for (double radius : radii)
        one.back().push_back(
            AttentionErrors(RandomMap::kPrf, seen, radius, nullptr, rows));
    }
  });
  StudyTable table{
      "smallest",
      {{"R", "1", "norm of the query and of every key"},
       {"n", "1", "keys"},
       {"epsilon", "1", "allowed |A - A^|_1"},
       {"delta", "1", "share of draws that may exceed it"},
       {"m", "1", "smallest sufficient m; null if none tried suffices"},
       {"low", "1", "95 % interval of m"},
       {"high", "1", "95 % interval of m; null beyond the largest m tried"},
       {"bound", "1", "16 n exp(4 R^2) / (epsilon^2 delta)"},
       {"bound_over_m", "1", "bound over the smallest sufficient m"}},
      {}};
  for (size_t r = 0; r < radii.size(); ++r)
    for (size_t k = 0; k < keys.size(); ++k)
      for (double epsilon : epsilons) {
        Json smallest, low, high;
        for (size_t f = 0; f < rows.size(); ++f) {
          double misses = 0;
          for (const auto& draw : errors) misses += draw[k][r][f] >= epsilon;
          const double count = static_cast<double>(draws);
          const Interval share = Wilson(misses, count);
          if (low.is_null() && share.low <= delta) low = rows[f];
          if (smallest.is_null() && misses <= delta * count) smallest = rows[f];
          if (high.is_null() && share.high <= delta) high = rows[f];
        }
        const double bound = 16 * static_cast<double>(keys[k]) *
                             std::exp(4 * radii[r] * radii[r]) /
                             (epsilon * epsilon * delta);
        table.Add({radii[r], keys[k], epsilon, delta, smallest, low, high,
                   bound,
                   smallest.is_null() ? Json()
                                      : Json(bound / smallest.get<double>())});
      }
  return {table};
}

// Least-squares slope of log(m) against x; cells without m are left out.
double Slope(const std::vector<double>& x, const std::vector<double>& y) {
  double sx = 0, sy = 0, sxx = 0, sxy = 0;
  const double count = static_cast<double>(x.size());
  for (size_t i = 0; i < x.size(); ++i) sx += x[i] / count, sy += y[i] / count;
  for (size_t i = 0; i < x.size(); ++i) {
    sxx += (x[i] - sx) * (x[i] - sx);
    sxy += (x[i] - sx) * (y[i] - sy);
  }
  return sxy / sxx;
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "smallest");
  const auto keys = parameters.at("n").get<std::vector<double>>();
  const double tried = parameters.at("m_max");
  int found = 0, unknown = 0, broken = 0;
  double least = HUGE_VAL, most = 0;
  std::vector<double> squares, logs, log_n, log_m;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const double m = table.Number(r, "m"), bound = table.Number(r, "bound");
    if (std::isnan(m)) {
      // None tried suffices; that breaks the bound only if it was tried.
      bound <= tried ? ++broken : ++unknown;
      continue;
    }
    ++found;
    broken += !(m <= bound);
    least = Least(least, bound / m);
    most = Worst(most, bound / m);
    const double radius = table.Number(r, "R");
    if (table.Number(r, "n") == keys.back()) {
      squares.push_back(radius * radius);
      logs.push_back(std::log(m) + 2 * std::log(table.Number(r, "epsilon")));
    }
    log_n.push_back(std::log(table.Number(r, "n")));
    // Growth with n alone: dividing by the bound removes R and epsilon.
    log_m.push_back(std::log(m / bound) + std::log(table.Number(r, "n")));
  }
  StudyVerdict verdict{"nprf-thm3",
                       "m = Theta(n exp(4 R^2) / (epsilon^2 delta)) suffices"};
  verdict.outcome = Decide(found > 0 && broken == 0);
  verdict.numbers = fmt::format(
      "in {} settings the bound suffices, and asks for {:.3g} to {:.3g} times "
      "the m that is needed; the needed m grows like exp({:.2f} R^2) (bound: "
      "exp(4 R^2)) and like n^{:.2f} (bound: n)",
      found, least, most, squares.size() > 2 ? Slope(squares, logs) : NAN,
      log_n.size() > 2 ? Slope(log_n, log_m) : NAN);
  if (unknown > 0)
    verdict.numbers += fmt::format("; in {} settings more than {:g} are needed",
                                   unknown, tried);
  if (broken > 0)
    verdict.numbers += fmt::format("; in {} the bound is too small", broken);

  // 2e/(1-e) < 4e, on both sides of 1/2.
  const auto step = [](double e) { return 2 * e / (1 - e) < 4 * e; };
  StudyVerdict last{"nprf-thm3-step",
                    "erratum: the proof's last step, 2e/(1-e) < 4e, needs "
                    "e < 1/2"};
  last.outcome = Decide(step(0.499) && !step(0.5) && !step(0.6));
  last.numbers = fmt::format(
      "at e = 0.499: {:.3f} < {:.3f}; at 0.6: {:.3f}, not below {:.3f}",
      2 * 0.499 / 0.501, 4 * 0.499, 2 * 0.6 / 0.4, 4 * 0.6);
  return {verdict, last};
}

}  // namespace

Study SampleComplexityStudy() {
  Study study;
  study.name = "sample_complexity";
  study.purpose =
      "The smallest number of features that reaches an error with a "
      "probability, against the bound of theorem 3.";
  study.source = "NPRF theorem 3";
  study.parameters = {{"d", 64},
                      {"draws", 400},
                      {"n", {16, 64, 256}},
                      {"R", {0.5, 0.75, 1.0, 1.25, 1.5}},
                      {"epsilon", {0.5, 0.25}},
                      {"delta", 0.1},
                      {"m_max", 2048}};
  study.tiny = {{"draws", 60},
                {"n", {8, 32}},
                {"R", {0.5, 0.75, 1.0}},
                {"epsilon", {0.5}},
                {"m_max", 256}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
