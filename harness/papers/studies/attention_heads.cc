#include "harness/papers/studies/attention_heads.h"

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "harness/base/data_folder.h"
#include "harness/cases/draws.h"
#include "harness/cases/input_source.h"
#include "harness/papers/studies/random_features.h"
#include "harness/papers/studies/studies.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

// Softmax attention of one query, with `bias` by key or null.
std::vector<double> AttentionRow(const double* query,
                                 const std::vector<double>& keys, int64_t count,
                                 int64_t d, double scale, const double* bias) {
  std::vector<double> row(static_cast<size_t>(count));
  double largest = -HUGE_VAL, sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    double dot = 0;
    for (int64_t c = 0; c < d; ++c)
      dot += query[c] * keys[static_cast<size_t>(j * d + c)];
    const auto at = static_cast<size_t>(j);
    row[at] = scale * dot + (bias ? bias[j] : 0);
    largest = std::max(largest, row[at]);
  }
  for (double& value : row) sum += value = std::exp(value - largest);
  for (double& value : row) value /= sum;
  return row;
}

double Distance(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t j = 0; j < a.size(); ++j) sum += std::abs(a[j] - b[j]);
  return sum;
}

// elu(x) + 1 has no randomness and no choice of f.
double EluError(const double* query, const std::vector<double>& keys,
                int64_t count, int64_t d, double scale, const double* bias) {
  const auto elu1 = [&](double x) {
    x *= std::sqrt(scale);
    return x > 0 ? x + 1 : std::exp(x);
  };
  std::vector<double> estimate(static_cast<size_t>(count));
  double sum = 0;
  for (int64_t j = 0; j < count; ++j) {
    double features = 0;
    for (int64_t c = 0; c < d; ++c)
      features += elu1(query[c]) * elu1(keys[static_cast<size_t>(j * d + c)]);
    const auto at = static_cast<size_t>(j);
    estimate[at] = features * (bias ? std::exp(bias[j]) : 1);
    sum += estimate[at];
  }
  for (double& value : estimate) value /= sum;
  return Distance(AttentionRow(query, keys, count, d, scale, bias), estimate);
}

std::vector<const RandomMapKind*> Kinds() {
  std::vector<const RandomMapKind*> kinds;
  for (const std::string& name : HeadMaps())
    for (const RandomMapKind& kind : RandomMapKinds())
      if (kind.name == name) kinds.push_back(&kind);
  return kinds;
}

// The rows of a head that are looked at, and its keys.
struct Sample {
  int64_t used = 0;
  std::vector<double> queries, keys;
  int64_t Position(int64_t r, int64_t n) const {
    return (2 * r + 1) * n / (2 * used);
  }
};

Sample SampleOf(const AttentionHead& head, int64_t rows, bool normalised) {
  Sample sample;
  sample.used = std::min(rows, head.n);
  for (int64_t r = 0; r < sample.used; ++r) {
    const double* row =
        head.queries.data() + sample.Position(r, head.n) * head.d;
    sample.queries.insert(sample.queries.end(), row, row + head.d);
  }
  sample.keys = head.keys;
  if (normalised) {
    NormalizeRows(sample.queries, head.d);
    NormalizeRows(sample.keys, head.d);
  }
  return sample;
}

// Calls work(row, keys that it sees, bias by key or null).
template <typename Work>
void EachRow(const AttentionHead& head, const Sample& sample, bool rpe,
             const Work& work) {
  for (int64_t r = 0; r < sample.used; ++r) {
    const int64_t i = sample.Position(r, head.n);
    work(r, head.causal ? i + 1 : head.n,
         rpe ? head.bias.data() + head.n - 1 - i : nullptr);
  }
}

// [setting][map][f] of one draw of Omega.
std::vector<std::vector<std::vector<double>>> ErrorsOf(
    const AttentionHead& head, const HeadSettings& settings,
    const Draws& omegas, int64_t draw) {
  const std::vector<const RandomMapKind*> kinds = Kinds();
  const auto& features = settings.features;
  std::vector<std::vector<std::vector<double>>> errors(kHeadSettings);
  const std::vector<std::vector<double>> zeros(
      HeadMaps().size(), std::vector<double>(features.size()));
  for (const bool normalised : {false, true}) {
    const Sample sample = SampleOf(head, settings.rows, normalised);
    const double share = 1 / static_cast<double>(sample.used);
    const double scale = normalised ? 1 : head.scale;
    const auto settings_of = [&](bool rpe) -> auto& {
      return errors[static_cast<size_t>(normalised * 2 + rpe)];
    };
    for (const bool rpe : {false, true})
      if (!rpe || !head.bias.empty()) settings_of(rpe) = zeros;
    for (size_t k = 0; k < kinds.size(); ++k) {
      std::vector<int64_t> counts;
      for (int64_t f : features) counts.push_back(f / kinds[k]->per_row());
      const std::vector<double> omega =
          SampleOmega(kinds[k]->sampler, omegas, draw, counts.back(), head.d);
      const Projections seen =
          Project(sample.queries, sample.keys, omega, head.d);
      for (const bool rpe : {false, true}) {
        if (rpe && head.bias.empty()) continue;
        EachRow(head, sample, rpe,
                [&](int64_t r, int64_t count, const double* bias) {
                  const std::vector<double> found =
                      AttentionErrors(kinds[k]->map, seen, r, count,
                                      std::sqrt(scale), bias, counts);
                  for (size_t f = 0; f < found.size(); ++f)
                    settings_of(rpe)[k][f] += found[f] * share;
                });
      }
    }
    for (const bool rpe : {false, true}) {
      if (rpe && head.bias.empty()) continue;
      EachRow(head, sample, rpe,
              [&](int64_t r, int64_t count, const double* bias) {
                const double error =
                    EluError(sample.queries.data() + r * head.d, sample.keys,
                             count, head.d, scale, bias);
                for (double& value : settings_of(rpe).back())
                  value += error * share;
              });
    }
  }
  return errors;
}

// What needs no Omega. The bias of a head belongs to its attention.
void Describe(const AttentionHead& head, int64_t rows, HeadResult& result) {
  const Sample standard = SampleOf(head, rows, false),
               normalised = SampleOf(head, rows, true);
  const double share = 1 / static_cast<double>(standard.used);
  const auto row_of = [&](const Sample& sample, int64_t r, int64_t count,
                          double scale, const double* bias) {
    return AttentionRow(sample.queries.data() + r * head.d, sample.keys, count,
                        head.d, scale, bias);
  };
  const auto peak = [](const std::vector<double>& row) {
    return *std::ranges::max_element(row) * static_cast<double>(row.size());
  };
  EachRow(head, standard, !head.bias.empty(),
          [&](int64_t r, int64_t count, const double* bias) {
            const auto own = row_of(standard, r, count, head.scale, bias);
            const auto other = row_of(normalised, r, count, 1, bias);
            result.peak[0] += share * peak(own);
            result.peak[1] += share * peak(other);
            result.moved += share * Distance(own, other);
          });
}

// Lengths of rows, the root of the scale in: what a feature map sees.
std::vector<double> Lengths(const std::vector<double>& rows, int64_t d,
                            double scale) {
  std::vector<double> lengths;
  for (size_t first = 0; first < rows.size(); first += static_cast<size_t>(d)) {
    double square = 0;
    for (int64_t c = 0; c < d; ++c) {
      const double value = rows[first + static_cast<size_t>(c)];
      square += value * value;
    }
    lengths.push_back(std::sqrt(square * scale));
  }
  return lengths;
}

double Mean(const std::vector<double>& values) {
  double sum = 0;
  for (double value : values) sum += value;
  return sum / static_cast<double>(values.size());
}

bool HasHeads(const CaseFolder& folder) {
  const Problem& problem = folder.problem;
  return problem.HasInput("q") && problem.HasInput("k") &&
         problem.dims.contains("n_q") && problem.dims.contains("n_k") &&
         problem.Dim("n_q") == problem.Dim("n_k");
}

AttentionHead HeadIn(const CaseFolder& folder, int64_t h) {
  const Problem& problem = folder.problem;
  AttentionHead head;
  head.index = h;
  head.real = true;
  head.n = problem.Dim("n_q");
  head.d = problem.Dim("d");
  head.scale = problem.params.Has("scale")
                   ? problem.params.Number("scale")
                   : 1 / std::sqrt(static_cast<double>(head.d));
  head.causal = problem.params.Has("causal") && problem.params.Flag("causal");
  const double* q = folder.inputs["q"].Head(h);
  const double* k = folder.inputs["k"].Head(h);
  head.queries.assign(q, q + head.n * head.d);
  head.keys.assign(k, k + head.n * head.d);
  // One number by offset; that of an image is a matrix.
  if (problem.HasInput("bias") &&
      problem.InputShape(static_cast<size_t>(problem.InputIndex("bias")))
              .back() == 2 * head.n - 1) {
    const double* bias = folder.inputs["bias"].Head(h);
    head.bias.assign(bias, bias + 2 * head.n - 1);
  }
  return head;
}

}  // namespace

const std::vector<std::string>& HeadMaps() {
  static const std::vector<std::string> maps = {"prf", "orf", "trf", "elu1"};
  return maps;
}

std::pair<std::string, int64_t> ModelAndLayer(const std::string& folder) {
  const std::string mark = "-layer";
  const size_t at = folder.rfind(mark);
  if (at == std::string::npos || at == 0) return {folder, -1};
  const std::string digits = folder.substr(at + mark.size());
  const bool number =
      !digits.empty() && digits.size() < 7 &&
      std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; });
  if (!number) return {folder, -1};
  return {folder.substr(0, at), std::stoll(digits)};
}

void CheckHasHeads(const CaseFolder& folder) {
  if (HasHeads(folder)) return;
  std::string names;
  for (const TensorRule& rule : folder.problem.inputs)
    names += (names.empty() ? "" : ", ") + rule.name;
  throw InvalidInput("input " + folder.name,
                     "tensors q and k of the same length", names);
}

std::vector<std::string> FoldersInTree() {
  std::vector<std::string> folders;
  const fs::path inputs = DataFolder() / "reports/inputs";
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(inputs, error))
    if (fs::exists(entry.path() / "case.json", error) &&
        HasHeads(*FindInputSource(entry.path().string())))
      folders.push_back(entry.path().string());
  std::sort(folders.begin(), folders.end());
  return folders;
}

AttentionHeads HeadsOf(const std::vector<std::string>& folders, int64_t most) {
  AttentionHeads all;
  struct Found {
    const CaseFolder* folder;
    size_t source;
    int64_t head;
  };
  std::vector<Found> places;
  std::set<std::string> names;
  for (const std::string& path : folders) {
    const CaseFolder& folder = *FindInputSource(path);
    CheckHasHeads(folder);
    // Folders of one name in different places are told apart by their paths.
    std::string name = folder.name;
    if (!names.insert(name).second) {
      name = path;
      names.insert(name);
    }
    for (int64_t h = 0; h < folder.problem.heads; ++h)
      places.push_back({&folder, all.sources.size(), h});
    all.sources.push_back({name, ModelAndLayer(name).first, folder.source,
                           folder.problem.heads, 0});
  }
  const auto count = static_cast<int64_t>(places.size());
  const int64_t used = std::min(most, count);
  for (int64_t i = 0; i < used; ++i) {
    const Found& place = places[static_cast<size_t>(i * count / used)];
    AttentionSource& source = all.sources[place.source];
    AttentionHead head = HeadIn(*place.folder, place.head);
    head.name = source.name + "/" + std::to_string(place.head);
    head.model = source.model;
    head.layer = ModelAndLayer(source.name).second;
    ++source.used;
    all.heads.push_back(std::move(head));
  }
  return all;
}

std::vector<HeadResult> MeasureHeads(StudyRun& run,
                                     const std::vector<AttentionHead>& heads,
                                     const HeadSettings& settings) {
  std::vector<HeadResult> results(heads.size());
  const auto draws = static_cast<size_t>(settings.draws);
  for (HeadResult& result : results) result.errors.resize(draws);
  const Draws omegas = run.DrawsOf("omega");
  run.For(static_cast<int64_t>(heads.size() * draws), [&](int64_t index) {
    const size_t h = static_cast<size_t>(index) / draws,
                 draw = static_cast<size_t>(index) % draws;
    results[h].errors[draw] = ErrorsOf(heads[h], settings, omegas, index);
    if (draw == 0) Describe(heads[h], settings.rows, results[h]);
  });
  return results;
}

StudyTable SourceTable(const AttentionHeads& all) {
  StudyTable table{
      "sources",
      {{"source", "name", "the case folder, or that heads are made up"},
       {"model", "name", "heads of one model are judged together"},
       {"heads", "1", "it has"},
       {"used", "1", "of them"},
       {"origin", "text", "in the words of its case.json"}},
      {}};
  for (const AttentionSource& source : all.sources)
    table.Add(
        {source.name, source.model, source.heads, source.used, source.origin});
  return table;
}

StudyTable HeadTable(const AttentionHeads& all,
                     const std::vector<HeadResult>& results) {
  StudyTable table{
      "heads",
      {{"head", "name", "where its queries and keys come from"},
       {"model", "name", "that it belongs to"},
       {"layer", "1", "of the model; null: not known"},
       {"index", "1", "of the head in its folder"},
       {"real", "flag", "from a trained model"},
       {"own_bias", "flag", "it has a bias by offset of its own"},
       {"causal", "flag", "it sees no future"},
       {"n", "tokens", "of it"},
       {"d", "1", "width"},
       {"q_norm", "1", "mean length of a query times the root of scale"},
       {"q_low", "1", "a tenth of the queries is shorter"},
       {"q_high", "1", "a tenth of the queries is longer"},
       {"k_norm", "1", "mean length of a key times the root of scale"},
       {"k_low", "1", "a tenth of the keys is shorter"},
       {"k_high", "1", "a tenth of the keys is longer"},
       {"peak_standard", "1",
        "largest weight of a row over the mean one, mean over rows"},
       {"peak_normalised", "1", "the same of normalised attention"},
       {"moved", "1",
        "mean |A' - A|_1 of a row between normalised attention A' and the "
        "head's own A, both exact"}},
      {}};
  for (size_t h = 0; h < all.heads.size(); ++h) {
    const AttentionHead& head = all.heads[h];
    const std::vector<double> q = Lengths(head.queries, head.d, head.scale),
                              k = Lengths(head.keys, head.d, head.scale);
    table.Add({head.name, head.model,
               head.layer < 0 ? Json(nullptr) : Json(head.layer), head.index,
               head.real, !head.bias.empty(), head.causal, head.n, head.d,
               Mean(q), Quantile(q, 0.1), Quantile(q, 0.9), Mean(k),
               Quantile(k, 0.1), Quantile(k, 0.9), results[h].peak[0],
               results[h].peak[1], results[h].moved});
  }
  return table;
}

namespace {

// Calls add(setting, map, f).
template <typename Add>
void EachCell(const HeadSettings& settings, const Add& add) {
  for (size_t setting = 0; setting < kHeadSettings; ++setting)
    for (size_t k = 0; k < HeadMaps().size(); ++k)
      for (size_t f = 0; f < settings.features.size(); ++f) add(setting, k, f);
}

// Of one head, over draws; empty where it has no bias.
void AddSamples(const HeadResult& result, size_t setting, size_t k, size_t f,
                std::vector<double>& samples) {
  for (const auto& draw : result.errors)
    if (!draw[setting].empty()) samples.push_back(draw[setting][k][f]);
}

void AddRow(StudyTable& table, const std::string& name, size_t setting,
            size_t k, int64_t f, const std::vector<double>& samples) {
  if (samples.empty()) return;
  table.Add({name, setting >= 2, setting % 2 == 1, HeadMaps()[k], f,
             Quantile(samples, 0.5), Quantile(samples, 0.1),
             Quantile(samples, 0.9)});
}

// One of the tables of errors: whose they are, and over what.
StudyTable ErrorTable(const std::string& name, const StudyColumn& whose,
                      const std::string& over) {
  return {name,
          {whose,
           {"normalised", "flag", "rows of length 1, scale 1"},
           {"rpe", "flag", "with the bias by offset that the heads have"},
           {"map", "name", "feature map"},
           {"f", "1", "features; elu1 has always d"},
           {"median", "1", "over " + over + " of the mean |A - A^|_1 of a row"},
           {"low", "1", "a tenth of " + over + " lies below"},
           {"high", "1", "a tenth of " + over + " lies above"}},
          {}};
}

}  // namespace

StudyTable HeadErrorTable(const AttentionHeads& all,
                          const std::vector<HeadResult>& results,
                          const HeadSettings& settings) {
  StudyTable table =
      ErrorTable("head_error", {"head", "name", "as in heads"}, "draws");
  for (size_t h = 0; h < results.size(); ++h)
    EachCell(settings, [&](size_t setting, size_t k, size_t f) {
      std::vector<double> samples;
      AddSamples(results[h], setting, k, f, samples);
      AddRow(table, all.heads[h].name, setting, k, settings.features[f],
             samples);
    });
  return table;
}

StudyTable ModelErrorTable(const std::string& name, const AttentionHeads& all,
                           const std::vector<HeadResult>& results,
                           const HeadSettings& settings) {
  StudyTable table = ErrorTable(name, {"model", "name", "whose heads they are"},
                                "heads and draws");
  std::vector<std::string> models;
  for (const AttentionHead& head : all.heads)
    if (!std::ranges::count(models, head.model)) models.push_back(head.model);
  for (const std::string& model : models)
    EachCell(settings, [&](size_t setting, size_t k, size_t f) {
      std::vector<double> samples;
      for (size_t h = 0; h < results.size(); ++h)
        if (all.heads[h].model == model)
          AddSamples(results[h], setting, k, f, samples);
      AddRow(table, model, setting, k, settings.features[f], samples);
    });
  return table;
}

std::vector<ModelInTables> ModelsIn(const StudyTable& heads) {
  std::vector<ModelInTables> models;
  std::vector<std::set<double>> layers;
  for (size_t r = 0; r < heads.rows.size(); ++r) {
    const std::string name = heads.Text(r, "model");
    auto found = std::ranges::find(models, name, &ModelInTables::name);
    if (found == models.end()) {
      models.push_back({.name = name, .own_bias = true});
      layers.emplace_back();
      found = models.end() - 1;
    }
    ModelInTables& model = *found;
    ++model.heads;
    model.real = heads.Flag(r, "real");
    model.own_bias = model.own_bias && heads.Flag(r, "own_bias");
    const double layer = heads.Number(r, "layer");
    auto& seen = layers[static_cast<size_t>(found - models.begin())];
    if (!std::isnan(layer)) seen.insert(layer);
    model.layers = static_cast<int64_t>(seen.size());
    model.q_norm += heads.Number(r, "q_norm");
    model.k_norm += heads.Number(r, "k_norm");
    model.peak_standard += heads.Number(r, "peak_standard");
    model.peak_normalised += heads.Number(r, "peak_normalised");
    model.moved += heads.Number(r, "moved");
  }
  for (ModelInTables& model : models)
    for (double* sum : {&model.q_norm, &model.k_norm, &model.peak_standard,
                        &model.peak_normalised, &model.moved})
      *sum /= static_cast<double>(model.heads);
  return models;
}

double ModelError(const StudyTable& table, const std::string& model,
                  bool normalised, bool rpe, const std::string& map, double f) {
  for (size_t r = 0; r < table.rows.size(); ++r)
    if (table.Text(r, "model") == model &&
        table.Flag(r, "normalised") == normalised &&
        table.Flag(r, "rpe") == rpe && table.Text(r, "map") == map &&
        table.Number(r, "f") == f)
      return table.Number(r, "median");
  return std::numeric_limits<double>::quiet_NaN();
}

}  // namespace subquad
