// Heads of trained models in studies: found from any folder, every number equal
// to that of the definitions, and verdicts on each model that wrong numbers
// change.
#include "harness/papers/frame/attention_heads.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <set>
#include <string>

#include "harness/papers/frame/study.h"
#include "harness/papers/nprf/paired_heads.h"
#include "harness/papers/papers.h"
#include "tests/places.h"

namespace subquad {
namespace {

StudyResult RunTiny(const Study& study, const Json& changes = Json::object(),
                    int threads = 1) {
  StudyRun run(study.name, 1, threads, false);
  return RunStudy(study, true, run, changes);
}

const StudyVerdict& VerdictOn(const std::vector<StudyVerdict>& verdicts,
                              const std::string& claim) {
  for (const StudyVerdict& verdict : verdicts)
    if (verdict.claim == claim) return verdict;
  throw std::logic_error("no verdict on " + claim);
}

const Json kHeader = {{"command", "test"},
                      {"created", "2000-01-01T00:00:00Z"},
                      {"seed", 1},
                      {"environment", Json::object()}};

const std::string kInputs = std::string(kSourceFolder) + "/reports/inputs/";

const StudyTable& TableOf(const StudyResult& result, const std::string& name) {
  return FindTable(result.tables, name);
}

TEST(Grid, NamesTheAxisOfAWrongIndex) {
  Grid grid({{"draw", 2}, {"map", 3}});
  grid(1, 2) = 5;
  EXPECT_EQ(grid(1, 2), 5);
  EXPECT_EQ(grid(1, 1), 0);
  EXPECT_THROW(grid(1), std::logic_error);
  try {
    grid(1, 3);
    FAIL() << "no exception";
  } catch (const std::logic_error& error) {
    EXPECT_STREQ(error.what(), "grid: map out of range");
  }
}

TEST(Heads, NamesTellModelAndLayer) {
  const auto check = [](const std::string& folder, const std::string& model,
                        int64_t layer) {
    EXPECT_EQ(ModelAndLayer(folder), std::pair(model, layer)) << folder;
  };
  check("mpnet-layer11", "mpnet", 11);
  check("a-layer2-layer0", "a-layer2", 0);
  check("my_case", "my_case", -1);
  check("x-layer", "x-layer", -1);
  check("x-layer1b", "x-layer1b", -1);
  check("-layer3", "-layer3", -1);
  check("x-layer99999999999999999999", "x-layer99999999999999999999", -1);
}

TEST(Heads, AreSpreadOverTheFolders) {
  const std::vector<std::string> folders = {kInputs + "minilm-layer0",
                                            kInputs + "mpnet-layer0",
                                            kInputs + "mpnet-layer11"};
  const auto names = [&](int64_t most) {
    std::vector<std::string> listed;
    for (const AttentionHead& head : HeadsOf(folders, most).heads)
      listed.push_back(head.name);
    return listed;
  };
  EXPECT_EQ(names(3),
            (std::vector<std::string>{"minilm-layer0/0", "mpnet-layer0/0",
                                      "mpnet-layer11/0"}));
  EXPECT_EQ(names(99).size(), 12u);
  const AttentionHeads all = HeadsOf(folders, 4);
  EXPECT_EQ(all.sources[1].heads, 4);
  EXPECT_EQ(all.sources[0].used + all.sources[1].used + all.sources[2].used, 4);
  EXPECT_NE(all.sources[0].origin.find("all-MiniLM-L6-v2"), std::string::npos);
  // Only biases that a model learned are its biases.
  for (const AttentionHead& head : all.heads)
    EXPECT_EQ(head.bias.empty(), head.model == "minilm") << head.name;
  // One folder given twice gets two names.
  std::set<std::string> unique;
  for (const AttentionHead& head : HeadsOf({folders[0], folders[0]}, 99).heads)
    unique.insert(head.name);
  EXPECT_EQ(unique.size(), 8u);
}

TEST(Heads, FoldersWithoutQueriesAndKeysAreRefused) {
  try {
    HeadsOf({kInputs + "photograph-blur"}, 9);
    FAIL();
  } catch (const InvalidInput& error) {
    const std::string words = error.what();
    EXPECT_NE(words.find("q and k"), std::string::npos) << words;
    EXPECT_NE(words.find("photograph-blur"), std::string::npos) << words;
  }
}

// Computes softmax attention of row i by its definition, over all keys.
std::vector<double> Softmax(const AttentionHead& head, int64_t i,
                            bool normalised, bool rpe) {
  const auto length = [&](const double* row) {
    double sum = 0;
    for (int64_t c = 0; c < head.d; ++c) sum += row[c] * row[c];
    return normalised ? std::sqrt(sum) : 1;
  };
  const double* q = head.queries.data() + i * head.d;
  std::vector<double> row;
  double sum = 0;
  for (int64_t j = 0; j < head.n; ++j) {
    const double* k = head.keys.data() + j * head.d;
    double dot = 0;
    for (int64_t c = 0; c < head.d; ++c) dot += q[c] * k[c];
    dot *= (normalised ? 1 : head.scale) / length(q) / length(k);
    if (rpe) dot += head.bias[static_cast<size_t>(j - i + head.n - 1)];
    row.push_back(std::exp(dot));
    sum += row.back();
  }
  for (double& value : row) value /= sum;
  return row;
}

// Checks every number of one head that needs no Omega with the definitions.
TEST(Heads, NumbersAreThoseOfTheDefinitions) {
  const AttentionHeads all = HeadsOf({kInputs + "mpnet-layer6"}, 1);
  const AttentionHead& head = all.heads.front();
  StudyRun run("test", 1, 1, false);
  const HeadSettings settings{2, 1, {4, 8}};
  const std::vector<HeadResult> results =
      MeasureHeads(run, all.heads, settings);
  const std::vector<int64_t> positions = {128, 384};
  double moved = 0, peak[2] = {0, 0};
  for (int64_t i : positions) {
    const auto own = Softmax(head, i, false, true),
               other = Softmax(head, i, true, true);
    for (size_t j = 0; j < own.size(); ++j)
      moved += std::abs(own[j] - other[j]) / 2;
    peak[0] += 256 * *std::max_element(own.begin(), own.end());
    peak[1] += 256 * *std::max_element(other.begin(), other.end());
  }
  EXPECT_NEAR(results[0].moved, moved, 1e-12);
  EXPECT_NEAR(results[0].peak[0], peak[0], 1e-9);
  EXPECT_NEAR(results[0].peak[1], peak[1], 1e-9);

  const auto elu1 = [](double x) { return x > 0 ? x + 1 : std::exp(x); };
  for (const bool normalised : {false, true})
    for (const bool rpe : {false, true}) {
      double wanted = 0;
      for (int64_t i : positions) {
        const auto length = [&](const double* row) {
          double sum = 0;
          for (int64_t c = 0; c < head.d; ++c) sum += row[c] * row[c];
          return std::sqrt(sum);
        };
        const auto feature = [&](const double* row, int64_t c) {
          return elu1(normalised ? row[c] / length(row)
                                 : row[c] * std::sqrt(head.scale));
        };
        const double* q = head.queries.data() + i * head.d;
        std::vector<double> row;
        double sum = 0;
        for (int64_t j = 0; j < head.n; ++j) {
          double dot = 0;
          for (int64_t c = 0; c < head.d; ++c)
            dot += feature(q, c) * feature(head.keys.data() + j * head.d, c);
          if (rpe)
            dot *= std::exp(head.bias[static_cast<size_t>(j - i + head.n - 1)]);
          row.push_back(dot);
          sum += dot;
        }
        const auto exact = Softmax(head, i, normalised, rpe);
        for (size_t j = 0; j < row.size(); ++j)
          wanted += std::abs(exact[j] - row[j] / sum) / 2;
      }
      const auto error_of = [&](size_t map, size_t f) {
        return results[0].errors(0, normalised, rpe, map, f);
      };
      const size_t last = HeadMaps().size() - 1;  // elu1
      EXPECT_NEAR(error_of(last, 0), wanted, 1e-12) << normalised << rpe;
      EXPECT_EQ(error_of(last, 0), error_of(last, 1));
      // The random maps have errors.
      for (size_t map = 0; map < last; ++map)
        EXPECT_GT(error_of(map, 0), 0) << HeadMaps()[map];
    }

  const StudyTable table = HeadTable(all, results);
  double q_norm = 0;
  for (int64_t i = 0; i < head.n; ++i) {
    double sum = 0;
    for (int64_t c = 0; c < head.d; ++c)
      sum += std::pow(head.queries[static_cast<size_t>(i * head.d + c)], 2);
    q_norm += std::sqrt(head.scale * sum) / static_cast<double>(head.n);
  }
  EXPECT_NEAR(table.Number(0, "q_norm"), q_norm, 1e-12);
  EXPECT_LT(table.Number(0, "q_low"), q_norm);
  EXPECT_GT(table.Number(0, "q_high"), q_norm);
  EXPECT_NE(table.Number(0, "q_norm"), table.Number(0, "k_norm"));
  EXPECT_EQ(table.Number(0, "layer"), 6);
}

// Checks that a table of heads is complete: every map, setting and f, RPE where
// it was learned.
void ExpectComplete(const StudyResult& result, const std::string& features) {
  const StudyTable &heads = TableOf(result, "heads"),
                   &errors = TableOf(result, "head_error");
  const size_t each = HeadMaps().size() * result.parameters.at(features).size();
  size_t wanted = 0;
  for (size_t h = 0; h < heads.rows.size(); ++h) {
    EXPECT_EQ(heads.Flag(h, "own_bias"), heads.Text(h, "model") == "mpnet");
    EXPECT_TRUE(heads.Flag(h, "real"));
    wanted += each * (heads.Flag(h, "own_bias") ? 4 : 2);
  }
  EXPECT_EQ(errors.rows.size(), wanted);
  std::set<std::string> keys;
  for (size_t r = 0; r < errors.rows.size(); ++r) {
    EXPECT_GT(errors.Number(r, "median"), 0);
    EXPECT_LE(errors.Number(r, "low"), errors.Number(r, "median"));
    EXPECT_GE(errors.Number(r, "high"), errors.Number(r, "median"));
    std::string key;
    for (const char* column : {"head", "normalised", "rpe", "map", "f"})
      key += errors.rows[r][errors.Index(column)].dump() + "|";
    keys.insert(key);
  }
  EXPECT_EQ(keys.size(), wanted);
}

TEST(Heads, InTheTreeAreFoundFromAnyFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(testing::TempDir());
  const StudyResult result = RunTiny(FindStudy("conversion"));
  std::filesystem::current_path(before);
  const StudyTable& sources = TableOf(result, "sources");
  std::set<std::string> names;
  for (size_t r = 0; r < sources.rows.size(); ++r)
    names.insert(sources.Text(r, "source"));
  EXPECT_TRUE(names.contains("minilm-layer0"));
  EXPECT_TRUE(names.contains("mpnet-layer11"));
  ExpectComplete(result, "f");
  const StudyVerdict& verdict =
      VerdictOn(result.verdicts, "nprf-convert-weights/minilm");
  EXPECT_NE(verdict.numbers.find("no RPE"), std::string::npos)
      << verdict.numbers;
  EXPECT_EQ(VerdictOn(result.verdicts, "nprf-convert").outcome,
            ClaimVerdict::kCannotBeTested);
}

TEST(Heads, GeneratedHeadsSayThatTheyAre) {
  const Study& study = FindStudy("conversion");
  const StudyResult result = RunTiny(study, {{"tree", false}});
  EXPECT_EQ(TableOf(result, "sources").Text(0, "source"), "made up");
  const StudyTable& heads = TableOf(result, "heads");
  for (size_t h = 0; h < heads.rows.size(); ++h)
    EXPECT_FALSE(heads.Flag(h, "real"));
  const StudyVerdict& verdict =
      VerdictOn(result.verdicts, "nprf-convert-weights/made up");
  EXPECT_NE(verdict.numbers.find("made-up"), std::string::npos)
      << verdict.numbers;
}

// The verdict depends on intervals over heads: "in part" if RPE does not
// certainly help or if no head has RPE, "not reproduced" if equal weights are
// as near.
TEST(Heads, PairedIntervalsDecide) {
  const Study& study = FindStudy("conversion");
  StudyResult result = RunTiny(study);
  StudyTable* paired = nullptr;
  for (StudyTable& table : result.tables)
    if (table.name == "paired") paired = &table;
  ASSERT_TRUE(paired);
  // Sets every interval: ratios and differences around `mean`, with half the
  // width `half`.
  const auto judge = [&](double ratio, double standard, double rpe,
                         double half) {
    for (size_t r = 0; r < paired->rows.size(); ++r) {
      const std::string what = paired->Text(r, "compared");
      const double mean = what == compared::kStandard ? standard
                          : what == compared::kRpe    ? rpe
                                                      : ratio;
      paired->rows[r][paired->Index("mean")] = mean;
      paired->rows[r][paired->Index("low")] = mean - half;
      paired->rows[r][paired->Index("high")] = mean + half;
    }
    return study.judge(result.parameters, result.tables);
  };
  const auto outcome = [&](const std::vector<StudyVerdict>& verdicts,
                           const std::string& about) {
    return VerdictOn(verdicts, "nprf-convert-weights" + about).outcome;
  };
  using enum ClaimVerdict;
  const auto helps = judge(0.5, 0.3, -0.1, 0.05);
  EXPECT_EQ(outcome(helps, "/mpnet"), kReproduced);
  EXPECT_EQ(outcome(helps, "/minilm"), kInPart);
  EXPECT_EQ(outcome(helps, ""), kReproduced);
  const auto unsure = judge(0.5, 0.3, -0.04, 0.05);
  EXPECT_EQ(outcome(unsure, "/mpnet"), kInPart);
  EXPECT_EQ(outcome(unsure, ""), kInPart);
  EXPECT_NE(VerdictOn(unsure, "nprf-convert-weights/mpnet")
                .numbers.find("does not surely lower"),
            std::string::npos);
  EXPECT_EQ(outcome(judge(0.97, 0.3, -0.1, 0.05), ""), kNotReproduced);
  EXPECT_EQ(outcome(judge(0.5, 0.04, -0.1, 0.05), ""), kNotReproduced);
  EXPECT_EQ(outcome(judge(NAN, 0.3, -0.1, 0.05), ""), kNotReproduced);
}

// Compares ratios and differences of two heads with the tables of their errors.
TEST(Heads, ComparisonsAreOfTheSameHead) {
  const StudyResult result = RunTiny(FindStudy("conversion"));
  const StudyTable &paired = TableOf(result, "paired"),
                   &baselines = TableOf(result, "head_baseline"),
                   &heads = TableOf(result, "heads");
  const AttentionHeads all = HeadsOf(FoldersInTree(), 6);
  StudyRun run("conversion", 1, 1, false);
  const HeadSettings settings{6, 2, {16, 64}};
  const std::vector<HeadResult> results =
      MeasureHeads(run, all.heads, settings);
  double sum = 0, count = 0;
  for (size_t h = 0; h < results.size(); ++h) {
    if (all.heads[h].model != "mpnet") continue;
    EXPECT_EQ(heads.Text(h, "head"), all.heads[h].name);
    double uniform = NAN;
    for (size_t r = 0; r < baselines.rows.size(); ++r)
      if (baselines.Text(r, "head") == all.heads[h].name &&
          baselines.Flag(r, "normalised") && !baselines.Flag(r, "rpe") &&
          baselines.Text(r, "map") == "uniform")
        uniform = baselines.Number(r, "error");
    // Compares equal weights with the definition, on the measured rows.
    double wanted = 0;
    for (int64_t row = 0; row < 6; ++row) {
      const std::vector<double> exact =
          Softmax(all.heads[h], (2 * row + 1) * 512 / 12, true, false);
      for (double weight : exact) wanted += std::abs(weight - 1.0 / 512) / 6;
    }
    EXPECT_NEAR(uniform, wanted, 1e-12);
    sum +=
        (results[h].errors(0, 1, 0, 0, 1) + results[h].errors(1, 1, 0, 0, 1)) /
        2 / uniform;
    ++count;
    EXPECT_GT(results[h].outputs(0, 1, 0, 0, 0), 0);
  }
  const PairedRow row = FindPaired(paired, compared::kOverUniform, "mpnet",
                                   true, false, "prf", 64);
  EXPECT_EQ(row.heads, count);
  EXPECT_NEAR(row.mean.value, sum / count, 1e-12);
  EXPECT_LT(row.mean.interval.low, row.mean.value);
  EXPECT_TRUE(std::isnan(
      FindPaired(paired, compared::kOverUniform, "mpnet", true, false, "prf", 5)
          .mean.value));
}

TEST(Heads, ApproximationErrorUsesThemToo) {
  const Study& study = FindStudy("approximation_error");
  const Json input = {
      {"input", {kInputs + "minilm-layer3", kInputs + "mpnet-layer6"}}};
  StudyResult result = RunTiny(study, input);
  ExpectComplete(result, "m");
  EXPECT_EQ(StudyJson(study, result, kHeader).dump(),
            StudyJson(study, RunTiny(study, input, 3), kHeader).dump());
  EXPECT_EQ(result.verdicts.size(), RunTiny(study).verdicts.size() + 2);
  StudyTable* errors = nullptr;
  for (StudyTable& table : result.tables)
    if (table.name == "model_error") errors = &table;
  // The parameters are the remaining error at the largest m.
  const auto judge = [&](const Json& normalised, const Json& standard) {
    for (size_t r = 0; r < errors->rows.size(); ++r)
      errors->rows[r][errors->Index("median")] =
          errors->Number(r, "f") == 4     ? Json(1.0)
          : errors->Flag(r, "normalised") ? normalised
                                          : standard;
    return VerdictOn(study.judge(result.parameters, result.tables),
                     "nprf-fig1b/mpnet")
        .outcome;
  };
  EXPECT_EQ(judge(0.1, 0.9), ClaimVerdict::kReproduced);
  EXPECT_EQ(judge(0.1, 0.5), ClaimVerdict::kInPart);
  EXPECT_EQ(judge(0.5, 0.9), ClaimVerdict::kInPart);
  EXPECT_EQ(judge(0.5, 0.5), ClaimVerdict::kNotReproduced);
  EXPECT_EQ(judge(nullptr, nullptr), ClaimVerdict::kNotReproduced);
}

}  // namespace
}  // namespace subquad
