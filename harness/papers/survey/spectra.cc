// Transformers II, eq. 15: is the attention matrix of trained models low-rank?
// Singular values of the softmax attention of every head in reports/inputs/,
// with the head's own bias, and of heads whose queries and keys are drawn with
// the same lengths.
#include <fmt/format.h>

#include <Eigen/Eigenvalues>
#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/papers/frame/attention_heads.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/survey/survey.h"

namespace subquad {
namespace {

// Low rank: this share of the keys, at most, carries the energy.
constexpr double kLow = 0.125;

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

Matrix AttentionOf(const AttentionHead& head, int64_t n,
                   const std::vector<double>& queries,
                   const std::vector<double>& keys) {
  const Matrix q = Eigen::Map<const Matrix>(queries.data(), n, head.d),
               k = Eigen::Map<const Matrix>(keys.data(), n, head.d);
  Matrix rows = head.scale * q * k.transpose();
  for (int64_t i = 0; i < n; ++i) {
    if (!head.bias.empty())
      for (int64_t j = 0; j < n; ++j)
        rows(i, j) += head.bias[static_cast<size_t>(j - i + head.n - 1)];
    if (head.causal)
      for (int64_t j = i + 1; j < n; ++j) rows(i, j) = -HUGE_VAL;
    rows.row(i) = (rows.row(i).array() - rows.row(i).maxCoeff()).exp();
    rows.row(i) /= rows.row(i).sum();
  }
  return rows;
}

// How many singular values, from the largest, have this share of the sum of
// their squares.
int64_t RankFor(const std::vector<double>& squares, double share) {
  double total = 0, sum = 0;
  for (double square : squares) total += square;
  for (size_t i = 0; i < squares.size(); ++i) {
    sum += squares[i];
    if (sum >= share * total) return static_cast<int64_t>(i) + 1;
  }
  return static_cast<int64_t>(squares.size());
}

std::vector<double> SquaresOf(const Matrix& attention) {
  const Eigen::MatrixXd gram = attention * attention.transpose();
  const Eigen::SelfAdjointEigenSolver<Eigen::MatrixXd> solver(
      gram, Eigen::EigenvaluesOnly);
  std::vector<double> squares(solver.eigenvalues().data(),
                              solver.eigenvalues().data() + gram.rows());
  for (double& square : squares) square = std::max(square, 0.0);
  std::ranges::reverse(squares);
  return squares;
}

// Drawn rows, each as long as the head's.
std::vector<double> Drawn(const Draws& draws, int64_t index, int64_t d,
                          std::vector<double> rows) {
  const auto count = static_cast<int64_t>(rows.size()) / d;
  const std::vector<double> unit = SampleUnitRows(draws, index, count, d);
  for (int64_t r = 0; r < count; ++r) {
    double square = 0;
    for (int64_t c = 0; c < d; ++c) {
      const double value = rows[static_cast<size_t>(r * d + c)];
      square += value * value;
    }
    for (int64_t c = 0; c < d; ++c) {
      const auto at = static_cast<size_t>(r * d + c);
      rows[at] = std::sqrt(square) * unit[at];
    }
  }
  return rows;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  StudyTable table{
      "rank",
      {{"head", "name", "folder and head"},
       {"model", "name", "to which it belongs"},
       {"rows", "tokens", "queries and keys used: the first ones"},
       {"width", "1", "of its queries and keys"},
       {"rank_90", "1", "singular values with 90 % of the squares"},
       {"rank_99", "1", "singular values with 99 % of the squares"},
       {"drawn_90", "1", "the same of drawn rows of the same lengths"},
       {"drawn_99", "1", "the same of drawn rows of the same lengths"}},
      {}};
  const AttentionHeads all =
      HeadsOf(FoldersInTree(), parameters.at("most_heads"));
  const int64_t most = parameters.at("rows");
  const Draws queries = run.DrawsOf("queries"), keys = run.DrawsOf("keys");
  std::vector<std::vector<Json>> rows(all.heads.size());
  run.For(static_cast<int64_t>(all.heads.size()), [&](int64_t index) {
    AttentionHead head = all.heads[static_cast<size_t>(index)];
    const int64_t n = std::min(most, head.n);
    head.queries.resize(static_cast<size_t>(n * head.d));
    head.keys.resize(static_cast<size_t>(n * head.d));
    const std::vector<double> own =
        SquaresOf(AttentionOf(head, n, head.queries, head.keys));
    const std::vector<double> drawn = SquaresOf(
        AttentionOf(head, n, Drawn(queries, index, head.d, head.queries),
                    Drawn(keys, index, head.d, head.keys)));
    rows[static_cast<size_t>(index)] = {head.name,
                                        head.model,
                                        n,
                                        head.d,
                                        RankFor(own, 0.9),
                                        RankFor(own, 0.99),
                                        RankFor(drawn, 0.9),
                                        RankFor(drawn, 0.99)};
  });
  for (std::vector<Json>& row : rows) table.Add(std::move(row));
  return {table};
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "rank");
  int heads = 0, low = 0, low_99 = 0, missing = 0;
  std::vector<double> ranks, drawn;
  double rows = 0;
  for (size_t r = 0; r < table.rows.size(); ++r) {
    const double rank = table.Number(r, "rank_90");
    rows = table.Number(r, "rows");
    ++heads;
    missing += !std::isfinite(rank);
    low += rank <= kLow * rows;
    low_99 += table.Number(r, "rank_99") <= kLow * rows;
    ranks.push_back(rank);
    drawn.push_back(table.Number(r, "drawn_90"));
  }
  StudyVerdict verdict{
      "survey-low-rank",
      "the attention matrices of trained models are often low-rank"};
  verdict.outcome = Decide(heads > 0 && missing == 0 && 2 * low >= heads,
                           missing == 0 && low > 0);
  verdict.numbers = fmt::format(
      "{} of {} heads have 90 % of the squared singular values in an eighth of "
      "the {:g} (often: at least half of the heads), {} have 99 %; 90 % are in "
      "{:.0f} values for the median head, in {:.0f} for drawn queries and keys "
      "of the same lengths",
      low, heads, rows, low_99, heads > 0 ? Quantile(ranks, 0.5) : NAN,
      heads > 0 ? Quantile(drawn, 0.5) : NAN);
  return {verdict};
}

}  // namespace

Study SpectraStudy() {
  Study study;
  study.name = "spectra";
  study.purpose =
      "Singular values of the attention matrices of trained models.";
  study.source = "Transformers II eq. 15";
  study.parameters = {{"most_heads", 24}, {"rows", 512}};
  study.tiny = {{"most_heads", 6}, {"rows", 64}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
