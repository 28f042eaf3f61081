// FastRPB figures 1 and 2: weights by offset, and from one pixel to all others.
// The figures show trained weights; these are made up (a peak, a slope, a wave
// and a little noise). Every number drawn is read back from the operators by
// impulses: with the identity matrix as values, output row i is row i of the
// weight matrix.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/judging/operator_run.h"
#include "harness/papers/fastrpb/fastrpb.h"
#include "harness/papers/frame/study_numbers.h"

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
  int64_t from;                             // the query
  std::function<double(int64_t)> expected;  // by key
};

Map LineMap(const StudyRun& run, int64_t n) {
  std::vector<double> line =
      MadeUpWeights(run.DrawsOf("line"), 2 * n - 1, static_cast<double>(n) / 2);
  return {
      "toeplitz_1d",
      {},
      {{"weights", {2 * n - 1}, line}},
      n,
      n / 2,
      [=](int64_t j) { return line[static_cast<size_t>(j - n / 2 + n - 1)]; }};
}

// An image and the pixel from which its weights are shown.
struct Image {
  explicit Image(const Json& parameters)
      : height(parameters.at("height")),
        width(parameters.at("width")),
        row(parameters.at("row")),
        column(parameters.at("column")) {
    params.Set("height", height);
    params.Set("width", width);
  }
  // Where the weight by offset of rows or of columns is.
  size_t RowIndex(int64_t pixel) const {
    return static_cast<size_t>(pixel / width - row + height - 1);
  }
  size_t ColumnIndex(int64_t pixel) const {
    return static_cast<size_t>(pixel % width - column + width - 1);
  }

  int64_t height, width, row, column;
  Params params;
};

Map SumMap(const StudyRun& run, const Image& image) {
  const int64_t row_offsets = 2 * image.height - 1,
                column_offsets = 2 * image.width - 1;
  std::vector<double> rows = MadeUpWeights(
      run.DrawsOf("rows"), row_offsets, static_cast<double>(image.height) / 2);
  std::vector<double> columns =
      MadeUpWeights(run.DrawsOf("columns"), column_offsets,
                    static_cast<double>(image.width) / 2);
  return {"toeplitz_2d_xy",
          image.params,
          {{"weights_rows", {row_offsets}, rows},
           {"weights_cols", {column_offsets}, columns}},
          image.height * image.width,
          image.row * image.width + image.column,
          [=](int64_t j) {
            return rows[image.RowIndex(j)] + columns[image.ColumnIndex(j)];
          }};
}

// A full 2-D bias that is no sum of rows and columns: rings and a slant.
Map FullMap(const StudyRun& run, const Image& image) {
  const int64_t row_offsets = 2 * image.height - 1,
                column_offsets = 2 * image.width - 1;
  std::vector<double> full(static_cast<size_t>(row_offsets * column_offsets));
  const Draws noise = run.DrawsOf("full");
  for (int64_t r = 0; r < row_offsets; ++r)
    for (int64_t c = 0; c < column_offsets; ++c) {
      const double y = static_cast<double>(r - image.height + 1),
                   x = static_cast<double>(c - image.width + 1);
      const double far = std::hypot(x, y);
      const auto index = static_cast<size_t>(r * column_offsets + c);
      full[index] = std::exp(-far / 4) +
                    0.4 * std::cos(far / 2) * std::exp(-far / 12) +
                    0.002 * x * y + 0.03 * noise.Normal(index);
    }
  return {
      "toeplitz_2d",
      image.params,
      {{"weights", {row_offsets, column_offsets}, full}},
      image.height * image.width,
      image.row * image.width + image.column,
      [=](int64_t j) {
        return full[image.RowIndex(j) * static_cast<size_t>(column_offsets) +
                    image.ColumnIndex(j)];
      }};
}

// Calls found(implementation, weights by key) for every algorithm.
template <typename Found>
void ReadBack(const StudyRun& run, const Map& map, const Found& found) {
  std::vector<GivenTensor> tensors = map.weights;
  tensors.push_back({"values", {map.n, map.n}, Impulses(map.n)});
  Trial trial = MakeTrial(FindOperator(map.op), map.params, Scalar::kFloat64,
                          tensors, run.seed());
  for (const Implementation* one : CpuImplementations(trial.problem())) {
    const std::vector<double> out = RunOnce(*one, trial, run.threads());
    const auto row = out.begin() + map.from * map.n;
    found(*one, std::vector<double>(row, row + map.n));
  }
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
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
                     {"error", "1", "largest difference from the weights"},
                     {"limit", "1", "64 roundings of the largest weight"}},
                    {}};
  const Image image(parameters);
  for (const Map& map : {LineMap(run, parameters.at("n")), SumMap(run, image),
                         FullMap(run, image)}) {
    bool shown = false;
    ReadBack(
        run, map,
        [&](const Implementation& implementation,
            const std::vector<double>& weights) {
          double error = 0, largest = 0;
          for (int64_t j = 0; j < map.n; ++j) {
            const double expected = map.expected(j);
            error = Worst(error,
                          std::abs(weights[static_cast<size_t>(j)] - expected));
            largest = std::max(largest, std::abs(expected));
          }
          checks.Add({map.op, implementation.id, error,
                      kRoundings * 0x1p-53 * largest});
          // The numbers drawn are those of the first fast algorithm.
          if (shown || implementation.id == "dense") return;
          shown = true;
          for (int64_t j = 0; j < map.n; ++j) {
            const double weight = weights[static_cast<size_t>(j)];
            if (map.op == "toeplitz_1d")
              offsets.Add({j - map.from, weight});
            else
              pixels.Add({map.op, j / image.width, j % image.width, weight});
          }
        });
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
                       "impulses return the weights, by every algorithm"};
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
