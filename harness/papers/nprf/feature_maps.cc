// NPRF figures 2 and 3b, without training: the error of one attention row by
// every random feature map, with queries and keys normalised or not, with and
// without relative positions. Normalised rows have length 1 and no 1/sqrt(d);
// the others are N(0, I) with 1/sqrt(d), which is length d^(1/4) = 2.8 at
// d = 64. trf can have a normaliser near zero, so medians are compared.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "harness/base/statistics.h"
#include "harness/cases/draws.h"
#include "harness/papers/frame/grid.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/nprf/nprf.h"

namespace subquad {
namespace {

// Maps are alike when their median errors lie within this factor.
constexpr double kAlike = 1.5;
constexpr double kLargestDeviation = 5;  // standard errors, of a bias
constexpr int64_t kBiasRows = 4000;      // of Omega, in a block

// E exp(w z) for w uniform on the sphere of radius sqrt(d), over exp(|z|^2/2):
// the mean of the sphere's estimate over exp(x y). The series of 0F1.
double SphereRatio(double square, int64_t d) {
  double term = 1, sum = 1;
  for (int k = 1; k < 400; ++k) {
    term *= static_cast<double>(d) * square / 4 /
            (k * (static_cast<double>(d) / 2 + k - 1));
    sum += term;
  }
  return sum * std::exp(-square / 2);
}

// One attention row: a query in the middle of its keys, as drawn and with
// length 1, and a bias that favours near keys.
struct Row {
  std::vector<double> query, keys, unit_query, unit_keys, bias;
};

Row DrawRow(const StudyRun& run, const Json& parameters, int64_t draw) {
  const int64_t d = parameters.at("d"), n = parameters.at("keys");
  const double decay = parameters.at("bias_decay"),
               noise = parameters.at("bias_noise");
  Row row;
  row.query = SampleNormal(run.DrawsOf("query"), draw, d);
  row.keys = SampleNormal(run.DrawsOf("keys"), draw, n * d);
  row.unit_query = row.query;
  row.unit_keys = row.keys;
  NormalizeRows(row.unit_query, d);
  NormalizeRows(row.unit_keys, d);
  row.bias = SampleNormal(run.DrawsOf("bias"), draw, n);
  for (int64_t j = 0; j < n; ++j)
    row.bias[static_cast<size_t>(j)] =
        noise * row.bias[static_cast<size_t>(j)] -
        static_cast<double>(std::abs(j - n / 2)) / decay;
  return row;
}

// Adds the errors of one draw.
void MeasureDraw(const StudyRun& run, const Json& parameters,
                 const std::vector<int64_t>& features, int64_t draw,
                 Grid& errors, Grid& baselines) {
  const int64_t d = parameters.at("d");
  const Row row = DrawRow(run, parameters, draw);
  for (size_t k = 0; k < RandomMapKinds().size(); ++k) {
    const RandomMapKind& kind = RandomMapKinds()[k];
    std::vector<int64_t> counts;
    for (int64_t f : features) counts.push_back(f / kind.per_row());
    const std::vector<double> omega =
        SampleOmega(kind.sampler, run.DrawsOf("omega/" + kind.name), draw,
                    counts.back(), d);
    for (const bool normalised : {false, true}) {
      const Projections projections =
          normalised ? Project(row.unit_query, row.unit_keys, omega, d)
                     : Project(row.query, row.keys, omega, d);
      const double radius =
          normalised ? 1 : std::pow(static_cast<double>(d), -0.25);
      for (const bool rpe : {false, true}) {
        const std::vector<double> found =
            AttentionErrors(kind.map, projections, radius,
                            rpe ? row.bias.data() : nullptr, counts);
        for (size_t f = 0; f < found.size(); ++f)
          errors(draw, normalised, rpe, k, f) = found[f];
        if (k > 0) continue;
        for (size_t b = 0; b < BaselineKinds().size(); ++b)
          baselines(draw, normalised, rpe, b) =
              ErrorOf(BaselineKinds()[b].map, projections, 0, projections.n,
                      radius, rpe ? row.bias.data() : nullptr)
                  .error;
      }
    }
  }
}

StudyTables Errors(StudyRun& run, const Json& parameters) {
  StudyTable table{"error",
                   {{"normalised", "flag", "queries and keys have length 1"},
                    {"rpe", "flag", "a bias by offset is added"},
                    {"map", "name", "feature map"},
                    {"f", "1", "features"},
                    {"draws", "1", "of query, keys, bias and Omega"},
                    {"median", "1", "median of |A - A^|_1"},
                    {"low", "1", "95 % interval of the median"},
                    {"high", "1", "95 % interval of the median"},
                    {"upper_tenth", "1", "90 % quantile"}},
                   {}};
  StudyTable without{
      "baseline",
      {{"normalised", "flag", "queries and keys have length 1"},
       {"rpe", "flag", "a bias by offset is added"},
       {"map", "name", "what stands in for attention"},
       {"median", "1", "median of |A - A^|_1 over the same draws"},
       {"low", "1", "95 % interval of the median"},
       {"high", "1", "95 % interval of the median"}},
      {}};
  const int64_t draws = parameters.at("draws");
  const auto features = parameters.at("f").get<std::vector<int64_t>>();
  const auto& kinds = RandomMapKinds();
  Grid errors({{"draw", static_cast<size_t>(draws)},
               {"normalised", 2},
               {"rpe", 2},
               {"map", kinds.size()},
               {"f", features.size()}});
  Grid baselines({{"draw", static_cast<size_t>(draws)},
                  {"normalised", 2},
                  {"rpe", 2},
                  {"map", BaselineKinds().size()}});
  run.For(draws, [&](int64_t draw) {
    MeasureDraw(run, parameters, features, draw, errors, baselines);
  });
  for (const bool normalised : {false, true})
    for (const bool rpe : {false, true})
      for (size_t k = 0; k < kinds.size(); ++k)
        for (size_t f = 0; f < features.size(); ++f) {
          std::vector<double> samples;
          for (int64_t draw = 0; draw < draws; ++draw)
            samples.push_back(errors(draw, normalised, rpe, k, f));
          const Median median = MedianWithInterval(samples);
          table.Add({normalised, rpe, kinds[k].name, features[f], draws,
                     median.median, median.interval.low, median.interval.high,
                     Quantile(samples, 0.9)});
        }
  for (const bool normalised : {false, true})
    for (const bool rpe : {false, true})
      for (size_t b = 0; b < BaselineKinds().size(); ++b) {
        std::vector<double> samples;
        for (int64_t draw = 0; draw < draws; ++draw)
          samples.push_back(baselines(draw, normalised, rpe, b));
        const Median median = MedianWithInterval(samples);
        without.Add({normalised, rpe, BaselineKinds()[b].name, median.median,
                     median.interval.low, median.interval.high});
      }
  return {table, without};
}

// Bias of the unnormalised estimate of exp(x y), for orthogonal x and y of
// length 1, in few dimensions, where the sphere's is largest.
StudyTable Biases(StudyRun& run, const Json& parameters) {
  StudyTable table{"bias",
                   {{"map", "name", "feature map (of prf's kind: orf, sphere)"},
                    {"d", "1", "width"},
                    {"draws", "1", "rows of Omega"},
                    {"mean_ratio", "1", "mean of phi(x) phi(y) / exp(x y)"},
                    {"standard_error", "1", "of the mean"},
                    {"theory", "1", "its expectation"}},
                   {}};
  const int64_t d = parameters.at("bias_d"),
                blocks = parameters.at("bias_draws").get<int64_t>() / kBiasRows;
  std::vector<double> x(static_cast<size_t>(d)), y = x;
  x[0] = y[1] = 1;
  for (const RandomMapKind& kind : RandomMapKinds()) {
    if (kind.map != RandomMap::kPrf) continue;
    const Draws stream = run.DrawsOf("bias/" + kind.name);
    std::vector<double> means(static_cast<size_t>(blocks));
    run.For(blocks, [&](int64_t block) {
      const std::vector<double> omega =
          SampleOmega(kind.sampler, stream, block, kBiasRows, d);
      std::vector<double> ratio(kBiasRows);
      PrfRatios(omega.data(), kBiasRows, d, x.data(), y.data(), ratio.data());
      double sum = 0;
      for (double value : ratio) sum += value;
      means[static_cast<size_t>(block)] = sum / kBiasRows;
    });
    // Rows of one block are orthogonal for orf: blocks are independent.
    const MeanError mean = MeanWithError(means);
    table.Add(
        {kind.name, d, blocks * kBiasRows, mean.mean, mean.error,
         kind.sampler == OmegaSampler::kSphere ? SphereRatio(2, d) : 1.0});
  }
  return table;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  StudyTables tables = Errors(run, parameters);
  tables.push_back(Biases(run, parameters));
  return tables;
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "error");
  const auto features = parameters.at("f").get<std::vector<int64_t>>();
  // Largest over smallest median of the maps, the worst over f; from the ends
  // of their intervals, the largest that it may be.
  const auto spread = [&](bool normalised, bool rpe,
                          const char* lower = "median",
                          const char* upper = "median") {
    double worst = 1;
    for (int64_t f : features) {
      double low = HUGE_VAL, high = 0;
      for (size_t r = 0; r < table.rows.size(); ++r) {
        if (table.Flag(r, "normalised") != normalised ||
            table.Flag(r, "rpe") != rpe || table.Number(r, "f") != f)
          continue;
        low = Least(low, table.Number(r, lower));
        high = Worst(high, table.Number(r, upper));
      }
      worst = Worst(worst, high / low);
    }
    return worst;
  };
  const auto largest = [&](bool normalised, bool rpe) {
    double worst = 0;
    for (size_t r = 0; r < table.rows.size(); ++r)
      if (table.Flag(r, "normalised") == normalised &&
          table.Flag(r, "rpe") == rpe &&
          table.Number(r, "f") == static_cast<double>(features.back()))
        worst = Worst(worst, table.Number(r, "median"));
    return worst;
  };
  const StudyTable& none = FindTable(tables, "baseline");
  const auto baseline = [&](bool normalised, bool rpe, const char* map) {
    for (size_t r = 0; r < none.rows.size(); ++r)
      if (none.Flag(r, "normalised") == normalised &&
          none.Flag(r, "rpe") == rpe && none.Text(r, "map") == map)
        return none.Number(r, "median");
    return std::nan("");
  };
  const double with = spread(true, true), without = spread(false, true),
               at_most = spread(true, true, "low", "high"),
               left = largest(true, true) / baseline(true, true, "bias"),
               left_standard =
                   largest(false, true) / baseline(false, true, "bias");
  StudyVerdict alike{
      "nprf-maps",
      "trf, sphere-PRF and ORF perform like PRF once queries and "
      "keys are normalised"};
  // Maps that all fail are alike too: they have to be nearer than no features.
  alike.outcome =
      Decide(at_most <= kAlike && left < 1, with < without && left < 1);
  alike.numbers = fmt::format(
      "largest over smallest median error of the maps, any f: {:.2f} "
      "normalised "
      "with RPE (by their 95 % intervals up to {:.2f}), {:.2f} normalised "
      "without, {:.2f} standard with RPE (alike: surely up to {:g}); at f = {} "
      "the worst map has {:.2f} times the error of exp(bias) alone if "
      "normalised, {:.2f} times if standard; the {} Taylor features have "
      "{:.3f} "
      "and {:.3f} times",
      with, at_most, spread(true, false), without, kAlike, features.back(),
      left, left_standard, parameters.at("d").get<int64_t>() + 1,
      baseline(true, true, "taylor1") / baseline(true, true, "bias"),
      baseline(false, true, "taylor1") / baseline(false, true, "bias"));

  const StudyTable& bias = FindTable(tables, "bias");
  StudyVerdict biased{"nprf-maps-bias",
                      "sphere-PRF is biased, PRF and ORF are not"};
  bool as_theory = true, sphere_shows = false;
  for (size_t r = 0; r < bias.rows.size(); ++r) {
    const double mean = bias.Number(r, "mean_ratio"),
                 error = bias.Number(r, "standard_error");
    as_theory = as_theory && std::abs(mean - bias.Number(r, "theory")) <=
                                 kLargestDeviation * error;
    if (bias.Text(r, "map") == "sphere")
      sphere_shows = std::abs(mean - 1) > kLargestDeviation * error;
    biased.numbers +=
        fmt::format("{}{}: {:.4f}({:.4f}), theory {:.4f}",
                    biased.numbers.empty() ? "mean / exp(x y) of " : "; ",
                    bias.Text(r, "map"), mean, error, bias.Number(r, "theory"));
  }
  biased.outcome = Decide(as_theory && sphere_shows);
  return {alike, biased};
}

}  // namespace

Study FeatureMapsStudy() {
  Study study;
  study.name = "feature_maps";
  study.purpose =
      "Error of every random feature map, with queries and keys normalised or "
      "not, with and without relative positions.";
  study.source = "NPRF figures 2 and 3b";
  study.parameters = {{"d", 64},          {"keys", 512},
                      {"draws", 300},     {"f", {16, 32, 64, 128, 256, 512}},
                      {"bias_decay", 32}, {"bias_noise", 0.5},
                      {"bias_d", 16},     {"bias_draws", 400000}};
  study.tiny = {
      {"keys", 64}, {"draws", 24}, {"f", {16, 1024}}, {"bias_draws", 80000}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
