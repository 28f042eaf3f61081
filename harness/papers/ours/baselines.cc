// What needs no random features, on the rows of NPRF figure 1b: equal weights,
// which ignore the content, and the d + 1 features (1, x), for which exp(q k)
// is about 1 + q k. Positive random features are compared with both on the same
// queries and keys, draw by draw.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/inference.h"
#include "harness/cases/draws.h"
#include "harness/papers/frame/grid.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/ours/ours.h"

namespace subquad {
namespace {

// Without relative positions exp(bias) alone is equal weights.
const std::vector<BaselineKind>& Kinds() {
  static const std::vector<BaselineKind> kinds = [] {
    std::vector<BaselineKind> some = BaselineKinds();
    std::erase_if(some, [](const BaselineKind& kind) {
      return kind.map == Baseline::kBias;
    });
    return some;
  }();
  return kinds;
}

StudyTable BaselineTable() {
  return {"baseline",
          {{"d", "1", "width of queries and keys"},
           {"R", "1", "norm of the query and of every key"},
           {"map", "name", "what stands in for attention"},
           {"mean", "1", "mean of |A - A^|_1"},
           {"low", "1", "95 % interval of the mean"},
           {"high", "1", "95 % interval of the mean"},
           {"negative", "1", "share of its weights below zero"}},
          {}};
}

StudyTable AgainstTable() {
  return {"against",
          {{"d", "1", "width of queries and keys"},
           {"R", "1", "norm of the query and of every key"},
           {"m", "1", "random features"},
           {"map", "name", "the baseline"},
           {"mean", "1", "mean of |A - A^|_1 by m random features"},
           {"ratio", "1", "that mean over the baseline's"},
           {"difference", "1",
            "mean over draws of the error by random features less that of the "
            "baseline"},
           {"low", "1", "95 % interval of the difference"},
           {"high", "1", "95 % interval of the difference"}},
          {}};
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t n = parameters.at("keys"), draws = parameters.at("draws");
  const auto widths = parameters.at("d").get<std::vector<int64_t>>();
  const auto radii = parameters.at("R").get<std::vector<double>>();
  const auto rows = parameters.at("m").get<std::vector<int64_t>>();
  StudyTable baseline = BaselineTable(), against = AgainstTable();
  for (int64_t d : widths) {
    const auto stream = [&](const char* purpose) {
      return run.DrawsOf(fmt::format("{}/d={}", purpose, d));
    };
    const Draws queries = stream("query"), keys = stream("keys"),
                omegas = stream("omega");
    const auto count = static_cast<size_t>(draws);
    Grid prf({{"R", radii.size()}, {"m", rows.size()}, {"draw", count}}),
        fixed({{"R", radii.size()}, {"map", Kinds().size()}, {"draw", count}}),
        negative = fixed;
    run.For(draws, [&](int64_t draw) {
      const Projections seen = Project(
          SampleUnitRows(queries, draw, 1, d), SampleUnitRows(keys, draw, n, d),
          SampleOmega(OmegaSampler::kGaussian, omegas, draw, rows.back(), d),
          d);
      for (size_t r = 0; r < radii.size(); ++r) {
        const std::vector<double> found =
            AttentionErrors(RandomMap::kPrf, seen, radii[r], nullptr, rows);
        for (size_t t = 0; t < rows.size(); ++t) prf(r, t, draw) = found[t];
        for (size_t k = 0; k < Kinds().size(); ++k) {
          const BaselineError one =
              ErrorOf(Kinds()[k].map, seen, 0, n, radii[r], nullptr);
          fixed(r, k, draw) = one.error;
          negative(r, k, draw) = one.negative;
        }
      }
    });
    const auto samples = [&](const Grid& grid, size_t r, size_t which) {
      std::vector<double> all;
      for (size_t draw = 0; draw < count; ++draw)
        all.push_back(grid(r, which, draw));
      return all;
    };
    for (size_t r = 0; r < radii.size(); ++r)
      for (size_t k = 0; k < Kinds().size(); ++k) {
        const std::vector<double> errors = samples(fixed, r, k);
        const Estimate mean = MeanWithInterval(errors);
        baseline.Add({d, radii[r], Kinds()[k].name, mean.value,
                      mean.interval.low, mean.interval.high,
                      Mean(samples(negative, r, k))});
        for (size_t t = 0; t < rows.size(); ++t) {
          const std::vector<double> random = samples(prf, r, t);
          std::vector<double> differences;
          for (size_t i = 0; i < count; ++i)
            differences.push_back(random[i] - errors[i]);
          const Estimate difference = MeanWithInterval(differences);
          against.Add({d, radii[r], rows[t], Kinds()[k].name, Mean(random),
                       Mean(random) / mean.value, difference.value,
                       difference.interval.low, difference.interval.high});
        }
      }
  }
  return {baseline, against};
}

// The smallest m at which, and beyond, random features are surely better than a
// baseline; nothing if none is. `worse`: they are surely worse at every m.
struct Comparison {
  std::optional<double> beats;
  bool worse = true;
  int found = 0;
};

Comparison Compare(const StudyTable& table, double d, double radius,
                   const std::string& map) {
  Comparison result;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    if (table.Number(r, "d") != d || table.Number(r, "R") != radius ||
        table.Text(r, "map") != map)
      continue;
    ++result.found;
    result.worse = result.worse && table.Number(r, "low") > 0;
    const bool better = table.Number(r, "high") < 0;
    if (!better) result.beats.reset();
    if (better && !result.beats) result.beats = table.Number(r, "m");
  }
  result.worse = result.worse && result.found > 0;
  return result;
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "against");
  const auto radii = parameters.at("R").get<std::vector<double>>();
  const auto widths = parameters.at("d").get<std::vector<double>>();
  const auto most = parameters.at("m").get<std::vector<int64_t>>().back();
  StudyVerdict equal{"baselines-uniform",
                     "at the width of figure 1b and for rows of length 2 and "
                     "more, equal weights are nearer to softmax attention than "
                     "any number of positive random features tried"},
      taylor{"baselines-taylor",
             "at the width of figure 1b and any length of rows, d + 1 Taylor "
             "features are nearer to softmax attention than any number of "
             "positive random features tried"};
  equal.ours = taylor.ours = true;
  bool loses = true, loses_to_taylor = true, any = false;
  for (double d : widths)
    for (double radius : radii) {
      const std::string place = fmt::format("d = {:g}, R = {:g}: ", d, radius);
      const auto say = [&](StudyVerdict& verdict, const Comparison& found) {
        verdict.numbers += fmt::format(
            "{}{}{}", verdict.numbers.empty() ? "" : "; ", place,
            found.beats   ? fmt::format("better from m = {:g}", *found.beats)
            : found.worse ? std::string("worse at every m")
                          : std::string("no better at the largest m"));
      };
      const Comparison uniform = Compare(table, d, radius, "uniform"),
                       first = Compare(table, d, radius, "taylor1");
      say(equal, uniform);
      say(taylor, first);
      if (d != widths.back()) continue;
      any = true;
      if (radius >= 2) loses = loses && uniform.worse;
      loses_to_taylor = loses_to_taylor && first.worse;
    }
  const std::string tried = fmt::format("m up to {}: ", most);
  equal.numbers = tried + equal.numbers;
  taylor.numbers = tried + taylor.numbers;
  equal.outcome = Decide(any && loses);
  taylor.outcome = Decide(any && loses_to_taylor);
  return {equal, taylor};
}

}  // namespace

Study BaselinesStudy() {
  Study study;
  study.name = "baselines";
  study.purpose =
      "Error of attention weights from positive random features, compared with "
      "two baselines without them: equal weights, and d + 1 Taylor features.";
  study.source = "NPRF figure 1b";
  study.parameters = {{"d", {16, 64}},
                      {"keys", 1024},
                      {"draws", 200},
                      {"R", {1.0, 1.5, 2.0, 3.0, 4.0}},
                      {"m", {4, 8, 16, 32, 64, 128, 256, 512, 1024}}};
  study.tiny = {{"d", {64}},
                {"keys", 256},
                {"draws", 12},
                {"R", {1.0, 2.0, 3.0}},
                {"m", {4, 16, 64}}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
