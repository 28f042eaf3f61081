// NPRF lemma 2: phi(x) phi(y) of positive random features has mean exp(x y)
// and variance (exp(|x+y|^2) - 1) exp(x y)^2 / m.
//
// The estimate for one row of Omega, over exp(x y), is log-normal: its k-th
// moment is exp(k(k-1)s/2) with s = |x+y|^2. So the scatter of the sample
// variance is known too: relative error sqrt((kurtosis - 1) / draws). From it
// follow the intervals, and the cells without one: at s = 8 the kurtosis is of
// the order exp(32), nearly all of the variance comes from draws too rare to
// occur, and the sample variance is too small in nearly every experiment. Such
// cells are shown but not judged.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/papers/studies/random_features.h"
#include "harness/papers/studies/studies.h"

namespace subquad {
namespace {

// Draws are taken in blocks of rows of Omega; a batch is a number of blocks.
constexpr int64_t kBlockRows = 6400;
constexpr double kLargestRelativeError = 0.03;  // of a variance that is judged
constexpr double kLargestDeviation = 5;         // standard errors

struct Theory {
  double variance;        // of the ratio to exp(x y)
  double relative_error;  // of the sample variance
  Theory(double s, double m, double draws) {
    const double one = std::expm1(s);
    variance = one / m;
    const double fourth =
        std::exp(6 * s) - 4 * std::exp(3 * s) + 6 * std::exp(s) - 3;
    const double kurtosis = (fourth / (one * one) + 3 * (m - 1)) / m;
    relative_error = std::sqrt((kurtosis - 1) / draws);
  }
};

struct Moments {
  double first = 0, second = 0;  // sums of (ratio - 1) and its square
  void Add(const Moments& other) {
    first += other.first;
    second += other.second;
  }
};

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

StudyTable EmptyTable() {
  return {"variance",
          {{"norm", "1", "|x| = |y|"},
           {"cosine", "1", "of the angle between x and y"},
           {"sum_square", "1", "|x+y|^2"},
           {"m", "1", "rows of Omega"},
           {"draws", "1", "estimates"},
           {"mean_ratio", "1", "sample mean / exp(x y)"},
           {"mean_error", "1", "its standard error by the lemma"},
           {"variance", "1", "sample variance of the estimate over exp(x y)"},
           {"lemma", "1", "(exp(|x+y|^2) - 1) / m: the lemma's variance"},
           {"variance_ratio", "1", "sample variance / variance by the lemma"},
           {"variance_error", "1", "its standard error by the lemma"},
           {"low", "1",
            "95 % interval of the variance ratio; null with too few draws for "
            "one"},
           {"high", "1", "95 % interval of the variance ratio"},
           {"batch_median", "1", "median over batches of the variance ratio"},
           {"draws_needed", "1", "draws for a standard error of 5 %"},
           {"judged", "flag", "enough draws to judge the variance"}},
          {}};
}

struct Pair {
  double norm, cosine;
  std::vector<double> x, y;
};

std::vector<Pair> Pairs(const StudyRun& run, const Json& parameters) {
  std::vector<Pair> pairs;
  for (double cosine : parameters.at("cosines").get<std::vector<double>>())
    for (double norm : parameters.at("norms").get<std::vector<double>>()) {
      auto [x, y] =
          Directions(run.DrawsOf("directions"), parameters.at("d"), cosine);
      for (double& value : x) value *= norm;
      for (double& value : y) value *= norm;
      pairs.push_back({norm, cosine, x, y});
    }
  return pairs;
}

// Moments over one block of rows of Omega, by pair and m.
std::vector<Moments> MomentsOf(const std::vector<double>& omega,
                               const std::vector<Pair>& pairs,
                               const std::vector<int64_t>& features,
                               int64_t d) {
  std::vector<Moments> sums;
  std::vector<double> ratio(kBlockRows);
  for (const Pair& pair : pairs) {
    PrfRatios(omega.data(), kBlockRows, d, pair.x.data(), pair.y.data(),
              ratio.data());
    for (const int64_t m : features) {
      Moments& cell = sums.emplace_back();
      for (int64_t r = 0; r + m <= kBlockRows; r += m) {
        double total = 0;
        for (int64_t a = 0; a < m; ++a)
          total += ratio[static_cast<size_t>(r + a)] - 1;
        total /= static_cast<double>(m);
        cell.first += total;
        cell.second += total * total;
      }
    }
  }
  return sums;
}

double Variance(const Moments& moments, double count) {
  const double mean = moments.first / count;
  return (moments.second - count * mean * mean) / (count - 1);
}

// One pair with one m, from the moments of all blocks.
void AddRow(StudyTable& table, const Pair& pair, int64_t features,
            const std::vector<Moments>& blocks, int64_t batches) {
  const double m = static_cast<double>(features);
  const double s = 2 * pair.norm * pair.norm * (1 + pair.cosine);
  const double block_draws = static_cast<double>(kBlockRows / features);
  const double draws = block_draws * static_cast<double>(blocks.size());
  const Theory theory(s, m, draws);
  Moments all;
  std::vector<double> batch_ratios;
  const size_t per_batch = blocks.size() / static_cast<size_t>(batches);
  for (size_t first = 0; first < blocks.size(); first += per_batch) {
    Moments batch;
    for (size_t i = first; i < first + per_batch; ++i) batch.Add(blocks[i]);
    batch_ratios.push_back(
        Variance(batch, block_draws * static_cast<double>(per_batch)) /
        theory.variance);
    all.Add(batch);
  }
  const double ratio = Variance(all, draws) / theory.variance;
  const double error = theory.relative_error;
  const bool judged = error <= kLargestRelativeError;
  table.Add({pair.norm, pair.cosine, s, features, static_cast<int64_t>(draws),
             1 + all.first / draws, std::sqrt(theory.variance / draws),
             ratio * theory.variance, theory.variance, ratio, error,
             judged ? Json(ratio - 1.96 * error) : Json(),
             judged ? Json(ratio + 1.96 * error) : Json(),
             Quantile(batch_ratios, 0.5),
             std::ceil(error * error * draws / (0.05 * 0.05)), judged});
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t d = parameters.at("d"), batches = parameters.at("batches");
  const auto features = parameters.at("m").get<std::vector<int64_t>>();
  const int64_t rows = parameters.at("draws").get<int64_t>() * features.back();
  const int64_t blocks = (rows / kBlockRows + batches - 1) / batches * batches;
  const Draws draws = run.DrawsOf("omega");
  const std::vector<Pair> pairs = Pairs(run, parameters);
  std::vector<std::vector<Moments>> sums(static_cast<size_t>(blocks));
  run.For(blocks, [&](int64_t block) {
    sums[static_cast<size_t>(block)] = MomentsOf(
        SampleNormal(draws, block, kBlockRows * d), pairs, features, d);
  });
  StudyTable table = EmptyTable();
  size_t cell = 0;
  for (const Pair& pair : pairs)
    for (const int64_t m : features) {
      std::vector<Moments> of_blocks;
      for (const auto& block : sums) of_blocks.push_back(block[cell]);
      AddRow(table, pair, m, of_blocks, batches);
      ++cell;
    }
  return {table};
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "variance");
  double worst_mean = 0, worst_variance = 0, largest_s = 0, lowest = 1;
  int judged = 0, others = 0;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    if (!table.Flag(r, "judged")) {
      ++others;
      lowest = Least(lowest, table.Number(r, "batch_median"));
      continue;
    }
    ++judged;
    largest_s = Worst(largest_s, table.Number(r, "sum_square"));
    worst_mean = Worst(worst_mean, std::abs(table.Number(r, "mean_ratio") - 1) /
                                       table.Number(r, "mean_error"));
    worst_variance =
        Worst(worst_variance, std::abs(table.Number(r, "variance_ratio") - 1) /
                                  table.Number(r, "variance_error"));
  }
  StudyVerdict verdict{
      "nprf-lemma2",
      "the estimate of exp(x y) by positive random features is unbiased, with "
      "the variance of lemma 2"};
  verdict.outcome = Decide(judged > 0 && worst_mean <= kLargestDeviation &&
                           worst_variance <= kLargestDeviation);
  verdict.numbers = fmt::format(
      "{} cells with |x+y|^2 up to {:.3g}: mean off by at most {:.2f} standard "
      "errors, variance by at most {:.2f} (limit {:g})",
      judged, largest_s, worst_mean, worst_variance, kLargestDeviation);
  if (others > 0)
    verdict.numbers += fmt::format(
        "; {} cells of larger norms cannot be judged by sampling: their "
        "typical sample variance falls to {:.2g} of the lemma's",
        others, lowest);
  return {verdict};
}

}  // namespace

Study PrfVarianceStudy() {
  Study study;
  study.name = "prf_variance";
  study.purpose =
      "Mean and variance of the softmax kernel's estimate by positive random "
      "features against lemma 2.";
  study.source = "NPRF lemma 2";
  study.parameters = {{"d", 8},
                      {"draws", 100000},
                      {"batches", 20},
                      {"m", {1, 4, 16, 64}},
                      {"norms", {0.25, 0.5, 0.75, 1.0, 1.5, 2.0}},
                      {"cosines", {-0.5, 0.0, 0.5}}};
  study.tiny = {{"draws", 2000}, {"batches", 4}, {"cosines", {0.0}}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
