// Studies on their tiny settings: the same bits on any number of threads, files
// that say everything, and rules that reject numbers planted to be wrong.
#include "harness/study.h"

#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <string>

#include "harness/input_source.h"
#include "harness/studies/attention_heads.h"
#include "harness/studies/random_features.h"
#include "harness/studies/studies.h"
#include "reference/feature_map.h"

namespace subquad {
namespace {

StudyResult RunTiny(const Study& study, int threads, uint64_t seed = 1,
                    const Json& changes = Json::object()) {
  StudyRun run(study.name, seed, threads, false);
  return RunStudy(study, true, run, changes);
}

// Every study once, on one thread.
const StudyResult& Tiny(const std::string& name) {
  static std::map<std::string, StudyResult> results;
  auto found = results.find(name);
  if (found == results.end())
    found = results.emplace(name, RunTiny(FindStudy(name), 1)).first;
  return found->second;
}

const Json kHeader = {{"command", "test"},
                      {"created", "2000-01-01T00:00:00Z"},
                      {"seed", 1},
                      {"environment", Json::object()}};

// The file without what times have got into.
std::string Repeatable(const Study& study, StudyResult result) {
  std::erase_if(result.tables,
                [](const StudyTable& table) { return !table.repeatable; });
  std::erase_if(result.verdicts, [](const StudyVerdict& verdict) {
    return !verdict.repeatable;
  });
  return StudyJson(study, result, kHeader).dump();
}

TEST(Studies, TextIsTheJsonAgainWithALineForEachRow) {
  const Study& study = FindStudy("spe_convergence");
  const Json json = StudyJson(study, Tiny(study.name), kHeader);
  const std::string text = StudyText(json);
  EXPECT_EQ(Json::parse(text), Json::parse(json.dump()));
  EXPECT_NE(text.find("\n    [\"sine\",16,"), std::string::npos);
}

TEST(Studies, VerdictTableEscapesBarsAndTellsWhereItIsFrom) {
  const Study& study = FindStudy("rpe_rank");
  Json header = kHeader;
  header["environment"] = {{"commit", "0123456789abcdef"}, {"dirty", true}};
  const std::string text =
      VerdictTable({StudyJson(study, Tiny(study.name), header)});
  EXPECT_NE(text.find("| rpe_rank | nprf-prop1 | "), std::string::npos);
  EXPECT_NE(text.find("mean \\|A - A^\\|_1"), std::string::npos) << text;
  EXPECT_NE(text.find("commit 0123456789 with changes, seed 1, 2000-01-01"),
            std::string::npos)
      << text;
}

class EveryStudy : public testing::TestWithParam<std::string> {};

TEST_P(EveryStudy, IsTheSameToTheBitOnAnyNumberOfThreads) {
  const Study& study = FindStudy(GetParam());
  const std::string one = Repeatable(study, Tiny(study.name));
  for (int threads : {2, 3})
    EXPECT_TRUE(one == Repeatable(study, RunTiny(study, threads)))
        << threads << " threads";
}

TEST_P(EveryStudy, JsonIsComplete) {
  const Study& study = FindStudy(GetParam());
  const Json json =
      Json::parse(StudyJson(study, Tiny(study.name), kHeader).dump());
  for (const char* key :
       {"format", "study", "purpose", "source", "command", "created", "seed",
        "environment", "parameters", "tables", "verdicts"})
    EXPECT_TRUE(json.contains(key)) << key;
  EXPECT_EQ(json.at("format"), "study/1");
  ASSERT_FALSE(json.at("tables").empty());
  for (const auto& [name, table] : json.at("tables").items()) {
    EXPECT_TRUE(!table.at("rows").empty() || !table.at("repeatable")) << name;
    for (const Json& column : table.at("columns"))
      for (const char* key : {"name", "unit", "meaning"})
        EXPECT_FALSE(column.at(key).get<std::string>().empty()) << name;
    for (const Json& row : table.at("rows"))
      EXPECT_EQ(row.size(), table.at("columns").size()) << name;
  }
  ASSERT_FALSE(json.at("verdicts").empty());
  for (const Json& verdict : json.at("verdicts")) {
    EXPECT_FALSE(verdict.at("numbers").get<std::string>().empty());
    EXPECT_EQ(verdict.at("holds").get<bool>(),
              verdict.at("verdict") != "not reproduced");
  }
}

std::vector<std::string> Names() {
  std::vector<std::string> names;
  for (const Study& study : Studies()) names.push_back(study.name);
  return names;
}
INSTANTIATE_TEST_SUITE_P(Studies, EveryStudy, testing::ValuesIn(Names()),
                         [](const auto& test) { return test.param; });

TEST(Studies, AnotherSeedGivesOtherNumbers) {
  const Study& study = FindStudy("approximation_error");
  EXPECT_NE(StudyJson(study, Tiny(study.name), kHeader).dump(),
            StudyJson(study, RunTiny(study, 1, 2), kHeader).dump());
}

TEST(Studies, UnknownNameIsRefusedWithTheNamesThereAre) {
  try {
    FindStudy("prf_variances");
    FAIL();
  } catch (const InvalidInput& problem) {
    EXPECT_NE(std::string(problem.what()).find("prf_variance,"),
              std::string::npos);
  }
}

// A wrong number put into a table must turn the verdict of that claim.
struct Planted {
  std::string name, study, claim, table, column;
  double factor, added;  // cell * factor + added
  // Only rows where this column has this value; every row where it is empty.
  std::string where = "", value = "";
};

void PrintTo(const Planted& planted, std::ostream* out) {
  *out << planted.name;
}

class Plant : public testing::TestWithParam<Planted> {};

const StudyVerdict& VerdictOn(const std::vector<StudyVerdict>& verdicts,
                              const std::string& claim) {
  for (const StudyVerdict& verdict : verdicts)
    if (verdict.claim == claim) return verdict;
  throw std::logic_error("no verdict on " + claim);
}

std::string CellText(const Json& cell) {
  return cell.is_string() ? cell.get<std::string>() : cell.dump();
}

TEST_P(Plant, IsRejected) {
  const Planted& planted = GetParam();
  const Study& study = FindStudy(planted.study);
  StudyResult result = Tiny(planted.study);
  ASSERT_TRUE(VerdictOn(result.verdicts, planted.claim).holds())
      << VerdictOn(result.verdicts, planted.claim).numbers;
  int changed = 0;
  for (StudyTable& table : result.tables) {
    if (table.name != planted.table) continue;
    const size_t column = table.Index(planted.column);
    for (auto& row : table.rows) {
      if (!planted.where.empty() &&
          CellText(row[table.Index(planted.where)]) != planted.value)
        continue;
      if (!row[column].is_number()) continue;
      row[column] = row[column].get<double>() * planted.factor + planted.added;
      ++changed;
    }
  }
  ASSERT_GT(changed, 0);
  const auto verdicts = study.judge(result.parameters, result.tables);
  EXPECT_FALSE(VerdictOn(verdicts, planted.claim).holds())
      << VerdictOn(verdicts, planted.claim).numbers;
}

TEST_P(Plant, NotANumberIsRejected) {
  const Planted& planted = GetParam();
  const Study& study = FindStudy(planted.study);
  StudyResult result = Tiny(planted.study);
  for (StudyTable& table : result.tables)
    if (table.name == planted.table)
      for (auto& row : table.rows)
        if (row[table.Index(planted.column)].is_number())
          row[table.Index(planted.column)] = nullptr;
  const auto verdicts = study.judge(result.parameters, result.tables);
  EXPECT_FALSE(VerdictOn(verdicts, planted.claim).holds())
      << VerdictOn(verdicts, planted.claim).numbers;
}

INSTANTIATE_TEST_SUITE_P(
    Studies, Plant,
    testing::Values(
        Planted{"VarianceDoubled", "prf_variance", "nprf-lemma2", "variance",
                "variance_ratio", 2, 0},
        Planted{"MeanOff", "prf_variance", "nprf-lemma2", "variance",
                "mean_ratio", 1, 0.2},
        Planted{"ErrorsHalved", "approximation_error", "nprf-fig1b-table",
                "known", "mean", 0.5, 0},
        Planted{"NeverFalls", "approximation_error", "nprf-fig1b", "error",
                "mean", 0, 1},
        Planted{"BoundTooSmall", "sample_complexity", "nprf-thm3", "smallest",
                "bound", 1e-9, 0},
        Planted{"SphereUnbiased", "feature_maps", "nprf-maps-bias", "bias",
                "mean_ratio", 0, 1, "map", "sphere"},
        Planted{"PrfBiased", "feature_maps", "nprf-maps-bias", "bias",
                "mean_ratio", 1.2, 0, "map", "prf"},
        Planted{"NormalisedNoBetter", "conversion", "nprf-convert", "error",
                "median", 100, 0, "normalised", "true"},
        Planted{"StandardIsFine", "conversion", "nprf-convert", "error",
                "median", 0, 0.01, "normalised", "false"},
        Planted{"OneModelLoses", "conversion", "nprf-convert/minilm", "error",
                "median", 100, 0, "model", "minilm"},
        Planted{"OtherModelLoses", "conversion", "nprf-convert", "error",
                "median", 100, 0, "model", "mpnet"},
        Planted{"ExactBeyondTheEdge", "rpe_rank", "nprf-prop1", "edge",
                "residual", 0, 1e-15},
        Planted{"InexactBeforeTheEdge", "rpe_rank", "nprf-prop1", "edge",
                "residual", 1, 0.1},
        Planted{"AboveItsBound", "precision", "precision-bounds", "error",
                "over_bound", 0, 2},
        Planted{"NoLoss", "precision", "precision-dropping", "error",
                "relative_error", 0, 1e-7},
        Planted{"DenseLeaks", "precision", "precision-leak", "leak", "leak", 1,
                1e-12, "class", "direct"},
        Planted{"LeaksMore", "precision", "precision-leak", "leak", "roundings",
                1000, 1000, "class", "fft"},
        Planted{"NotARotation", "sinusoidal", "blog-rotation", "rotation",
                "error", 1, 1e-6},
        Planted{"DoNotFall", "sinusoidal", "blog-decay", "dots", "dot", 0, 1},
        Planted{"ImpulsesLost", "bias_maps", "bias-maps", "impulses", "error",
                1, 1e-6},
        Planted{"SlowerConvergence", "spe_convergence", "spe-convergence",
                "slope", "slope", 1, 0.2}),
    [](const auto& test) { return test.param.name; });

// ---- heads of trained models

const std::string kInputs = std::string(SUBQUAD_SOURCE) + "/reports/inputs/";

const StudyTable& TableOf(const StudyResult& result, const std::string& name) {
  return FindTable(result.tables, name);
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
    std::vector<std::string> found;
    for (const AttentionHead& head : HeadsOf(folders, most).heads)
      found.push_back(head.name);
    return found;
  };
  EXPECT_EQ(names(3),
            (std::vector<std::string>{"minilm-layer0/0", "mpnet-layer0/0",
                                      "mpnet-layer11/0"}));
  EXPECT_EQ(names(99).size(), 12u);
  const AttentionHeads all = HeadsOf(folders, 4);
  EXPECT_EQ(all.sources[1].heads, 4);
  EXPECT_EQ(all.sources[0].used + all.sources[1].used + all.sources[2].used, 4);
  EXPECT_NE(all.sources[0].origin.find("all-MiniLM-L6-v2"), std::string::npos);
  // Only what a model learned is its bias.
  for (const AttentionHead& head : all.heads)
    EXPECT_EQ(head.bias.empty(), head.model == "minilm") << head.name;
  // One folder twice is two names.
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

// Softmax attention of row i by its definition, over all keys.
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

// Every number of one head that needs no Omega, from the definitions.
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
      const auto& found =
          results[0].errors[0][static_cast<size_t>(normalised * 2 + rpe)];
      EXPECT_NEAR(found.back()[0], wanted, 1e-12) << normalised << rpe;
      EXPECT_EQ(found.back()[0], found.back()[1]);
      // Of the random ones that they are there, and errors.
      for (size_t k = 0; k + 1 < found.size(); ++k)
        EXPECT_GT(found[k][0], 0) << HeadMaps()[k];
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

// A table of heads is complete: every map, setting and f, RPE where it was
// learned.
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
      key += CellText(errors.rows[r][errors.Index(column)]) + "|";
    keys.insert(key);
  }
  EXPECT_EQ(keys.size(), wanted);
}

TEST(Heads, OfTheTreeAreFoundFromAnyFolder) {
  const std::filesystem::path before = std::filesystem::current_path();
  std::filesystem::current_path(testing::TempDir());
  const StudyResult result = RunTiny(FindStudy("conversion"), 2);
  std::filesystem::current_path(before);
  const StudyTable& sources = TableOf(result, "sources");
  std::vector<std::string> names;
  for (size_t r = 0; r < sources.rows.size(); ++r)
    names.push_back(sources.Text(r, "source"));
  EXPECT_EQ(names, (std::vector<std::string>{"minilm-layer0", "minilm-layer3",
                                             "minilm-layer5", "mpnet-layer0",
                                             "mpnet-layer11", "mpnet-layer6"}));
  ExpectComplete(result, "f");
  const StudyVerdict& one = VerdictOn(result.verdicts, "nprf-convert/minilm");
  EXPECT_NE(one.numbers.find("no RPE"), std::string::npos) << one.numbers;
  EXPECT_EQ(one.outcome, StudyOutcome::kInPart) << one.numbers;
}

TEST(Heads, MadeUpOnesSayThatTheyAre) {
  const Study& study = FindStudy("conversion");
  const StudyResult result = RunTiny(study, 2, 1, {{"tree", false}});
  EXPECT_EQ(TableOf(result, "sources").Text(0, "source"), "made up");
  const StudyTable& heads = TableOf(result, "heads");
  for (size_t h = 0; h < heads.rows.size(); ++h)
    EXPECT_FALSE(heads.Flag(h, "real"));
  const StudyVerdict& one = VerdictOn(result.verdicts, "nprf-convert/made up");
  EXPECT_NE(one.numbers.find("made-up"), std::string::npos) << one.numbers;
}

// RPE that does not help leaves a part of the claim; that there is none too.
TEST(Heads, RpeDecidesBetweenReproducedAndInPart) {
  const Study& study = FindStudy("conversion");
  StudyResult result = Tiny("conversion");
  StudyTable* errors = nullptr;
  for (StudyTable& table : result.tables)
    if (table.name == "error") errors = &table;
  const auto judge = [&](double with_rpe) {
    for (size_t r = 0; r < errors->rows.size(); ++r) {
      Json& cell = errors->rows[r][errors->Index("median")];
      const bool normalised = errors->Flag(r, "normalised");
      const double plain = normalised ? 0.1 : 1;
      cell = errors->Flag(r, "rpe") ? plain * with_rpe : plain;
    }
    return study.judge(result.parameters, result.tables);
  };
  const auto outcome = [&](const std::vector<StudyVerdict>& verdicts,
                           const std::string& claim) {
    return VerdictOn(verdicts, claim).outcome;
  };
  const auto helps = judge(0.9), harms = judge(1.1);
  EXPECT_EQ(outcome(helps, "nprf-convert/mpnet"), StudyOutcome::kReproduced);
  EXPECT_EQ(outcome(helps, "nprf-convert/minilm"), StudyOutcome::kInPart);
  EXPECT_EQ(outcome(helps, "nprf-convert"), StudyOutcome::kReproduced);
  EXPECT_EQ(outcome(harms, "nprf-convert/mpnet"), StudyOutcome::kInPart);
  EXPECT_EQ(outcome(harms, "nprf-convert"), StudyOutcome::kInPart);
  EXPECT_NE(VerdictOn(harms, "nprf-convert/mpnet").numbers.find("not lower"),
            std::string::npos);
}

TEST(Heads, ApproximationErrorTakesThemToo) {
  const Study& study = FindStudy("approximation_error");
  const Json input = {
      {"input", {kInputs + "minilm-layer3", kInputs + "mpnet-layer6"}}};
  StudyResult result = RunTiny(study, 1, 1, input);
  ExpectComplete(result, "m");
  EXPECT_EQ(StudyJson(study, result, kHeader).dump(),
            StudyJson(study, RunTiny(study, 3, 1, input), kHeader).dump());
  EXPECT_EQ(result.verdicts.size(), Tiny(study.name).verdicts.size() + 2);
  StudyTable* errors = nullptr;
  for (StudyTable& table : result.tables)
    if (table.name == "model_error") errors = &table;
  // kept: what is left of the error at the largest m.
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
  EXPECT_EQ(judge(0.1, 0.9), StudyOutcome::kReproduced);
  EXPECT_EQ(judge(0.1, 0.5), StudyOutcome::kInPart);
  EXPECT_EQ(judge(0.5, 0.9), StudyOutcome::kInPart);
  EXPECT_EQ(judge(0.5, 0.5), StudyOutcome::kNotReproduced);
  EXPECT_EQ(judge(nullptr, nullptr), StudyOutcome::kNotReproduced);
}

// The vectorised features against the definition.
TEST(RandomFeatures, PrfIsTheDefinition) {
  constexpr int64_t kD = 6, kRows = 40;
  const Draws draws(7, "test");
  const std::vector<double> omega = SampleNormal(draws, 0, kRows * kD);
  std::vector<double> x = SampleNormal(draws, 100, kD);
  std::vector<double> y = SampleNormal(draws, 101, kD);
  std::vector<double> ratio(kRows);
  PrfRatios(omega.data(), kRows, kD, x.data(), y.data(), ratio.data());
  FeatureMapSpec spec;
  spec.id = FeatureMapId::kPrf;
  spec.d = kD;
  spec.projections = kRows;
  const FeatureMap<double> map(spec, omega.data());
  std::vector<double> fx(kRows), fy(kRows);
  std::vector<int> ex(kRows), ey(kRows);
  FeatureError error;
  ASSERT_TRUE(map.Row(x.data(), nullptr, fx.data(), ex.data(), &error));
  ASSERT_TRUE(map.Row(y.data(), nullptr, fy.data(), ey.data(), &error));
  double dot = 0;
  for (size_t c = 0; c < x.size(); ++c) dot += x[c] * y[c];
  for (size_t a = 0; a < ratio.size(); ++a) {
    const double wanted =
        std::ldexp(fx[a] * fy[a], ex[a] + ey[a]) / std::exp(dot);
    EXPECT_NEAR(ratio[a] / wanted, 1, 1e-12);
  }
}

TEST(RandomFeatures, AttentionErrorsAreThoseOfTheDefinition) {
  constexpr int64_t kD = 5, kKeys = 17, kRows = 12;
  constexpr double kRadius = 1.3;
  const Draws draws(3, "test");
  const std::vector<double> query = SampleNormal(draws, 0, kD);
  const std::vector<double> keys = SampleNormal(draws, 1, kKeys * kD);
  const std::vector<double> bias = SampleNormal(draws, 900, kKeys);
  for (const RandomMapKind& kind : RandomMapKinds()) {
    const std::vector<double> omega =
        SampleOmega(kind.sampler, draws, 5, kRows, kD);
    const std::vector<double> found =
        AttentionErrors(kind.map, Project(query, keys, omega, kD), kRadius,
                        bias.data(), {3, kRows});
    FeatureMapSpec spec;
    spec.id = kind.map == RandomMap::kPrf   ? FeatureMapId::kPrf
              : kind.map == RandomMap::kTrf ? FeatureMapId::kTrf
                                            : FeatureMapId::kPrfHyperbolic;
    spec.d = kD;
    spec.root_scale = kRadius;
    for (size_t t = 0; t < 2; ++t) {
      spec.projections = t == 0 ? 3 : kRows;
      const FeatureMap<double> map(spec, omega.data());
      const auto features = [&](const double* row) {
        std::vector<double> values(static_cast<size_t>(spec.features()));
        std::vector<int> exponents(values.size());
        FeatureError error;
        EXPECT_TRUE(
            map.Row(row, nullptr, values.data(), exponents.data(), &error));
        for (size_t a = 0; a < values.size(); ++a)
          values[a] = std::ldexp(values[a], exponents[a]);
        return values;
      };
      const std::vector<double> q = features(query.data());
      std::vector<double> exact, estimate;
      double exact_sum = 0, sum = 0, wanted = 0;
      for (int64_t j = 0; j < kKeys; ++j) {
        const std::vector<double> k = features(keys.data() + j * kD);
        double dot = 0, product = 0;
        for (int64_t c = 0; c < kD; ++c)
          dot += query[static_cast<size_t>(c)] *
                 keys[static_cast<size_t>(j * kD + c)];
        for (size_t a = 0; a < q.size(); ++a) product += q[a] * k[a];
        const double weight = std::exp(bias[static_cast<size_t>(j)]);
        exact.push_back(weight * std::exp(kRadius * kRadius * dot));
        estimate.push_back(weight * product);
        exact_sum += exact.back();
        sum += estimate.back();
      }
      for (size_t j = 0; j < exact.size(); ++j)
        wanted += std::abs(exact[j] / exact_sum - estimate[j] / sum);
      EXPECT_NEAR(found[t] / wanted, 1, 1e-10) << kind.name;
    }
  }
}

TEST(RandomFeatures, SamplersKeepTheirPromises) {
  constexpr int64_t kD = 7, kRows = 20;
  const Draws draws(11, "test");
  const auto dot = [](const double* a, const double* b) {
    double sum = 0;
    for (int64_t c = 0; c < kD; ++c) sum += a[c] * b[c];
    return sum;
  };
  const auto sphere = SampleOmega(OmegaSampler::kSphere, draws, 0, kRows, kD);
  for (int64_t r = 0; r < kRows; ++r) {
    const double* row = sphere.data() + r * kD;
    EXPECT_NEAR(dot(row, row), kD, 1e-12);
  }
  const auto basis =
      SampleOmega(OmegaSampler::kOrthogonal, draws, 1, kRows, kD);
  double shortest = HUGE_VAL, longest = 0;
  for (int64_t r = 0; r < kRows; ++r) {
    const double* row = basis.data() + r * kD;
    shortest = std::min(shortest, dot(row, row));
    longest = std::max(longest, dot(row, row));
    for (int64_t s = r / kD * kD; s < r; ++s)
      EXPECT_NEAR(dot(row, basis.data() + s * kD), 0, 1e-12);
  }
  EXPECT_GT(longest, 1.5 * shortest);  // lengths of their own
}

}  // namespace
}  // namespace subquad
