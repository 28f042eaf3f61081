// What a sentence's embedding becomes when every attention of a trained encoder
// is replaced and nothing is retrained: cosines to the embedding of the
// unchanged model, which reports/inputs/embeddings.py computed.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
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

constexpr const char* kTaylor = "taylor1_clipped";
constexpr const char* kAnother = "another sentence";

// A setting: the cosine of each sentence, and how many sentences have their own
// unchanged embedding for the nearest of all.
struct Setting {
  std::string model, map;
  int64_t features = 0;
  double found = 0;
  std::vector<double> cosines;
};

// At most `most` sentences of every setting; 0: all.
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
    Setting one{cells[0],
                cells[1],
                static_cast<int64_t>(numbers[0]),
                0,
                {numbers.begin() + 3, numbers.end()}};
    one.found = numbers[2] / static_cast<double>(one.cosines.size());
    if (most > 0 && std::ssize(one.cosines) > most)
      one.cosines.resize(static_cast<size_t>(most));
    if (!settings.empty() &&
        settings.front().cosines.size() != one.cosines.size())
      throw InvalidInput(path.string(), "as many sentences in each setting",
                         std::to_string(one.cosines.size()));
    settings.push_back(std::move(one));
  }
  if (settings.empty())
    throw InvalidInput(path.string(), "settings and their cosines",
                       "none, or no such file");
  return settings;
}

const Setting& Find(const std::vector<Setting>& all, const std::string& model,
                    const std::string& map) {
  for (const Setting& one : all)
    if (one.model == model && one.map == map) return one;
  throw InvalidInput("embeddings.csv", map + " of every model", "none");
}

StudyTables Measure(StudyRun&, const Json& parameters) {
  StudyTable cosines{
      "cosine",
      {{"model", "name", "the encoder"},
       {"map", "name", "what all its heads take their weights from"},
       {"m", "1", "features; 0: none are drawn"},
       {"median", "1", "cosine to the embedding of the unchanged model"},
       {"low", "1", "of the middle 80 % of the sentences"},
       {"high", "1", "of the middle 80 % of the sentences"},
       {"found", "1",
        "share of sentences whose own unchanged embedding is nearest"}},
      {}};
  StudyTable against{
      "against",
      {{"model", "name", "the encoder"},
       {"map", "name", "random features"},
       {"m", "1", "their number"},
       {"other", "name", "what they are compared with, sentence by sentence"},
       {"difference", "1", "mean of the other's cosine less theirs"},
       {"low", "1", "95 % interval of the difference"},
       {"high", "1", "95 % interval of the difference"}},
      {}};
  const std::vector<Setting> settings = ReadSettings(parameters["sentences"]);
  for (const Setting& one : settings) {
    cosines.Add({one.model, one.map, one.features, Quantile(one.cosines, 0.5),
                 Quantile(one.cosines, 0.1), Quantile(one.cosines, 0.9),
                 one.found});
    if (one.features == 0) continue;
    for (const char* name : {kTaylor, kAnother}) {
      const Setting& other = Find(settings, one.model, name);
      std::vector<double> differences;
      for (size_t i = 0; i < one.cosines.size(); ++i)
        differences.push_back(other.cosines[i] - one.cosines[i]);
      const Estimate mean = MeanWithInterval(differences);
      against.Add({one.model, one.map, one.features, name, mean.value,
                   mean.interval.low, mean.interval.high});
    }
  }
  return {cosines, against};
}

// Whether the other is surely nearer than all of these random features.
struct Nearer {
  bool all = true;
  size_t rows = 0;
  double least = 1e300, features = 0;
};

Nearer NearerThan(const StudyTable& against, const std::string& other,
                  bool trigonometric) {
  Nearer found;
  for (size_t r = 0; r < against.rows.size(); ++r) {
    if (against.Text(r, "other") != other ||
        (against.Text(r, "map") == "trf") != trigonometric)
      continue;
    ++found.rows;
    found.all = found.all && against.Number(r, "low") > 0;
    found.least = Least(found.least, against.Number(r, "difference"));
    found.features = Worst(found.features, against.Number(r, "m"));
  }
  found.all = found.all && found.rows > 0;
  return found;
}

std::vector<StudyVerdict> JudgeTables(const Json&, const StudyTables& tables) {
  const StudyTable &cosines = FindTable(tables, "cosine"),
                   &against = FindTable(tables, "against");
  const auto medians = [&](const std::string& map) {
    std::string words;
    for (size_t r = 0; r < cosines.rows.size(); ++r)
      if (cosines.Text(r, "map") == map)
        words +=
            fmt::format("{}{:.3g} ({})", words.empty() ? "" : ", ",
                        cosines.Number(r, "median"), cosines.Text(r, "model"));
    return words;
  };
  StudyVerdict taylor{
      "embeddings-taylor",
      "with every attention of a trained encoder replaced and nothing "
      "retrained, the weights 1 + q k, the negative ones left out, keep "
      "embeddings nearer to the model's own than positive random features of "
      "any number tried"},
      trigonometric{
          "embeddings-trigonometric",
          "with trigonometric random features nothing of an embedding is left: "
          "that of another sentence is nearer to it"};
  taylor.ours = trigonometric.ours = true;
  const Nearer first = NearerThan(against, kTaylor, false),
               second = NearerThan(against, kAnother, true);
  taylor.outcome = Decide(first.all);
  taylor.numbers = fmt::format(
      "median cosine {} against equal weights' {}; nearer than PRF and ORF of "
      "up to {:g} features by {:.3g} or more, the mean over sentences",
      medians(kTaylor), medians("uniform"), first.features, first.least);
  trigonometric.outcome = Decide(second.all);
  trigonometric.numbers = fmt::format(
      "another sentence's embedding, median cosine {}, is nearer than with TRF "
      "of up to {:g} features by {:.3g} or more",
      medians(kAnother), second.features, second.least);
  return {taylor, trigonometric};
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
