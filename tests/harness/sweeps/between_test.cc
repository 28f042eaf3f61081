// The choice of additional sizes to measure, so that crossovers are known more
// precisely.
#include "harness/sweeps/between.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "harness/results/curve.h"

namespace subquad {
namespace {

const Recipe kRecipe("made", R"({
  "format": "recipe/1", "kind": "curves", "title": "t", "source": "s",
  "shows": "s", "here": "h",
  "sweeps": [{"operator": "toeplitz_1d", "implementation": ["dense", "fft_columns"],
              "n": [256, 1024, 4096]}],
  "series": [{"id": "dense", "match": {"implementation": "dense"},
              "label": "dense"},
             {"id": "fast", "match": {"implementation": "fft_columns"},
              "label": "fft_columns"}],
  "crossovers": [["fast", "dense"]],
  "panels": [{"y": "seconds"}]})");

Json RecordOf(const std::string& implementation, int64_t n, double seconds,
              double noise) {
  return {{"operator", "toeplitz_1d"},
          {"implementation", implementation},
          {"backend", "cpu"},
          {"scalar", "float32"},
          {"threads", 1},
          {"input", "normal"},
          {"size", {{"n_q", n}, {"n_k", n}, {"e", 64}, {"heads", 1}}},
          {"tokens", n},
          {"length_axes", {"n_q", "n_k"}},
          {"params", {{"causal", false}}},
          {"case", "toeplitz_1d:n=" + std::to_string(n) +
                       ",e=64,causal=0,scalar=float32,seed=1"},
          {"seconds",
           {{"median", seconds},
            {"low", seconds / noise},
            {"high", seconds * noise}}},
          {"workspace_bytes", 4},
          {"check", {{"verdict", "passed"}, {"reason", nullptr}}}};
}

using Cost = std::function<double(double)>;

// The product takes n^2, the transform a different time.
void Add(int64_t n, const Cost& fast, double noise,
         std::vector<Json>& records) {
  const auto size = static_cast<double>(n);
  records.push_back(RecordOf("dense", n, 1e-9 * size * size, noise));
  records.push_back(RecordOf("fft_columns", n, 1e-9 * fast(size), noise));
}

TEST(BetweenCrossings, HalveTheStepUntilTheIntervalIsNarrow) {
  // The curves cross at n = 1500.
  const Cost fast = [](double n) { return 1500 * n; };
  std::vector<Json> records;
  for (int64_t n : {256, 1024, 4096}) Add(n, fast, 1.0001, records);
  std::vector<int64_t> asked;
  for (int round = 0; round < 20; ++round) {
    const auto plan = BetweenCrossings(records, {kRecipe});
    if (plan.empty()) break;
    ASSERT_EQ(plan.size(), 1u);
    EXPECT_EQ(plan[0].implementations.size(), 2u);
    EXPECT_EQ(plan[0].threads, 1);
    asked.push_back(plan[0].test_case.Tokens());
    Add(asked.back(), fast, 1.0001, records);
  }
  ASSERT_GE(asked.size(), 3u);
  EXPECT_EQ(asked.front(), 2048);  // halfway between 1024 and 4096
  EXPECT_LT(std::abs(static_cast<double>(asked.back()) / 1500 - 1), 0.08);
  // The summary uses all of these sizes, and its figure only those of the
  // recipe.
  std::vector<RecipePoint> points;
  for (const Json& record : records)
    points.push_back({SettingsOf(record), &record});
  const Json& series = kRecipe.content().at("series");
  const auto dense = CurvesOf(kRecipe, series[0], points, {});
  const auto transform = CurvesOf(kRecipe, series[1], points, {});
  EXPECT_EQ(transform[0].points.size(), 3u);
  const Crossover crossing =
      CrossoverOf(transform[0], dense[0], CurveValue::kSeconds);
  EXPECT_NEAR(crossing.n.value(), 1500, 1);
  EXPECT_GT(crossing.low.value(), 1400);
  EXPECT_LT(crossing.high.value(), 1600);
}

TEST(BetweenCrossings, NothingWhereTheyDoNotCross) {
  std::vector<Json> records;
  for (int64_t n : {256, 1024, 4096})
    Add(
        n, [](double) { return 1.0; }, 1.01, records);
  EXPECT_TRUE(BetweenCrossings(records, {kRecipe}).empty());
}

// Another size would be equally uncertain.
TEST(BetweenCrossings, NothingWhereTheTimesAreTooUncertain) {
  std::vector<Json> records;
  for (int64_t n : {256, 1024, 4096})
    Add(
        n, [](double size) { return 1500 * size; }, 9, records);
  EXPECT_TRUE(BetweenCrossings(records, {kRecipe}).empty());
}

TEST(BetweenCrossings, ImagesAreSquares) {
  const Recipe recipe("made", R"({
    "format": "recipe/1", "kind": "curves", "title": "t", "source": "s",
    "shows": "s", "here": "h",
    "sweeps": [{"operator": "toeplitz_2d_xy", "n": [256, 4096]}],
    "series": [{"id": "dense", "match": {"implementation": "dense"},
                "label": "dense"},
               {"id": "fast", "match": {"implementation": "xy"},
                "label": "xy"}],
    "crossovers": [["fast", "dense"]],
    "panels": [{"y": "seconds"}]})");
  std::vector<Json> records;
  for (int64_t side : {16, 64})
    for (const char* implementation : {"dense", "xy"}) {
      const int64_t n = side * side;
      const double seconds =
          implementation == std::string("xy") ? 1e-6 * 1000 : 1e-6 * n;
      Json record = RecordOf(implementation, n, seconds, 1.01);
      record["operator"] = "toeplitz_2d_xy";
      record["size"] = {{"n_q", n},      {"n_k", n}, {"height", side},
                        {"width", side}, {"e", 64},  {"heads", 1}};
      record["length_axes"] = {"height", "width"};
      record["params"] = Json::object();
      record["case"] = "toeplitz_2d_xy:height=" + std::to_string(side) +
                       ",width=" + std::to_string(side) +
                       ",e=64,scalar=float32,seed=1";
      records.push_back(record);
    }
  const auto plan = BetweenCrossings(records, {recipe});
  ASSERT_EQ(plan.size(), 1u);
  EXPECT_EQ(plan[0].test_case.Tokens(), 1024);
}

}  // namespace
}  // namespace subquad
