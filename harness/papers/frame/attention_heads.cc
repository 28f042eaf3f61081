#include "harness/papers/frame/attention_heads.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "harness/base/data_folder.h"
#include "harness/cases/draws.h"
#include "harness/cases/input_source.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"

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

// How far an estimated row is from the exact one.
struct RowError {
  double weights = 0;  // |A - A^|_1
  double output = 0;   // |(A - A^) V| / |A V|; NaN without values
};

RowError Compare(const double* estimate, const double* exact, int64_t count,
                 const std::vector<double>& values, int64_t n) {
  using Row = Eigen::Map<const Eigen::RowVectorXd>;
  const Eigen::RowVectorXd right = Row(exact, count),
                           off = Row(estimate, count) - right;
  RowError error{off.lpNorm<1>(), std::numeric_limits<double>::quiet_NaN()};
  if (values.empty()) return error;
  const Eigen::Map<const Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic,
                                       Eigen::RowMajor>>
      v(values.data(), n, static_cast<int64_t>(values.size()) / n);
  error.output =
      (off * v.topRows(count)).norm() / (right * v.topRows(count)).norm();
  return error;
}

// elu(x) + 1 has no randomness and no choice of f.
RowError EluError(const double* query, const std::vector<double>& keys,
                  int64_t count, int64_t d, double scale, const double* bias,
                  const std::vector<double>& values) {
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
  const std::vector<double> exact =
      AttentionRow(query, keys, count, d, scale, bias);
  return Compare(estimate.data(), exact.data(), count, values,
                 static_cast<int64_t>(keys.size()) / d);
}

std::vector<const RandomMapKind*> Kinds() {
  std::vector<const RandomMapKind*> kinds;
  for (const std::string& name : HeadMaps())
    for (const RandomMapKind& kind : RandomMapKinds())
      if (kind.name == name) kinds.push_back(&kind);
  return kinds;
}

// The rows of a head that are measured, and its keys.
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

// Calls work(row, count of its keys, bias by key or null).
template <typename Work>
void EachRow(const AttentionHead& head, const Sample& sample, bool rpe,
             const Work& work) {
  for (int64_t r = 0; r < sample.used; ++r) {
    const int64_t i = sample.Position(r, head.n);
    work(r, head.causal ? i + 1 : head.n,
         rpe ? head.bias.data() + head.n - 1 - i : nullptr);
  }
}

// The errors of what needs no features.
void AddBaselines(const AttentionHead& head, const Sample& sample,
                  const Projections& projections, bool normalised, bool rpe,
                  double scale, HeadResult& result) {
  const double share = 1 / static_cast<double>(sample.used);
  for (size_t b = 0; b < BaselineKinds().size(); ++b)
    EachRow(
        head, sample, rpe, [&](int64_t r, int64_t count, const double* bias) {
          double output = std::numeric_limits<double>::quiet_NaN();
          const BaselineError error = ErrorOf(
              BaselineKinds()[b].map, projections, r, count, std::sqrt(scale),
              bias, [&](const double* estimate, const double* exact) {
                output =
                    Compare(estimate, exact, count, head.values, head.n).output;
              });
          result.baselines(normalised, rpe, b) += error.error * share;
          result.baseline_outputs(normalised, rpe, b) += output * share;
        });
}

// Adds the errors of one draw of Omega; `stream` is its place among the draws.
void AddErrors(const AttentionHead& head, const HeadSettings& settings,
               const Draws& omegas, int64_t stream, size_t draw,
               HeadResult& result) {
  const std::vector<const RandomMapKind*> kinds = Kinds();
  const auto& features = settings.features;
  std::vector<bool> with_rpe = {false};
  if (result.has_bias) with_rpe.push_back(true);
  for (const bool normalised : {false, true}) {
    const Sample sample = SampleOf(head, settings.rows, normalised);
    const double share = 1 / static_cast<double>(sample.used);
    const double scale = normalised ? 1 : head.scale;
    const auto add = [&](bool rpe, size_t map, size_t f,
                         const RowError& error) {
      result.errors(draw, normalised, rpe, map, f) += error.weights * share;
      result.outputs(draw, normalised, rpe, map, f) += error.output * share;
    };
    for (size_t k = 0; k < kinds.size(); ++k) {
      std::vector<int64_t> counts;
      for (int64_t f : features) counts.push_back(f / kinds[k]->per_row());
      const std::vector<double> omega =
          SampleOmega(kinds[k]->sampler, omegas, stream, counts.back(), head.d);
      const Projections projections =
          Project(sample.queries, sample.keys, omega, head.d);
      for (const bool rpe : with_rpe)
        EachRow(
            head, sample, rpe,
            [&](int64_t r, int64_t count, const double* bias) {
              size_t f = 0;
              AttentionEstimates(
                  kinds[k]->map, projections, r, count, std::sqrt(scale), bias,
                  counts, [&](const double* estimate, const double* exact) {
                    add(rpe, k, f++,
                        Compare(estimate, exact, count, head.values, head.n));
                  });
            });
      // The first projections serve for what needs none; once is enough.
      if (k == 0 && draw == 0)
        for (const bool rpe : with_rpe)
          AddBaselines(head, sample, projections, normalised, rpe, scale,
                       result);
    }
    for (const bool rpe : with_rpe)
      EachRow(head, sample, rpe,
              [&](int64_t r, int64_t count, const double* bias) {
                const RowError error =
                    EluError(sample.queries.data() + r * head.d, sample.keys,
                             count, head.d, scale, bias, head.values);
                for (size_t f = 0; f < features.size(); ++f)
                  add(rpe, kinds.size(), f, error);
              });
  }
}

// The numbers that need no Omega. A head's bias is part of its attention.
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

// Lengths of rows times the root of the scale: what a feature map gets.
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
  if (problem.HasInput("v") && problem.dims.contains("e")) {
    const double* v = folder.inputs["v"].Head(h);
    head.values.assign(v, v + head.n * problem.Dim("e"));
  }
  // One number per offset; that of an image is a matrix.
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
    // Folders with the same name are distinguished by their paths.
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
  for (size_t h = 0; h < heads.size(); ++h) {
    results[h].errors = Grid({{"draw", draws},
                              {"normalised", 2},
                              {"rpe", 2},
                              {"map", HeadMaps().size()},
                              {"f", settings.features.size()}});
    results[h].outputs = results[h].errors;
    results[h].baselines =
        Grid({{"normalised", 2}, {"rpe", 2}, {"map", BaselineKinds().size()}});
    results[h].baseline_outputs = results[h].baselines;
    results[h].has_bias = !heads[h].bias.empty();
  }
  const Draws omegas = run.DrawsOf("omega");
  run.For(static_cast<int64_t>(heads.size() * draws), [&](int64_t index) {
    const size_t h = static_cast<size_t>(index) / draws,
                 draw = static_cast<size_t>(index) % draws;
    AddErrors(heads[h], settings, omegas, index, draw, results[h]);
    if (draw == 0) Describe(heads[h], settings.rows, results[h]);
  });
  return results;
}

StudyTable SourceTable(const AttentionHeads& all) {
  StudyTable table{"sources",
                   {{"source", "name", "the case folder, or `made up`"},
                    {"model", "name", "heads of one model are judged together"},
                    {"heads", "1", "in it"},
                    {"used", "1", "heads measured"},
                    {"origin", "text", "from its case.json"}},
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
       {"model", "name", "to which it belongs"},
       {"layer", "1", "of the model; null: not known"},
       {"index", "1", "of the head in its folder"},
       {"real", "flag", "from a trained model"},
       {"own_bias", "flag", "it has its own bias by offset"},
       {"causal", "flag", "future keys are masked"},
       {"n", "tokens", "queries and keys"},
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

// A cell of a table of errors.
struct Cell {
  bool normalised, rpe;
  size_t map, f;
};

std::vector<Cell> Cells(const HeadSettings& settings) {
  std::vector<Cell> cells;
  for (const bool normalised : {false, true})
    for (const bool rpe : {false, true})
      for (size_t map = 0; map < HeadMaps().size(); ++map)
        for (size_t f = 0; f < settings.features.size(); ++f)
          cells.push_back({normalised, rpe, map, f});
  return cells;
}

// One for each draw; none under rpe if the head has no bias.
void AddSamples(const HeadResult& result, const Cell& cell,
                std::vector<double>& samples) {
  if (cell.rpe && !result.has_bias) return;
  for (size_t draw = 0; draw < result.errors.Size(0); ++draw)
    samples.push_back(
        result.errors(draw, cell.normalised, cell.rpe, cell.map, cell.f));
}

void AddRow(StudyTable& table, const std::string& name, const Cell& cell,
            const HeadSettings& settings, const std::vector<double>& samples) {
  if (samples.empty()) return;
  table.Add({name, cell.normalised, cell.rpe, HeadMaps()[cell.map],
             settings.features[cell.f], Quantile(samples, 0.5),
             Quantile(samples, 0.1), Quantile(samples, 0.9)});
}

// One of the tables of errors: whose they are, and over what.
StudyTable ErrorTable(const std::string& name, const StudyColumn& whose,
                      const std::string& over) {
  return {name,
          {whose,
           {"normalised", "flag", "rows of length 1, scale 1"},
           {"rpe", "flag", "with the bias by offset that the heads have"},
           {"map", "name", "feature map"},
           {"f", "1", "features; elu1 always has d"},
           {"median", "1", "over " + over + " of the mean |A - A^|_1 of a row"},
           {"low", "1", "10 % quantile over " + over},
           {"high", "1", "90 % quantile over " + over}},
          {}};
}

}  // namespace

StudyTable HeadErrorTable(const AttentionHeads& all,
                          const std::vector<HeadResult>& results,
                          const HeadSettings& settings) {
  StudyTable table =
      ErrorTable("head_error", {"head", "name", "as in heads"}, "draws");
  for (size_t h = 0; h < results.size(); ++h)
    for (const Cell& cell : Cells(settings)) {
      std::vector<double> samples;
      AddSamples(results[h], cell, samples);
      AddRow(table, all.heads[h].name, cell, settings, samples);
    }
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
    for (const Cell& cell : Cells(settings)) {
      std::vector<double> samples;
      for (size_t h = 0; h < results.size(); ++h)
        if (all.heads[h].model == model) AddSamples(results[h], cell, samples);
      AddRow(table, model, cell, settings, samples);
    }
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
