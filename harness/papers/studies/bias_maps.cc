// FastRPB figures 1 and 2: weights by offset, and from one pixel to all others.
// The figures show trained weights; these are made up (a peak, a slope, a wave
// and a little noise), and every number drawn is read back out of the operators
// by impulses: row i of the weight matrix is what comes out at i when one token
// after the other is one and the rest zero, all tokens at once as columns.
#include <fmt/format.h>

#include <cmath>
#include <map>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/judging/operator_run.h"
#include "harness/papers/studies/studies.h"

namespace subquad {
namespace {

// Impulse columns through an FFT come back within a few roundings of the
// largest weight.
constexpr double kRoundings = 64;

std::vector<double> MadeUpWeights(const Draws& draws, int64_t count,
                                  double width) {
  std::vector<double> weights(static_cast<size_t>(count));
  const double middle = static_cast<double>(count / 2);
  for (int64_t t = 0; t < count; ++t) {
    const double x = (static_cast<double>(t) - middle) / width;
    weights[static_cast<size_t>(t)] =
        1.5 * std::exp(-std::abs(4 * x)) +
        0.4 * std::exp(-x * x) * std::cos(6 * x) - 0.15 * x +
        0.05 * draws.Normal(static_cast<uint64_t>(t));
  }
  return weights;
}

// values[j, c] = 1 where j = c.
std::vector<double> Impulses(int64_t n) {
  std::vector<double> values(static_cast<size_t>(n * n));
  for (int64_t j = 0; j < n; ++j) values[static_cast<size_t>(j * n + j)] = 1;
  return values;
}

struct Map {
  std::string op;
  Params params;
  std::vector<GivenTensor> weights;
  int64_t n;                                // tokens
  int64_t from;                             // the query looked at
  std::function<double(int64_t)> expected;  // by key
};

StudyTables Measure(StudyRun& run, const Json& parameters) {
  const int64_t n = parameters.at("n"), height = parameters.at("height"),
                width = parameters.at("width"), row = parameters.at("row"),
                column = parameters.at("column");
  Params image;
  image.Set("height", height);
  image.Set("width", width);
  const int64_t row_offsets = 2 * height - 1, column_offsets = 2 * width - 1;
  const std::vector<double> line =
      MadeUpWeights(run.DrawsOf("line"), 2 * n - 1, static_cast<double>(n) / 2);
  const std::vector<double> by_row = MadeUpWeights(
      run.DrawsOf("rows"), row_offsets, static_cast<double>(height) / 2);
  const std::vector<double> by_column = MadeUpWeights(
      run.DrawsOf("columns"), column_offsets, static_cast<double>(width) / 2);
  // A full 2-D bias that is no sum of rows and columns: rings and a slant.
  std::vector<double> full(static_cast<size_t>(row_offsets * column_offsets));
  const Draws noise = run.DrawsOf("full");
  for (int64_t r = 0; r < row_offsets; ++r)
    for (int64_t c = 0; c < column_offsets; ++c) {
      const double y = static_cast<double>(r - height + 1),
                   x = static_cast<double>(c - width + 1);
      const double far = std::hypot(x, y);
      const auto index = static_cast<size_t>(r * column_offsets + c);
      full[index] = std::exp(-far / 4) +
                    0.4 * std::cos(far / 2) * std::exp(-far / 12) +
                    0.002 * x * y + 0.03 * noise.Normal(index);
    }
  const int64_t pixel = row * width + column;
  std::vector<Map> maps;
  maps.push_back({"toeplitz_1d",
                  {},
                  {{"weights", {2 * n - 1}, line}},
                  n,
                  n / 2,
                  [&](int64_t j) {
                    return line[static_cast<size_t>(j - n / 2 + n - 1)];
                  }});
  maps.push_back(
      {"toeplitz_2d_xy",
       image,
       {{"weights_rows", {row_offsets}, by_row},
        {"weights_cols", {column_offsets}, by_column}},
       height * width,
       pixel,
       [&](int64_t j) {
         return by_row[static_cast<size_t>(j / width - row + height - 1)] +
                by_column[static_cast<size_t>(j % width - column + width - 1)];
       }});
  maps.push_back({"toeplitz_2d",
                  image,
                  {{"weights", {row_offsets, column_offsets}, full}},
                  height * width,
                  pixel,
                  [&](int64_t j) {
                    return full[static_cast<size_t>(
                        (j / width - row + height - 1) * column_offsets +
                        j % width - column + width - 1)];
                  }});
  StudyTable offsets{"offsets",
                     {{"offset", "tokens", "key minus query"},
                      {"weight", "1", "read back from the operator"}},
                     {}};
  StudyTable pixels{"pixels",
                    {{"operator", "name", "whose weights"},
                     {"row", "pixels", "of the key"},
                     {"column", "pixels", "of the key"},
                     {"weight", "1", "read back from the operator"}},
                    {}};
  StudyTable checks{"impulses",
                    {{"operator", "name", "operator"},
                     {"implementation", "name", "algorithm, in float64"},
                     {"error", "1", "largest difference to the weights"},
                     {"limit", "1", "64 roundings of the largest weight"}},
                    {}};
  for (Map& map : maps) {
    std::vector<GivenTensor> tensors = map.weights;
    tensors.push_back({"values", {map.n, map.n}, Impulses(map.n)});
    Trial trial = MakeTrial(FindOperator(map.op), map.params, Scalar::kFloat64,
                            tensors, run.seed());
    bool shown = false;
    for (const Implementation* implementation :
         CpuImplementations(trial.problem())) {
      const std::vector<double> out =
          RunOnce(*implementation, trial, run.threads());
      double error = 0, largest = 0;
      for (int64_t j = 0; j < map.n; ++j) {
        const double weight = out[static_cast<size_t>(map.from * map.n + j)];
        const double wanted = map.expected(j);
        const double off = std::abs(weight - wanted);
        error = Worst(error, off);
        largest = std::max(largest, std::abs(wanted));
      }
      checks.Add(
          {map.op, implementation->id, error, kRoundings * 0x1p-53 * largest});
      // The fast algorithm's own numbers are drawn.
      if (shown || implementation->id == "dense") continue;
      shown = true;
      for (int64_t j = 0; j < map.n; ++j) {
        const double weight = out[static_cast<size_t>(map.from * map.n + j)];
        if (map.op == "toeplitz_1d")
          offsets.Add({j - map.from, weight});
        else
          pixels.Add({map.op, j / width, j % width, weight});
      }
    }
  }
  return {offsets, pixels, checks};
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable& checks = FindTable(tables, "impulses");
  bool within = !checks.rows.empty();
  double worst = 0;
  for (size_t r = 0; r < checks.rows.size(); ++r) {
    const double part = checks.Number(r, "error") / checks.Number(r, "limit");
    within = within && part <= 1;
    worst = Worst(worst, part);
  }
  StudyVerdict verdict{"bias-maps",
                       "impulses give the weights back, by every algorithm"};
  verdict.ours = true;
  verdict.outcome = Decide(within);
  verdict.numbers = fmt::format(
      "{} algorithms of Toeplitz products: largest error {:.2f} of the limit "
      "({:g} roundings of the largest weight)",
      checks.rows.size(), worst, kRoundings);
  return {verdict};
}

}  // namespace

Study BiasMapsStudy() {
  Study study;
  study.name = "bias_maps";
  study.purpose =
      "Weights by offset and from one pixel to all others, read back from the "
      "operators by impulses; made-up weights, not trained ones.";
  study.source = "FastRPB figures 1 and 2";
  study.parameters = {
      {"n", 512}, {"height", 28}, {"width", 28}, {"row", 12}, {"column", 10}};
  study.tiny = {
      {"n", 48}, {"height", 9}, {"width", 7}, {"row", 3}, {"column", 4}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
