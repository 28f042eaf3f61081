// NPRF figure 1b: a query and 1024 keys, uniform on the unit sphere and
// rescaled by R; |A - A^|_1 of attention without 1/sqrt(d) against attention
// by positive random features, both normalised to sum to one. The figure leaves
// open what is redrawn; here query, keys and Omega are, for every draw.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/papers/frame/attention_heads.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/nprf/nprf.h"

namespace subquad {
namespace {

// Means over 600 draws of an independent program, with their standard errors.
struct Known {
  double radius;
  int64_t m;
  double mean, error;
};
constexpr Known kKnown[] = {
    {1, 16, 0.325, 0.002},   {1, 64, 0.186, 0.001},   {1, 256, 0.102, 0.001},
    {1, 1024, 0.053, 0.001}, {2, 16, 0.972, 0.006},   {2, 64, 0.778, 0.005},
    {2, 256, 0.586, 0.005},  {2, 1024, 0.429, 0.004},
};
// Two means agree when they are at most this many standard errors apart; the
// known ones are printed to 0.001, which adds 0.0005.
constexpr double kLargestDeviation = 4;
constexpr double kPrinted = 0.0005;
// An error is flat in m if at least the first part of it is left at the largest
// m, and falls if at most the second part is left.
constexpr double kFlat = 0.8, kFalling = 0.25;

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t d = parameters.at("d"), n = parameters.at("keys"),
                draws = parameters.at("draws");
  const auto rows = parameters.at("m").get<std::vector<int64_t>>();
  const auto radii = parameters.at("R").get<std::vector<double>>();
  const Draws queries = run.DrawsOf("query"), keys = run.DrawsOf("keys"),
              omegas = run.DrawsOf("omega");
  // [draw][radius][m]
  std::vector<std::vector<std::vector<double>>> errors(
      static_cast<size_t>(draws));
  // [draw][radius]
  std::vector<std::vector<double>> uniform(static_cast<size_t>(draws));
  run.For(draws, [&](int64_t draw) {
    const auto at = static_cast<size_t>(draw);
    const Projections seen = Project(
        SampleUnitRows(queries, draw, 1, d), SampleUnitRows(keys, draw, n, d),
        SampleOmega(OmegaSampler::kGaussian, omegas, draw, rows.back(), d), d);
    for (double radius : radii) {
      errors[at].push_back(
          AttentionErrors(RandomMap::kPrf, seen, radius, nullptr, rows));
      uniform[at].push_back(
          ErrorOf(Baseline::kUniform, seen, 0, n, radius, nullptr).error);
    }
  });
  StudyTable table{"error",
                   {{"R", "1", "norm of the query and of every key"},
                    {"m", "1", "features"},
                    {"draws", "1", "of query, keys and Omega together"},
                    {"mean", "1", "mean of |A - A^|_1; at most 2"},
                    {"standard_error", "1", "of the mean"},
                    {"low", "1", "a tenth of the draws lies below"},
                    {"median", "1", "median of |A - A^|_1"},
                    {"high", "1", "a tenth of the draws lies above"},
                    {"uniform", "1", "mean of |A - A^|_1 of equal weights"}},
                   {}};
  StudyTable known{"known",
                   {{"R", "1", "norm"},
                    {"m", "1", "features"},
                    {"mean", "1", "this study"},
                    {"standard_error", "1", "of the mean"},
                    {"known_mean", "1", "an independent program's, 600 draws"},
                    {"known_error", "1", "its standard error"},
                    {"deviation", "standard errors",
                     "distance over both standard errors and the rounding"}},
                   {}};
  for (size_t r = 0; r < radii.size(); ++r)
    for (size_t f = 0; f < rows.size(); ++f) {
      std::vector<double> samples;
      for (const auto& draw : errors) samples.push_back(draw[r][f]);
      const MeanError mean = MeanWithError(samples);
      std::vector<double> equal;
      for (const auto& draw : uniform) equal.push_back(draw[r]);
      table.Add({radii[r], rows[f], draws, mean.mean, mean.error,
                 Quantile(samples, 0.1), Quantile(samples, 0.5),
                 Quantile(samples, 0.9), MeanWithError(equal).mean});
      for (const Known& one : kKnown)
        if (one.radius == radii[r] && one.m == rows[f])
          known.Add({one.radius, one.m, mean.mean, mean.error, one.mean,
                     one.error,
                     std::abs(mean.mean - one.mean) /
                         (std::hypot(mean.error, one.error) + kPrinted)});
    }
  StudyTables tables = {table, known};
  const auto folders = parameters.at("input").get<std::vector<std::string>>();
  if (!folders.empty()) {
    const AttentionHeads all = HeadsOf(folders, parameters.at("most_heads"));
    const HeadSettings settings{parameters.at("head_rows"),
                                parameters.at("head_draws"), rows};
    const std::vector<HeadResult> results =
        MeasureHeads(run, all.heads, settings);
    for (StudyTable& one :
         StudyTables{SourceTable(all), HeadTable(all, results),
                     HeadErrorTable(all, results, settings),
                     ModelErrorTable("model_error", all, results, settings)})
      tables.push_back(std::move(one));
  }
  return tables;
}

// The claim of the figure on the heads of one model: rows of length 1 in place
// of R = 1, rows as they are in place of R > 1.
StudyVerdict JudgeModel(const StudyTable& table, const ModelInTables& model,
                        double first, double last) {
  const auto error = [&](bool normalised, double m) {
    return ModelError(table, model.name, normalised, false, "prf", m);
  };
  const auto kept = [&](bool normalised) {
    return error(normalised, last) / error(normalised, first);
  };
  StudyVerdict verdict{"nprf-fig1b/" + model.name,
                       "on " + model.name +
                           ": the error falls with m for rows of length 1; for "
                           "rows as they are it is large and nearly flat"};
  const bool falls = kept(true) <= kFalling, flat = kept(false) >= kFlat;
  verdict.outcome = Decide(falls && flat, falls || flat);
  const auto words = [&](bool normalised) {
    return fmt::format("{:.3f} to {:.3f} ({:.0f} % left)",
                       error(normalised, first), error(normalised, last),
                       100 * kept(normalised));
  };
  verdict.numbers = fmt::format(
      "{} heads, mean lengths {:.2f} of queries and {:.2f} of keys, without "
      "RPE: from m = {:g} to {:g} the mean |A - A^|_1 of a row by prf goes "
      "from {} for rows of length 1, from {} for rows as they are (falls: at "
      "most {:g} % left, flat: at least {:g} %)",
      model.heads, model.q_norm, model.k_norm, first, last, words(true),
      words(false), 100 * kFalling, 100 * kFlat);
  return verdict;
}

// The figure's two ends: R = 1, and the largest R. Small and huge are said of
// the error beside that of equal weights.
StudyVerdict JudgeFigure(const Json& parameters, const StudyTable& table,
                         const std::vector<int64_t>& rows) {
  const auto cell = [&](double radius, int64_t m, const char* column) {
    for (size_t r = 0; r < table.rows.size(); ++r)
      if (table.Number(r, "R") == radius && table.Number(r, "m") == m)
        return table.Number(r, column);
    return std::nan("");
  };
  StudyVerdict figure{
      "nprf-fig1b",
      "for R = 1 the error is small and drops significantly from m = 4 to "
      "1024; for large R it is huge and only slightly improved"};
  const auto radii = parameters.at("R").get<std::vector<double>>();
  bool one_falls = false, largest_flat = false, small = false, huge = false;
  for (double radius : radii) {
    const double first = cell(radius, rows.front(), "mean"),
                 last = cell(radius, rows.back(), "mean"),
                 uniform = cell(radius, rows.back(), "uniform");
    const double kept = last / first;
    if (radius == 1) {
      one_falls = kept <= kFalling;
      small = last < uniform;
    }
    if (radius == radii.back()) {
      largest_flat = kept >= kFlat;
      huge = last > uniform;
    }
    figure.numbers += fmt::format(
        "{}R = {:g}: {:.3f} to {:.3f} ({:.0f} % left, {:.2f} times the error "
        "of equal weights)",
        figure.numbers.empty()
            ? fmt::format("from m = {} to {}, ", rows.front(), rows.back())
            : "; ",
        radius, first, last, 100 * kept, last / uniform);
  }
  figure.numbers += fmt::format(
      "; judged are R = 1 (falls to {:g} % or less and below equal weights) "
      "and "
      "the largest R (keeps {:g} % or more and stays above them)",
      100 * kFalling, 100 * kFlat);
  figure.outcome = Decide(one_falls && largest_flat && small && huge,
                          one_falls && largest_flat);
  return figure;
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& known = FindTable(tables, "known");
  double worst = 0;
  for (size_t r = 0; r < known.rows.size(); ++r) {
    const double off =
        std::abs(known.Number(r, "mean") - known.Number(r, "known_mean")) /
        (std::hypot(known.Number(r, "standard_error"),
                    known.Number(r, "known_error")) +
         kPrinted);
    worst = Worst(worst, off);
  }
  StudyVerdict agrees{"nprf-fig1b-table",
                      "the mean errors for R = 1 and 2 agree with those of an "
                      "independent program"};
  agrees.ours = true;
  agrees.outcome = Decide(!known.rows.empty() && worst <= kLargestDeviation);
  agrees.numbers = fmt::format(
      "{} means differ by at most {:.2f} standard errors (limit {:g})",
      known.rows.size(), worst, kLargestDeviation);

  const auto rows = parameters.at("m").get<std::vector<int64_t>>();
  const StudyVerdict figure =
      JudgeFigure(parameters, FindTable(tables, "error"), rows);
  std::vector<StudyVerdict> verdicts = {figure, agrees};
  if (!parameters.value("input", Json::array()).empty())
    for (const ModelInTables& model : ModelsIn(FindTable(tables, "heads")))
      verdicts.push_back(JudgeModel(FindTable(tables, "model_error"), model,
                                    static_cast<double>(rows.front()),
                                    static_cast<double>(rows.back())));
  return verdicts;
}

}  // namespace

Study ApproximationErrorStudy() {
  Study study;
  study.name = "approximation_error";
  study.purpose =
      "Error of attention by positive random features against the number of "
      "features, for queries and keys of several norms, and for the heads in "
      "the folders of --input.";
  study.source = "NPRF figure 1b";
  study.parameters = {{"input", Json::array()},
                      {"most_heads", 24},
                      {"head_rows", 16},
                      {"head_draws", 3},
                      {"d", 64},
                      {"keys", 1024},
                      {"draws", 600},
                      {"R", {1.0, 1.5, 2.0, 3.0, 4.0}},
                      {"m", {4, 8, 16, 32, 64, 128, 256, 512, 1024}}};
  study.tiny = {
      {"draws", 12},     {"R", {1.0, 2.0, 4.0}}, {"m", {4, 16, 64, 1024}},
      {"most_heads", 2}, {"head_rows", 2},       {"head_draws", 2}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
