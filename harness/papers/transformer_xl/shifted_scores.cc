// Transformer-XL appendix B as matrices: B~ holds the products of every query
// with every projected distance, longest first; row i of B is row i of B~ moved
// left by L-1-i, up to the last key that query i sees. B is also read back from
// the program's operator: with zero keys, u and t, the scores are B alone;
// impulses as values give its softmax, and from it B up to one number per row.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/judging/operator_run.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/transformer_xl/transformer_xl.h"

namespace subquad {
namespace {

// Scores of a few units survive exp and log within this.
constexpr double kRounding = 1e-13;

std::vector<double> Normals(const Draws& draws, int64_t count, double scale) {
  std::vector<double> values(static_cast<size_t>(count));
  for (int64_t i = 0; i < count; ++i)
    values[static_cast<size_t>(i)] =
        scale * draws.Normal(static_cast<uint64_t>(i));
  return values;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t L = parameters.at("L"), M = parameters.at("M"),
                d = parameters.at("d"), p = parameters.at("p"), n = M + L;
  const double small = 1 / std::sqrt(static_cast<double>(d));
  const std::vector<double> q = Normals(run.DrawsOf("q"), L * d, 1),
                            r = Normals(run.DrawsOf("r"), n * p, 1),
                            w = Normals(run.DrawsOf("w_kr"), d * p, small);
  // q_i . (w_kr r[distance])
  const auto product = [&](int64_t i, int64_t distance) {
    double sum = 0;
    for (int64_t a = 0; a < d; ++a) {
      double projected = 0;
      for (int64_t b = 0; b < p; ++b)
        projected += w[static_cast<size_t>(a * p + b)] *
                     r[static_cast<size_t>(distance * p + b)];
      sum += q[static_cast<size_t>(i * d + a)] * projected;
    }
    return sum;
  };
  StudyTable cells{
      "cells",
      {{"matrix", "name", "B~ or B"},
       {"row", "positions", "query"},
       {"column", "positions", "key; for B~ longest distance first"},
       {"value", "1", "product; null: masked"}},
      {}};
  std::vector<double> tilde(static_cast<size_t>(L * n));
  for (int64_t i = 0; i < L; ++i)
    for (int64_t c = 0; c < n; ++c) {
      tilde[static_cast<size_t>(i * n + c)] = product(i, n - 1 - c);
      cells.Add({"B~", i, c, tilde[static_cast<size_t>(i * n + c)]});
    }
  StudyTable checks{"shift",
                    {{"implementation", "name", "algorithm, in float64"},
                     {"error", "1", "largest difference from B~ moved left"}},
                    {}};
  double direct = 0;
  for (int64_t i = 0; i < L; ++i)
    for (int64_t j = 0; j < n; ++j) {
      if (j > M + i) {
        cells.Add({"B", i, j, nullptr});
        continue;
      }
      const double shifted = tilde[static_cast<size_t>(i * n + j + L - 1 - i)];
      direct = Worst(direct, std::abs(shifted - product(i, M + i - j)));
      cells.Add({"B", i, j, shifted});
    }
  checks.Add({"definition", direct});
  std::vector<double> impulses(static_cast<size_t>(n * n));
  for (int64_t j = 0; j < n; ++j) impulses[static_cast<size_t>(j * n + j)] = 1;
  const auto zeros = [](int64_t count) {
    return std::vector<double>(static_cast<size_t>(count));
  };
  Params params;
  params.Set("scale", 1.0);
  Trial trial = MakeTrial(FindOperator("transformer_xl_attention"), params,
                          Scalar::kFloat64,
                          {{"q", {L, d}, q},
                           {"k", {n, d}, zeros(n * d)},
                           {"v", {n, n}, impulses},
                           {"r", {n, p}, r},
                           {"w_kr", {d, p}, w},
                           {"u", {d}, zeros(d)},
                           {"t", {d}, zeros(d)}},
                          run.seed());
  for (const Implementation* one : CpuImplementations(trial.problem())) {
    const std::vector<double> out = RunOnce(*one, trial, run.threads());
    double error = 0;
    for (int64_t i = 0; i < L; ++i) {
      const auto weight = [&](int64_t j) {
        return out[static_cast<size_t>(i * n + j)];
      };
      const double first = tilde[static_cast<size_t>(i * n + L - 1 - i)];
      for (int64_t j = 0; j < n; ++j) {
        // Masked: exactly zero.
        if (j > M + i) {
          error = Worst(error, std::abs(weight(j)));
          continue;
        }
        const double shifted =
            tilde[static_cast<size_t>(i * n + j + L - 1 - i)];
        const double back = std::log(weight(j) / weight(0)) + first;
        error = Worst(error, std::abs(back - shifted));
      }
    }
    checks.Add({one->id, error});
  }
  return {cells, checks};
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& checks = FindTable(tables, "shift");
  double worst = 0;
  for (size_t row = 0; row < checks.rows.size(); ++row)
    worst = Worst(worst, checks.Number(row, "error"));
  StudyVerdict verdict{"txl-shift",
                       "each row of B is a row of B~ moved left; the products "
                       "with every distance need to be computed only once"};
  verdict.outcome = Decide(!checks.rows.empty() && worst <= kRounding);
  verdict.numbers = fmt::format(
      "pair by pair and by {} algorithms: largest difference {:.1e}",
      checks.rows.size() - 1, worst);
  return {verdict};
}

}  // namespace

Study ShiftedScoresStudy() {
  Study study;
  study.name = "shifted_scores";
  study.purpose =
      "Products of queries with the embeddings of distances, before and after "
      "rows are shifted left, compared with those that the operator computes.";
  study.source = "Transformer-XL appendix B";
  study.parameters = {{"L", 12}, {"M", 8}, {"d", 16}, {"p", 16}};
  study.tiny = {{"L", 5}, {"M", 3}, {"d", 4}, {"p", 4}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
