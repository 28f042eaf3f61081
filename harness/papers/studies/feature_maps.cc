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
#include "harness/papers/studies/random_features.h"
#include "harness/papers/studies/studies.h"

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

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t d = parameters.at("d"), n = parameters.at("keys"),
                draws = parameters.at("draws");
  const auto features = parameters.at("f").get<std::vector<int64_t>>();
  const double decay = parameters.at("bias_decay"),
               noise = parameters.at("bias_noise");
  const auto& kinds = RandomMapKinds();
  const Draws queries = run.DrawsOf("query"), keys = run.DrawsOf("keys"),
              biases = run.DrawsOf("bias");
  // [draw][normalised * 2 + rpe][kind][f]
  std::vector<std::vector<std::vector<std::vector<double>>>> errors(
      static_cast<size_t>(draws));
  run.For(draws, [&](int64_t draw) {
    std::vector<double> query = SampleNormal(queries, draw, d);
    std::vector<double> key = SampleNormal(keys, draw, n * d);
    std::vector<double> unit_query = query, unit_key = key;
    NormalizeRows(unit_query, d);
    NormalizeRows(unit_key, d);
    // The query stands in the middle; near keys weigh more.
    std::vector<double> bias = SampleNormal(biases, draw, n);
    for (int64_t j = 0; j < n; ++j)
      bias[static_cast<size_t>(j)] =
          noise * bias[static_cast<size_t>(j)] -
          static_cast<double>(std::abs(j - n / 2)) / decay;
    auto& one = errors[static_cast<size_t>(draw)];
    one.resize(4);
    for (const RandomMapKind& kind : kinds) {
      std::vector<int64_t> rows;
      for (int64_t f : features) rows.push_back(f / kind.per_row());
      const std::vector<double> omega =
          SampleOmega(kind.sampler, run.DrawsOf("omega/" + kind.name), draw,
                      rows.back(), d);
      for (int normalised = 0; normalised < 2; ++normalised) {
        const Projections seen = normalised
                                     ? Project(unit_query, unit_key, omega, d)
                                     : Project(query, key, omega, d);
        const double radius =
            normalised ? 1 : std::pow(static_cast<double>(d), -0.25);
        for (int rpe = 0; rpe < 2; ++rpe)
          one[static_cast<size_t>(normalised * 2 + rpe)].push_back(
              AttentionErrors(kind.map, seen, radius,
                              rpe ? bias.data() : nullptr, rows));
      }
    }
  });
  StudyTable table{"error",
                   {{"normalised", "flag", "queries and keys have length 1"},
                    {"rpe", "flag", "a bias by offset is added"},
                    {"map", "name", "feature map"},
                    {"f", "1", "features"},
                    {"draws", "1", "of query, keys, bias and Omega"},
                    {"median", "1", "median of |A - A^|_1"},
                    {"low", "1", "95 % interval of the median"},
                    {"high", "1", "95 % interval of the median"},
                    {"upper_tenth", "1", "a tenth of the draws lies above"}},
                   {}};
  for (size_t setting = 0; setting < 4; ++setting)
    for (size_t k = 0; k < kinds.size(); ++k)
      for (size_t f = 0; f < features.size(); ++f) {
        std::vector<double> samples;
        for (const auto& draw : errors) samples.push_back(draw[setting][k][f]);
        const Median median = MedianWithInterval(samples);
        table.Add({setting >= 2, setting % 2 == 1, kinds[k].name, features[f],
                   draws, median.median, median.interval.low,
                   median.interval.high, Quantile(samples, 0.9)});
      }

  // Bias of the unnormalised estimate of exp(x y), for orthogonal x and y of
  // length 1, in few dimensions, where the sphere's is largest.
  const int64_t bias_d = parameters.at("bias_d"),
                blocks = parameters.at("bias_draws").get<int64_t>() / kBiasRows;
  StudyTable table_bias{
      "bias",
      {{"map", "name", "feature map (of prf's kind: orf, sphere)"},
       {"d", "1", "width"},
       {"draws", "1", "rows of Omega"},
       {"mean_ratio", "1", "mean of phi(x) phi(y) / exp(x y)"},
       {"standard_error", "1", "of it"},
       {"theory", "1", "what it should be"}},
      {}};
  std::vector<double> x(static_cast<size_t>(bias_d)), y = x;
  x[0] = y[1] = 1;
  for (const RandomMapKind& kind : kinds) {
    if (kind.map != RandomMap::kPrf) continue;
    const Draws stream = run.DrawsOf("bias/" + kind.name);
    std::vector<double> means(static_cast<size_t>(blocks));
    run.For(blocks, [&](int64_t block) {
      const std::vector<double> omega =
          SampleOmega(kind.sampler, stream, block, kBiasRows, bias_d);
      std::vector<double> ratio(kBiasRows);
      PrfRatios(omega.data(), kBiasRows, bias_d, x.data(), y.data(),
                ratio.data());
      double sum = 0;
      for (double value : ratio) sum += value;
      means[static_cast<size_t>(block)] = sum / kBiasRows;
    });
    // Rows of one block are orthogonal for orf: blocks are independent.
    const MeanError mean = MeanWithError(means);
    table_bias.Add(
        {kind.name, bias_d, blocks * kBiasRows, mean.mean, mean.error,
         kind.sampler == OmegaSampler::kSphere ? SphereRatio(2, bias_d) : 1.0});
  }
  return {table, table_bias};
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "error");
  const auto features = parameters.at("f").get<std::vector<int64_t>>();
  // Largest over smallest median of the maps, the worst over f.
  const auto spread = [&](bool normalised, bool rpe) {
    double worst = 1;
    for (int64_t f : features) {
      double low = HUGE_VAL, high = 0;
      for (size_t r = 0; r < table.rows.size(); ++r) {
        if (table.Flag(r, "normalised") != normalised ||
            table.Flag(r, "rpe") != rpe || table.Number(r, "f") != f)
          continue;
        low = Least(low, table.Number(r, "median"));
        high = Worst(high, table.Number(r, "median"));
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
  const double with = spread(true, true), without = spread(false, true);
  StudyVerdict alike{
      "nprf-maps",
      "trf, sphere-PRF and ORF perform like PRF once queries and "
      "keys are normalised"};
  alike.outcome = Decide(with <= kAlike, with < without);
  alike.numbers = fmt::format(
      "largest over smallest median error of the maps: {:.2f} normalised with "
      "RPE, {:.2f} normalised without, {:.2f} standard with RPE (alike: up to "
      "{:g}); at f = {} no map is worse than {:.3f} normalised, {:.3f} "
      "standard",
      with, spread(true, false), without, kAlike, features.back(),
      largest(true, true), largest(false, true));

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
      "Error of every random feature map, queries and keys normalised or not, "
      "with and without relative positions.";
  study.source = "NPRF figures 2 and 3b";
  study.parameters = {{"d", 64},          {"keys", 512},
                      {"draws", 300},     {"f", {16, 32, 64, 128, 256, 512}},
                      {"bias_decay", 32}, {"bias_noise", 0.5},
                      {"bias_d", 16},     {"bias_draws", 400000}};
  study.tiny = {
      {"keys", 64}, {"draws", 24}, {"f", {16, 64}}, {"bias_draws", 80000}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
