// NPRF proposition 1: attention with a bias by offset is not, in general, the
// softmax of a product of d-dimensional queries and keys once n > d+1.
//
// A map of dot-then-exponentiate attention fixes its logits up to a number per
// row. So a bias B is representable exactly if B - beta 1' has rank at most d
// for some beta; the best logits in the Frobenius norm are the truncated
// singular value decomposition of B with its row means taken out. As n rows
// centred like this have rank at most n-1, all biases are representable up to
// n = d+1, and a bias of full rank is not for n >= d+2: a sharp edge, measured
// on both sides. The class here is wider than the proposition's (any factors,
// not those of given inputs), so a misfit here is a misfit there. Attention
// maps are also fitted directly (least divergence).
#include <fmt/format.h>

#include <Eigen/SVD>
#include <cmath>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/nprf/nprf.h"

namespace subquad {
namespace {

using Matrix =
    Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;

// Exact: the residual is of the size of rounding.
constexpr double kExact = 1e-11, kInexact = 1e-6;

const std::vector<std::pair<std::string, std::string>>& Kinds() {
  static const std::vector<std::pair<std::string, std::string>> kinds = {
      {"random", "independent N(0, 1) by offset"},
      {"distance", "-|j - i| / 8"},
      {"buckets", "independent N(0, 1) by bucket of log(|j - i| + 1), by sign"},
      {"waves", "two cosines of the offset: rank 4"}};
  return kinds;
}

Matrix BiasMatrix(const std::string& kind, int64_t n, const Draws& draws) {
  Matrix bias(n, n);
  for (int64_t i = 0; i < n; ++i)
    for (int64_t j = 0; j < n; ++j) {
      const int64_t offset = j - i;
      const double far = static_cast<double>(std::abs(offset));
      if (kind == "random") {
        bias(i, j) = draws.Normal(static_cast<uint64_t>(offset + n));
      } else if (kind == "distance") {
        bias(i, j) = -far / 8;
      } else if (kind == "buckets") {
        const auto bucket =
            static_cast<uint64_t>(std::floor(2 * std::log2(far + 1)));
        bias(i, j) = draws.Normal(2 * bucket + (offset > 0 ? 1 : 0));
      } else {
        bias(i, j) = std::cos(0.3 * static_cast<double>(offset)) +
                     std::cos(0.9 * static_cast<double>(offset) + 1);
      }
    }
  return bias;
}

Matrix Softmax(const Matrix& logits) {
  Matrix map = logits.colwise() - logits.rowwise().maxCoeff();
  map = map.array().exp().matrix();
  const Eigen::VectorXd sums = map.rowwise().sum();
  return map.array().colwise() / sums.array();
}

double MeanRowError(const Matrix& a, const Matrix& b) {
  return (a - b).cwiseAbs().rowwise().sum().mean();
}

struct Fit {
  int64_t rank = 0;        // of the bias
  double residual = 0;     // of the best logits, over the norm of the centred
  double logit_error = 0;  // mean |A - A^|_1 of their attention
  double map_error = 0;    // of the attention fitted directly
};

Eigen::BDCSVD<Eigen::MatrixXd> Decompose(const Matrix& matrix) {
  return Eigen::BDCSVD<Eigen::MatrixXd>(
      matrix, Eigen::ComputeThinU | Eigen::ComputeThinV);
}

// Gradient steps with momentum and step sizes by element (Kingma and Ba 2015)
// on the divergence of softmax(U V') from the map.
double FitMap(const Matrix& map, Matrix u, Matrix v, int steps) {
  const double n = static_cast<double>(map.rows());
  Matrix first[2], second[2];
  for (int s = 0; s < 2; ++s) {
    first[s] = Matrix::Zero(u.rows(), u.cols());
    second[s] = first[s];
  }
  double best = HUGE_VAL;
  for (int step = 1; step <= steps; ++step) {
    const Matrix fitted = Softmax(u * v.transpose());
    best = std::min(best, MeanRowError(fitted, map));
    const Matrix slope = (fitted - map) / n;
    const Matrix gradients[2] = {slope * v, slope.transpose() * u};
    const double rate = 0.05 * (1 - static_cast<double>(step) / (steps + 1));
    for (int s = 0; s < 2; ++s) {
      first[s] = 0.9 * first[s] + 0.1 * gradients[s];
      second[s] = 0.999 * second[s] + 0.001 * gradients[s].cwiseAbs2();
      const double a = 1 - std::pow(0.9, step), b = 1 - std::pow(0.999, step);
      Matrix& factor = s == 0 ? u : v;
      factor.array() -= rate * (first[s].array() / a) /
                        ((second[s].array() / b).sqrt() + 1e-12);
    }
  }
  return best;
}

Fit FitBias(const Matrix& bias, int64_t d, int steps) {
  Fit fit;
  const int64_t n = bias.rows();
  const auto whole = Decompose(bias);
  const double tiny =
      static_cast<double>(n) * 0x1p-52 * whole.singularValues()(0);
  for (int64_t i = 0; i < n; ++i) fit.rank += whole.singularValues()(i) > tiny;
  const Matrix centred =
      bias.colwise() - Eigen::VectorXd(bias.rowwise().mean());
  const auto parts = Decompose(centred);
  const int64_t kept = std::min(d, n);
  const Eigen::VectorXd& values = parts.singularValues();
  fit.residual = values.tail(n - kept).norm() / values.norm();
  const Eigen::VectorXd roots = values.head(kept).cwiseSqrt();
  const Matrix u = parts.matrixU().leftCols(kept) * roots.asDiagonal();
  const Matrix v = parts.matrixV().leftCols(kept) * roots.asDiagonal();
  const Matrix map = Softmax(bias);
  fit.logit_error = MeanRowError(Softmax(u * v.transpose()), map);
  fit.map_error = steps > 0 ? FitMap(map, u, v, steps) : fit.logit_error;
  return fit;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const auto widths = parameters.at("d").get<std::vector<int64_t>>();
  const int64_t n = parameters.at("n"), steps = parameters.at("steps");
  StudyTable spectrum{"spectrum",
                      {{"bias", "name", "kind of bias"},
                       {"index", "1", "1 is the largest"},
                       {"value", "1", "singular value over the largest"}},
                      {}};
  StudyTable kinds{"kinds",
                   {{"bias", "name", "kind of bias"},
                    {"meaning", "text", "what it is"},
                    {"n", "1", "tokens"},
                    {"rank", "1", "of the bias matrix"}},
                   {}};
  for (const auto& [kind, meaning] : Kinds()) {
    const auto parts = Decompose(BiasMatrix(kind, n, run.DrawsOf(kind)));
    const Eigen::VectorXd& values = parts.singularValues();
    int64_t rank = 0;
    for (int64_t i = 0; i < n; ++i) {
      spectrum.Add({kind, i + 1, values(i) / values(0)});
      rank += values(i) > static_cast<double>(n) * 0x1p-52 * values(0);
    }
    kinds.Add({kind, meaning, n, rank});
  }

  struct Task {
    std::string kind;
    int64_t d, n;
    bool edge;
    Fit fit;
  };
  std::vector<Task> tasks;
  for (int64_t d : widths)
    for (int64_t extra : {-1, 0, 1, 2, 3, 4, 8})
      if (d + extra > 1) tasks.push_back({"random", d, d + extra, true, {}});
  for (const auto& [kind, meaning] : Kinds())
    for (int64_t d : widths) tasks.push_back({kind, d, n, false, {}});
  run.For(static_cast<int64_t>(tasks.size()), [&](int64_t index) {
    Task& task = tasks[static_cast<size_t>(index)];
    task.fit = FitBias(BiasMatrix(task.kind, task.n, run.DrawsOf(task.kind)),
                       task.d, task.edge ? 0 : static_cast<int>(steps));
  });
  const std::vector<StudyColumn> columns = {
      {"bias", "name", "kind of bias"},
      {"d", "1", "width of queries and keys"},
      {"n", "1", "tokens"},
      {"rank", "1", "of the bias matrix"},
      {"residual", "1",
       "residual of the best logits of rank d over the norm of the centred "
       "bias"},
      {"logit_error", "1", "mean |A - A^|_1 of the attention of those logits"},
      {"map_error", "1", "the same, attention fitted directly"}};
  StudyTable edge{"edge", columns, {}}, fits{"fits", columns, {}};
  for (const Task& task : tasks)
    (task.edge ? edge : fits)
        .Add({task.kind, task.d, task.n, task.fit.rank, task.fit.residual,
              task.fit.logit_error, task.fit.map_error});
  return {kinds, spectrum, edge, fits};
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& edge = FindTable(tables, "edge");
  double inside = 0, outside = HUGE_VAL, least_error = HUGE_VAL;
  bool full = true;
  for (size_t r = 0; r < edge.rows.size(); ++r) {
    full = full && edge.Number(r, "rank") == edge.Number(r, "n");
    if (edge.Number(r, "n") <= edge.Number(r, "d") + 1) {
      inside = Worst(inside, edge.Number(r, "residual"));
    } else {
      outside = Least(outside, edge.Number(r, "residual"));
      least_error = Least(least_error, edge.Number(r, "logit_error"));
    }
  }
  StudyVerdict edge_verdict{
      "nprf-prop1",
      "dot-then-exponentiate attention cannot represent a bias of full rank "
      "when n > d+1"};
  edge_verdict.outcome =
      Decide(full && inside <= kExact && outside >= kInexact);
  edge_verdict.numbers = fmt::format(
      "residual of the best logits: at most {:.1e} of the bias for n <= d+1, "
      "at "
      "least {:.1e} for n >= d+2 (mean |A - A^|_1 at least {:.1e})",
      inside, outside, least_error);

  const StudyTable& fits = FindTable(tables, "fits");
  StudyVerdict low{"nprf-prop1-rank",
                   "a bias of rank at most d can be represented, one of full "
                   "rank cannot, whatever its shape"};
  bool as_rank = true;
  for (size_t r = 0; r < fits.rows.size(); ++r) {
    const double d = fits.Number(r, "d"), residual = fits.Number(r, "residual");
    if (fits.Number(r, "rank") <= d) as_rank = as_rank && residual <= kExact;
    if (fits.Number(r, "rank") > d + 1) as_rank = as_rank && residual >= kExact;
  }
  const double narrowest = fits.Number(0, "d");
  for (size_t r = 0; r < fits.rows.size(); ++r)
    if (fits.Number(r, "d") == narrowest)
      low.numbers += fmt::format(
          "{}{} (rank {:g}): |A - A^|_1 = {:.3g}",
          low.numbers.empty()
              ? fmt::format("fitted attention at d = {:g}, n = {:g}: ",
                            narrowest, fits.Number(r, "n"))
              : "; ",
          fits.Text(r, "bias"), fits.Number(r, "rank"),
          fits.Number(r, "map_error"));
  low.outcome = Decide(as_rank);
  return {edge_verdict, low};
}

}  // namespace

Study RpeRankStudy() {
  Study study;
  study.name = "rpe_rank";
  study.purpose =
      "Rank of bias matrices compared with d + 1, and residual of the best fit "
      "of an attention map with relative positions by one without them.";
  study.source = "NPRF proposition 1";
  study.parameters = {{"d", {4, 8, 16, 32}}, {"n", 64}, {"steps", 1500}};
  study.tiny = {{"d", {4, 8}}, {"n", 24}, {"steps", 60}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
