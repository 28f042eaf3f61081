// What a sentence's embedding becomes when every attention of a trained encoder
// is replaced and nothing is retrained: cosines to the embedding of the
// unchanged model, which reports/inputs/embeddings.py computed.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "harness/base/data_folder.h"
#include "harness/base/inference.h"
#include "harness/base/text.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/ours/ours.h"
#include "reference/base/invalid_input.h"

namespace subquad {
namespace {

// Scores 1 + s of scores s. Without the negative ones they cost n^2, as exact
// attention does; with them they are products of d + 1 features.
constexpr const char *kClippedScores = "taylor1_clipped",
                     *kTaylorFeatures = "taylor1",
                     *kAnother = "another sentence";

// A setting: the cosine of each sentence with each draw of its random features,
// and how many sentences have their own unchanged embedding for the nearest of
// all, as a share of both.
struct Setting {
  std::string model, map;
  int64_t features = 0;
  double found = 0;
  std::vector<std::vector<double>> cosines;  // [draws][sentences]
};

// Reads at most `most` sentences of every setting; 0: all.
std::vector<Setting> ReadSettings(int64_t most) {
  const std::filesystem::path path =
      DataFolder() / "reports/inputs/embeddings.csv";
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  std::vector<Setting> settings;
  while (std::getline(file, line)) {
    const std::vector<std::string> cells = Split(line, ',');
    std::vector<double> numbers;
    for (size_t c = 2; c < cells.size(); ++c)
      numbers.push_back(ParseNumber<double>(cells[c]).value_or(std::nan("")));
    if (numbers.size() < 4)
      throw InvalidInput(path.string(), "model, map, three numbers, cosines",
                         "'" + line.substr(0, 40) + "'");
    const auto features = static_cast<int64_t>(numbers[0]);
    const double found = numbers[2];
    numbers.erase(numbers.begin(), numbers.begin() + 3);
    const double share = found / static_cast<double>(numbers.size());
    if (most > 0 && std::ssize(numbers) > most)
      numbers.resize(static_cast<size_t>(most));
    if (!settings.empty() &&
        settings.front().cosines.front().size() != numbers.size())
      throw InvalidInput(path.string(), "as many sentences in each setting",
                         std::to_string(numbers.size()));
    auto setting = std::ranges::find_if(settings, [&](const Setting& other) {
      return other.model == cells[0] && other.map == cells[1] &&
             other.features == features;
    });
    if (setting == settings.end())
      setting = settings.insert(setting, {cells[0], cells[1], features, 0, {}});
    const auto draws = static_cast<double>(setting->cosines.size());
    setting->found = (setting->found * draws + share) / (draws + 1);
    setting->cosines.push_back(std::move(numbers));
  }
  if (settings.empty())
    throw InvalidInput(path.string(), "settings and their cosines",
                       "none, or no such file");
  return settings;
}

const Setting& Find(const std::vector<Setting>& all, const std::string& model,
                    const std::string& map) {
  for (const Setting& setting : all)
    if (setting.model == model && setting.map == map) return setting;
  throw InvalidInput("embeddings.csv", map + " of every model", "none");
}

StudyTables Measure(StudyRun&, const Json& parameters) {
  StudyTable cosines{
      "cosine",
      {{"model", "name", "the encoder"},
       {"map", "name", "what all its heads take their weights from"},
       {"m", "1", "features; 0: none are drawn"},
       {"draws", "1", "of the random features"},
       {"median", "1", "cosine to the embedding of the unchanged model"},
       {"low", "1", "of the middle 80 % of sentences and draws"},
       {"high", "1", "of the middle 80 % of sentences and draws"},
       {"found", "1",
        "share of sentences whose own unchanged embedding is nearest"}},
      {}};
  StudyTable against{
      "against",
      {{"model", "name", "the encoder"},
       {"map", "name", "what all its heads take their weights from"},
       {"m", "1", "number of random features; 0: none are drawn"},
       {"other", "name", "what they are compared with, sentence by sentence"},
       {"difference", "1", "mean of the other's cosine less theirs"},
       {"low", "1", "95 % interval over sentences and draws"},
       {"high", "1", "95 % interval over sentences and draws"}},
      {}};
  const std::vector<Setting> settings = ReadSettings(parameters["sentences"]);
  for (const Setting& setting : settings) {
    std::vector<double> all;
    for (const std::vector<double>& draw : setting.cosines)
      all.insert(all.end(), draw.begin(), draw.end());
    cosines.Add({setting.model, setting.map, setting.features,
                 setting.cosines.size(), Quantile(all, 0.5), Quantile(all, 0.1),
                 Quantile(all, 0.9), setting.found});
    if (setting.features == 0 && setting.map != kTaylorFeatures) continue;
    for (const char* name : {kClippedScores, kAnother}) {
      const std::vector<double>& other =
          Find(settings, setting.model, name).cosines.front();
      std::vector<std::vector<double>> differences = setting.cosines;
      for (std::vector<double>& draw : differences)
        for (size_t i = 0; i < draw.size(); ++i) draw[i] = other[i] - draw[i];
      const Estimate mean = MeanOverRowsAndColumns(differences);
      against.Add({setting.model, setting.map, setting.features, name,
                   mean.value, mean.interval.low, mean.interval.high});
    }
  }
  return {cosines, against};
}

// Whether the other is surely nearer with all of these maps.
struct Nearer {
  bool all = true;
  size_t rows = 0;
  double least = HUGE_VAL, features = 0;
};

Nearer NearerThan(const StudyTable& against, const std::string& other,
                  const std::set<std::string>& maps) {
  Nearer nearer;
  for (size_t r = 0; r < against.rows.size(); ++r) {
    if (against.Text(r, "other") != other ||
        !maps.contains(against.Text(r, "map")))
      continue;
    ++nearer.rows;
    nearer.all = nearer.all && against.Number(r, "low") > 0;
    nearer.least = Least(nearer.least, against.Number(r, "difference"));
    nearer.features = Worst(nearer.features, against.Number(r, "m"));
  }
  nearer.all = nearer.all && nearer.rows > 0;
  return nearer;
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable &cosines = FindTable(tables, "cosine"),
                   &against = FindTable(tables, "against");
  // The largest median over numbers of features, of each model.
  const auto medians = [&](const std::string& map) {
    std::map<std::string, double> most;
    for (size_t r = 0; r < cosines.rows.size(); ++r)
      if (cosines.Text(r, "map") == map) {
        const double median = cosines.Number(r, "median");
        const auto [position, added] =
            most.try_emplace(cosines.Text(r, "model"), median);
        if (!added) position->second = Worst(position->second, median);
      }
    std::string words;
    for (const auto& [model, median] : most)
      words += fmt::format("{}{:.3g} ({})", words.empty() ? "" : ", ", median,
                           model);
    return words;
  };
  StudyVerdict clipped{
      "embeddings-taylor",
      "with every attention of a trained encoder replaced and nothing "
      "retrained, the weights 1 + q k, the negative ones left out, which cost "
      "n^2 as exact attention does, keep embeddings nearer to the model's own "
      "than positive random features of any number tried"},
      features{"embeddings-taylor-features",
               "with d + 1 first-order Taylor features, whose weights 1 + q k "
               "may be negative, nothing of an embedding is left: that of "
               "another sentence is nearer to it"},
      trigonometric{
          "embeddings-trigonometric",
          "with trigonometric random features nothing of an embedding is left: "
          "that of another sentence is nearer to it"};
  clipped.ours = features.ours = trigonometric.ours = true;
  const Nearer positive = NearerThan(against, kClippedScores, {"prf", "orf"}),
               taylor = NearerThan(against, kAnother, {kTaylorFeatures}),
               waves = NearerThan(against, kAnother, {"trf"});
  clipped.outcome = Decide(positive.all);
  clipped.numbers = fmt::format(
      "median cosine {} against equal weights' {}; nearer than PRF and ORF of "
      "up to {:g} features by {:.3g} or more, the mean over sentences and "
      "draws",
      medians(kClippedScores), medians("uniform"), positive.features,
      positive.least);
  features.outcome = Decide(taylor.all);
  features.numbers = fmt::format(
      "median cosine {}; another sentence's embedding, {}, is nearer by {:.3g} "
      "or more",
      medians(kTaylorFeatures), medians(kAnother), taylor.least);
  trigonometric.outcome = Decide(waves.all);
  trigonometric.numbers = fmt::format(
      "another sentence's embedding, median cosine {}, is nearer than with TRF "
      "of up to {:g} features by {:.3g} or more; without TRF's negative "
      "weights, which costs n^2, the cosine is up to {}",
      medians(kAnother), waves.features, waves.least, medians("trf_clipped"));
  return {clipped, features, trigonometric};
}

}  // namespace

Study EmbeddingsStudy() {
  Study study;
  study.name = "embeddings";
  study.purpose =
      "How much the sentence embeddings of two trained encoders change when "
      "every attention is replaced and nothing is retrained.";
  study.source = "NPRF figure 2, all layers of a model at once";
  study.parameters = {{"sentences", 0}};
  study.tiny = {{"sentences", 24}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
