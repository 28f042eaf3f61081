// NPRF figure 2 without a translation model: the rows of softmax attention
// against those of its kernelized form, with the same queries and keys and
// without retraining.
//
// Queries and keys come from the case folders given, or else from
// reports/inputs/. Without either they are made up: every query is a mixture of
// the key before it and noise, with heads from flat to sharp. Relative
// positions are the models' own; only made-up heads have a made-up bias.
#include <fmt/format.h>

#include <cmath>
#include <vector>

#include "harness/cases/draws.h"
#include "harness/papers/studies/attention_heads.h"
#include "harness/papers/studies/random_features.h"
#include "harness/papers/studies/studies.h"

namespace subquad {
namespace {

// A row is converted with little loss when |A - A^|_1, which is at most 2 for
// positive weights, is a tenth of that.
constexpr double kLittle = 0.2;

std::vector<double> MadeUpBias(const Draws& draws, int64_t n, uint64_t first) {
  std::vector<double> bias(static_cast<size_t>(2 * n - 1));
  for (int64_t t = 0; t < 2 * n - 1; ++t)
    bias[static_cast<size_t>(t)] =
        0.5 * draws.Normal(first + static_cast<uint64_t>(t)) -
        static_cast<double>(std::abs(t - n + 1)) / 16;
  return bias;
}

AttentionHeads MadeUpHeads(StudyRun& run, const Json& parameters) {
  const int64_t n = parameters.at("n"), d = parameters.at("d");
  AttentionHeads all;
  for (double sharpness :
       parameters.at("sharpness").get<std::vector<double>>()) {
    const auto index = static_cast<int64_t>(all.heads.size());
    AttentionHead head;
    head.name = fmt::format("made up, sharpness {:g}", sharpness);
    head.model = "made up";
    head.index = index;
    head.n = n;
    head.d = d;
    head.scale = 1 / std::sqrt(static_cast<double>(d));
    head.keys = SampleNormal(run.DrawsOf("keys"), index, n * d);
    head.queries = SampleNormal(run.DrawsOf("queries"), index, n * d);
    for (int64_t i = 1; i < n; ++i)
      for (int64_t c = 0; c < d; ++c) {
        const auto at = static_cast<size_t>(i * d + c);
        head.queries[at] =
            head.queries[at] * std::sqrt(1 - sharpness * sharpness) +
            sharpness * head.keys[at - static_cast<size_t>(d)];
      }
    head.bias =
        MadeUpBias(run.DrawsOf("bias"), n, static_cast<uint64_t>(index) << 32);
    all.heads.push_back(std::move(head));
  }
  const auto count = static_cast<int64_t>(all.heads.size());
  all.sources.push_back({"made up", "made up",
                         "every query a mixture of the key before it and noise",
                         count, count});
  return all;
}

StudyTables Measure(StudyRun& run, const Json& parameters) {
  auto folders = parameters.at("input").get<std::vector<std::string>>();
  if (folders.empty() && parameters.at("tree")) folders = FoldersInTree();
  const AttentionHeads all =
      folders.empty() ? MadeUpHeads(run, parameters)
                      : HeadsOf(folders, parameters.at("most_heads"));
  const HeadSettings settings{parameters.at("rows"), parameters.at("draws"),
                              parameters.at("f")};
  const std::vector<HeadResult> results =
      MeasureHeads(run, all.heads, settings);
  return {SourceTable(all), HeadTable(all, results),
          HeadErrorTable(all, results, settings),
          ModelErrorTable("error", all, results, settings)};
}

// The parts of the claim for one model.
struct Parts {
  bool converts = false;  // normalised attention, with little loss
  bool loses = true;      // standard attention does not, at any f
  // RPE lowers the error at every f: standard, normalised. Only for models with
  // RPE.
  bool rpe_helps[2] = {true, true};
};

Parts PartsOf(const StudyTable& table, const ModelInTables& model,
              const std::vector<int64_t>& features) {
  const auto median = [&](bool normalised, bool rpe, int64_t f) {
    return ModelError(table, model.name, normalised, rpe, "prf",
                      static_cast<double>(f));
  };
  Parts parts;
  const int64_t last = features.back();
  parts.converts = median(true, false, last) <= kLittle &&
                   (!model.own_bias || median(true, true, last) <= kLittle);
  for (int64_t f : features) {
    for (const bool rpe : {false, true})
      if (!rpe || model.own_bias)
        parts.loses = parts.loses && median(false, rpe, f) > kLittle;
    for (const bool normalised : {false, true})
      if (model.own_bias)
        parts.rpe_helps[normalised] =
            parts.rpe_helps[normalised] &&
            median(normalised, true, f) < median(normalised, false, f);
  }
  return parts;
}

std::string Numbers(const StudyTable& table, const ModelInTables& model,
                    const Parts& parts, int64_t last) {
  const auto median = [&](bool normalised, bool rpe) {
    return ModelError(table, model.name, normalised, rpe, "prf",
                      static_cast<double>(last));
  };
  std::string text = fmt::format(
      "{} {} heads{}, mean lengths {:.2f} of queries and {:.2f} of keys: mean "
      "|A - A^|_1 of a row by prf at f = {} is {:.3f} for normalised attention "
      "and {:.3f} for standard attention (little: up to {:g})",
      model.heads,
      model.real ? "real" : "made-up (no real ones in reports/inputs)",
      model.layers > 1 ? fmt::format(" of {} layers", model.layers) : "",
      model.q_norm, model.k_norm, last, median(true, false),
      median(false, false), kLittle);
  const std::string whose = model.real ? "the learned RPE" : "a made-up RPE";
  if (model.own_bias)
    text += fmt::format(
        ", with {} {:.3f} and {:.3f}; at every f it {} the error of normalised "
        "and {} that of standard attention",
        whose, median(true, true), median(false, true),
        parts.rpe_helps[1] ? "lowers" : "does not lower",
        parts.rpe_helps[0] ? "lowers" : "does not lower");
  else
    text += "; the heads have no RPE, so whether it helps is not tested";
  return text +
         fmt::format(
             "; normalised attention differs from the heads' own by {:.2f} in "
             "the same measure; its largest weight is {:.1f} times the mean, "
             "theirs {:.1f} times",
             model.moved, model.peak_normalised, model.peak_standard);
}

std::string ShortNumbers(const StudyTable& table, const ModelInTables& model,
                         int64_t last, ClaimVerdict outcome) {
  const auto both = [&](bool rpe) {
    const auto f = static_cast<double>(last);
    return fmt::format("{:.3f} and {:.3f}",
                       ModelError(table, model.name, true, rpe, "prf", f),
                       ModelError(table, model.name, false, rpe, "prf", f));
  };
  return fmt::format("({} heads): {}, {} ({})", model.heads, both(false),
                     model.own_bias ? "with RPE " + both(true) : "no RPE",
                     ToString(outcome));
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "error");
  const auto features = parameters.at("f").get<std::vector<int64_t>>();
  const std::string claim =
      "normalised attention converts with little loss, standard attention does "
      "not; RPE helps both";
  std::vector<StudyVerdict> verdicts = {{"nprf-convert", claim}};
  std::string numbers;
  bool all_fully = true, all_in_part = true, any_rpe = false;
  for (const ModelInTables& model : ModelsIn(FindTable(tables, "heads"))) {
    const Parts parts = PartsOf(table, model, features);
    const bool converts = parts.converts && parts.loses;
    const bool rpe = parts.rpe_helps[0] && parts.rpe_helps[1];
    StudyVerdict one{"nprf-convert/" + model.name,
                     "on " + model.name + ": " + claim};
    // Without RPE that part cannot be tested: at best in part.
    one.outcome = Decide(converts && model.own_bias && rpe, converts);
    one.numbers = Numbers(table, model, parts, features.back());
    all_fully = all_fully && converts && rpe;
    all_in_part = all_in_part && converts;
    any_rpe = any_rpe || model.own_bias;
    numbers +=
        fmt::format("; {} {}", model.name,
                    ShortNumbers(table, model, features.back(), one.outcome));
    verdicts.push_back(std::move(one));
  }
  verdicts.front().numbers = fmt::format(
      "mean |A - A^|_1 of a row by prf at f = {} (little: up to {:g}) for "
      "normalised and standard attention{}",
      features.back(), kLittle, numbers.empty() ? ": no heads" : numbers);
  verdicts.front().outcome =
      Decide(any_rpe && all_fully, verdicts.size() > 1 && all_in_part);
  return verdicts;
}

}  // namespace

Study ConversionStudy() {
  Study study;
  study.name = "conversion";
  study.purpose =
      "Softmax attention replaced by its kernelized form on given queries and "
      "keys, normalised or not, with and without relative positions.";
  study.source = "NPRF figure 2";
  study.parameters = {{"input", Json::array()},
                      {"tree", true},
                      {"n", 256},
                      {"d", 64},
                      {"sharpness", {0.0, 0.3, 0.6, 0.9}},
                      {"most_heads", 24},
                      {"rows", 32},
                      {"draws", 5},
                      {"f", {16, 32, 64, 128, 256}}};
  study.tiny = {
      {"n", 48},   {"d", 32},    {"most_heads", 2}, {"sharpness", {0.3, 0.6}},
      {"rows", 6}, {"draws", 2}, {"f", {16, 64}}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
