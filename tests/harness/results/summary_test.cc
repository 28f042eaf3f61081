// The summary of a recipe's points: which points it uses, and the exponents,
// crossovers and ratios that figures and claims print.
#include "harness/results/summary.h"

#include <gtest/gtest.h>

#include <cmath>
#include <map>

#include "harness/base/digits.h"
#include "harness/results/curve.h"

namespace subquad {
namespace {

constexpr const char* kRecipe = R"({
  "format": "recipe/1", "kind": "curves", "title": "t", "source": "s",
  "shows": "s", "here": "h",
  "sweeps": [{"operator": "toeplitz_1d", "implementation": ["dense", "fft"],
              "n": "256:4096:x4", "causal": [false, true]}],
  "series": [{"match": {"implementation": "dense"}, "label": "dense"},
             {"id": "fast", "match": {"implementation": "fft"},
              "label": "fft, causal = {causal}", "by": "causal"}],
  "crossovers": [["fast", "dense"]],
  "panels": [{"y": "seconds", "where": {"causal": false}},
             {"y": "max_error"}]})";

Json RecordOf(const std::string& implementation, double n, double seconds,
              const Json& changes = Json::object()) {
  Json record = {
      {"operator", "toeplitz_1d"},
      {"implementation", implementation},
      {"backend", "cpu"},
      {"scalar", "float32"},
      {"threads", 1},
      {"input", "normal"},
      {"size", {{"n_q", n}, {"n_k", n}, {"e", 64}, {"heads", 1}}},
      {"tokens", n},
      {"length_axes", {"n_q", "n_k"}},
      {"params", {{"causal", false}}},
      {"case", "n=" + std::to_string(n)},
      {"seconds",
       {{"median", seconds}, {"low", seconds / 1.1}, {"high", seconds * 1.1}}},
      {"workspace_bytes", 4 * n},
      {"check", {{"verdict", "passed"}, {"reason", nullptr}}}};
  record.merge_patch(changes);
  return record;
}

// Gives dense n^2 and fft 1024 n, which cross at n = 1024.
std::vector<Json> Records() {
  std::vector<Json> records;
  for (double n : {256, 1024, 4096}) {
    records.push_back(RecordOf("dense", n, 1e-9 * n * n));
    records.push_back(RecordOf("fft", n, 1e-9 * n * 1000));
  }
  return records;
}

std::vector<RecipePoint> Points(const std::vector<Json>& records) {
  std::vector<RecipePoint> points;
  for (const Json& record : records)
    points.push_back({SettingsOf(record), &record});
  return points;
}

Json FileOf(const std::vector<Json>& records) {
  return {{"environment", {{"cpu", "a processor"}, {"gpu", nullptr}}},
          {"records", records}};
}

Json Summarized(const std::vector<Json>& records) {
  return SummarizeRecipes({{"made.json", FileOf(records)}},
                          {Recipe("made", kRecipe)});
}

std::vector<double> Sizes(const std::vector<Json>& records) {
  const Recipe recipe("made", kRecipe);
  const auto curves =
      CurvesOf(recipe, recipe.content().at("series")[0], Points(records), {});
  std::vector<double> sizes;
  for (const RecipeCurve& curve : curves)
    for (const CurvePoint& point : curve.points) sizes.push_back(point.n);
  return sizes;
}

TEST(RecipeCurves, TakeTheSizesThatTheRecipeNames) {
  std::vector<Json> records = Records();
  records.push_back(RecordOf("dense", 512, 1));
  EXPECT_EQ(Sizes(records), (std::vector<double>{256, 1024, 4096}));
  // Any size is used if fewer than three of the recipe's own were measured.
  std::erase_if(records, [](const Json& record) {
    return record.at("size").at("n_k") == 256;
  });
  EXPECT_EQ(Sizes(records), (std::vector<double>{512, 1024, 4096}));
}

TEST(RecipeCurves, LeaveOtherSettingsOut) {
  const std::vector<Json> others = {{{"scalar", "float64"}},
                                    {{"threads", 2}},
                                    {{"input", "wide"}},
                                    {{"operator", "toeplitz_2d"}},
                                    {{"size", {{"e", 32}}}},
                                    {{"size", {{"n_q", 7}, {"e", 32}}}},
                                    {{"params", {{"backward", true}}}},
                                    {{"params", {{"with", {"bias"}}}}}};
  for (const Json& other : others) {
    std::vector<Json> records = Records();
    records.push_back(RecordOf("dense", 16384, 1, other));
    EXPECT_EQ(Sizes(records), (std::vector<double>{256, 1024, 4096})) << other;
  }
}

TEST(RecipeCurves, HaveOneValueOfEachSetting) {
  std::vector<Json> records = Records();
  records.push_back(RecordOf("dense", 512, 1, {{"params", {{"block", 32}}}}));
  records.push_back(RecordOf("dense", 2048, 1, {{"params", {{"block", 64}}}}));
  try {
    Sizes(records);
    FAIL() << "two values of block";
  } catch (const InvalidInput& problem) {
    EXPECT_NE(std::string(problem.what()).find("block"), std::string::npos);
    EXPECT_NE(std::string(problem.what()).find("32 and 64"), std::string::npos);
  }
}

TEST(RecipeCurves, LeaveOutRecordsThatDidNotPass) {
  std::vector<Json> records = Records();
  records[0]["check"] = {{"verdict", "failed"}, {"reason", "planted"}};
  EXPECT_EQ(Sizes(records), (std::vector<double>{1024, 4096}));
}

TEST(RecipeSummary, ByHand) {
  const Json entries = Summarized(Records());
  ASSERT_EQ(entries.size(), 1);
  const Json& entry = entries[0];
  EXPECT_EQ(entry.at("recipe"), "made");
  EXPECT_EQ(entry.at("machine"), "a processor");
  ASSERT_EQ(entry.at("panels").size(), 1);  // errors have no exponents
  const Json& panel = entry.at("panels")[0];
  ASSERT_EQ(panel.at("curves").size(), 2);
  EXPECT_NEAR(panel.at("curves")[0].at("fit").at("exponent"), 2, 1e-9);
  EXPECT_NEAR(panel.at("curves")[1].at("fit").at("exponent"), 1, 1e-9);
  EXPECT_EQ(panel.at("curves")[1].at("label"), "fft, causal = 0");
  // The curves n^2 = 1000 n cross at 1000; bands of 10 % on both sides move
  // that by 1.21.
  const Json& crossover = panel.at("crossovers")[0];
  EXPECT_NEAR(crossover.at("n"), 1000, 1e-6);
  EXPECT_NEAR(crossover.at("low"), 1000 / 1.21, 1e-6);
  EXPECT_NEAR(crossover.at("high"), 1000 * 1.21, 1e-6);
  EXPECT_NEAR(crossover.at("value"), 1e-3, 1e-12);
  ASSERT_EQ(panel.at("ratios").size(), 3);
  EXPECT_NEAR(panel.at("ratios")[2].at("ratio"), 4.096, 1e-9);
  EXPECT_NEAR(panel.at("ratios")[2].at("low"), 4.096 / 1.21, 1e-9);
}

TEST(RecipeSummary, AConstantDoesNotGrow) {
  std::vector<Json> records = Records();
  for (Json& record : records) record["workspace_bytes"] = 12345;
  const Recipe recipe("made", kRecipe);
  const std::vector<RecipePoint> points = Points(records);
  const auto curves =
      CurvesOf(recipe, recipe.content().at("series")[0], points, {});
  const auto fit = FitOf(curves.at(0), CurveValue::kWorkspace);
  ASSERT_TRUE(fit);
  EXPECT_EQ(fit->exponent, 0);
  EXPECT_EQ(fit->interval.high, 0);
}

TEST(RecipeSummary, NamesTheFasterIfCurvesDoNotCross) {
  for (const auto& [factor, words] :
       {std::pair{0.001, "better at every size from n = 256"},
        {100.0, "not better at the largest size, n = 4096"}}) {
    std::vector<Json> records;
    for (double n : {256, 1024, 4096}) {
      records.push_back(RecordOf("dense", n, 1e-9 * n * n));
      records.push_back(RecordOf("fft", n, factor * 1e-9 * n * n));
    }
    const Json panel = Summarized(records)[0].at("panels")[0];
    EXPECT_TRUE(panel.at("crossovers")[0].at("n").is_null());
    EXPECT_EQ(
        panel.at("crossovers")[0].at("reason").get<std::string>().find(words),
        0);
  }
}

TEST(RecipeSummary, MachinesAreSeparateAndNothingIsRepeated) {
  Json other = FileOf(Records());
  other["environment"]["cpu"] = "another";
  const std::vector<Recipe> recipes = {Recipe("made", kRecipe)};
  EXPECT_EQ(
      SummarizeRecipes({{"one", FileOf(Records())}, {"two", other}}, recipes)
          .size(),
      2);
  EXPECT_THROW(
      SummarizeRecipes({{"one", FileOf(Records())}, {"two", FileOf(Records())}},
                       recipes),
      InvalidInput);
}

TEST(RecipeSummary, ShardsOfSeveralProcessorsHaveNoTimes) {
  Json file = FileOf(Records());
  file["sources"] = {{{"environment", {{"cpu", "another"}}}}};
  const Json panel =
      SummarizeRecipes({{"merged", file}}, {Recipe("made", kRecipe)})[0].at(
          "panels")[0];
  EXPECT_TRUE(panel.at("curves")[0].at("fit").is_null());
  EXPECT_TRUE(panel.at("crossovers")[0].at("n").is_null());
  EXPECT_TRUE(panel.at("ratios").empty());
}

// Returns the test recipe with one more series, which names no implementation.
std::string WithOthers(const std::string& more) {
  std::string text = kRecipe;
  const std::string last = "\"by\": \"causal\"}";
  text.replace(
      text.find(last), last.size(),
      last + ", {\"match\": {\"operator\": \"toeplitz_1d\"}, " + more + "}");
  return text;
}

constexpr const char* kOthers =
    R"("others": true, "by": "implementation", "label": "{implementation}")";

std::map<std::string, Json> SizesByLabel(const std::vector<Json>& records,
                                         const std::string& recipe) {
  const Json entries = SummarizeRecipes({{"made.json", FileOf(records)}},
                                        {Recipe("made", recipe)});
  std::map<std::string, Json> sizes;
  for (const Json& curve : entries.at(0).at("panels").at(0).at("curves"))
    sizes[curve.at("label")] = curve.at("n");
  return sizes;
}

TEST(RecipeOthers, AreRecordsOfNoNamedSeries) {
  const Json own = {256, 1024, 4096};
  std::vector<Json> records = Records();
  for (double n : {256, 512, 1024, 4096})
    records.push_back(RecordOf("karatsuba", n, 1e-9 * n));
  records.push_back(RecordOf("blocked", 512, 1));
  records.push_back(RecordOf("folded", 256, 1, {{"scalar", "float64"}}));
  std::map<std::string, Json> expected = {{"dense", own},
                                          {"fft, causal = 0", own}};
  EXPECT_EQ(SizesByLabel(records, kRecipe), expected);
  expected["karatsuba"] = own;
  expected["blocked"] = {512};  // fewer than three of the recipe's sizes
  EXPECT_EQ(SizesByLabel(records, WithOthers(kOthers)), expected);
  expected.erase("blocked");
  EXPECT_EQ(
      SizesByLabel(records,
                   WithOthers(std::string(kOthers) +
                              R"(, "except": {"implementation": "blocked"})")),
      expected);
}

TEST(RecipeOthers, HaveCrossovers) {
  std::string text = WithOthers(std::string(kOthers) + R"(, "id": "others")");
  const std::string pair = R"(["fast", "dense"])";
  text.replace(text.find(pair), pair.size(), pair + R"(, ["others", "dense"])");
  std::vector<Json> records = Records();
  for (double n : {256, 1024, 4096})
    records.push_back(RecordOf("karatsuba", n, 1e-9 * n * 500));
  const Json panel = SummarizeRecipes({{"made.json", FileOf(records)}},
                                      {Recipe("made", text)})[0]
                         .at("panels")[0];
  ASSERT_EQ(panel.at("crossovers").size(), 2);
  EXPECT_EQ(panel.at("crossovers")[1].at("fast"), "karatsuba");
  EXPECT_NEAR(panel.at("crossovers")[1].at("n"), 500, 1e-6);
  EXPECT_EQ(panel.at("ratios").size(), 6);
}

TEST(RecipeOthers, InvalidOnesAreRefused) {
  const auto refused = [](const std::string& text, const std::string& words) {
    try {
      Recipe("made", text);
      ADD_FAILURE() << "taken: " << text;
    } catch (const InvalidInput& problem) {
      EXPECT_NE(std::string(problem.what()).find(words), std::string::npos)
          << problem.what();
    }
  };
  const std::string good = kOthers;
  const auto without = [&](const std::string& part,
                           const std::string& instead) {
    std::string text = good;
    return WithOthers(text.replace(text.find(part), part.size(), instead));
  };
  refused(without("true", "false"), "expected true");
  refused(without(R"("by": "implementation", )", ""), "\"by\"");
  refused(without(R"("by": "implementation")", R"("by": "causal")"), "\"by\"");
  refused(without("{implementation}", "rest"), "label with {implementation}");
  refused(WithOthers(good + R"(, "style": "fft")"), "no style");
  std::string bars = WithOthers(good);
  bars.replace(bars.find("\"curves\""), 8, "\"bars\"");
  refused(bars, "kind curves");
  std::string baselines = WithOthers(good);
  baselines.replace(baselines.find("\"series\""), 8, "\"baselines\"");
  refused(baselines, "a series");
}

TEST(Recipes, InvalidOnesAreRefused) {
  const std::string good = kRecipe;
  for (const auto& [from, to] : {std::pair{"recipe/1", "recipe/9"},
                                 {"\"label\": \"dense\"", "\"label\": 3"},
                                 {"\"operator\":", "\"of\":"},
                                 {"[\"fast\", \"dense\"]", "[\"fast\"]"},
                                 {"256:4096:x4", "256:4096:y4"},
                                 {"\"y\": \"max_error\"", "\"z\": 1"}}) {
    std::string text = good;
    const size_t at = text.find(from);
    ASSERT_NE(at, std::string::npos) << from;
    text.replace(at, std::string(from).size(), to);
    EXPECT_THROW(Recipe("made", text), InvalidInput) << to;
  }
  EXPECT_THROW(FindRecipe("no-such-recipe"), InvalidInput);
}

TEST(Digits, Three) {
  for (const auto& [value, text] : {std::pair{0.05434, "0.0543"},
                                    {1.0, "1"},
                                    {23.46, "23.5"},
                                    {999.4, "999"},
                                    {999.6, "1000"},
                                    {1235.0, "1240"},
                                    {1625.0, "1630"},
                                    {-1234.0, "-1230"},
                                    {9.9999e6, "10000000"},
                                    {1.234e7, "1.23e+07"},
                                    {3.5123e-9, "3.51e-09"}})
    EXPECT_EQ(ThreeDigits(value), text);
}

}  // namespace
}  // namespace subquad
