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
#include "harness/papers/frame/attention_heads.h"
#include "harness/papers/frame/random_features.h"
#include "harness/papers/frame/study_numbers.h"
#include "harness/papers/nprf/nprf.h"
#include "harness/papers/nprf/paired_heads.h"

namespace subquad {
namespace {

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
    head.values = SampleNormal(run.DrawsOf("values"), index, n * d);
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
  return {SourceTable(all),
          HeadTable(all, results),
          HeadErrorTable(all, results, settings),
          ModelErrorTable("error", all, results, settings),
          HeadBaselineTable(all, results),
          PairedTable(all, results, settings)};
}

// What the claim of figure 2 becomes when it is said of attention weights, for
// one model. Everything is relative to weights that ignore queries and keys.
struct Parts {
  // At the largest f, normalised: surely nearer than equal weights and, where
  // there is RPE, than exp(bias) alone.
  bool converts = true;
  // At the largest f: the relative error of standard attention is surely
  // larger.
  bool loses = true;
  // RPE surely lowers the error at every f: standard, normalised. Only for
  // models with RPE.
  bool rpe_helps[2] = {true, true};
  bool all() const { return converts && loses && rpe_helps[0] && rpe_helps[1]; }
};

class Paired {
 public:
  Paired(const StudyTable& table, const ModelInTables& model)
      : table_(table), model_(model) {}
  PairedRow operator()(const char* what, bool normalised, bool rpe,
                       int64_t f) const {
    return FindPaired(table_, what, model_.name, normalised, rpe, "prf",
                      static_cast<double>(f));
  }

 private:
  const StudyTable& table_;
  const ModelInTables& model_;
};

Parts PartsOf(const Paired& paired, const ModelInTables& model,
              const std::vector<int64_t>& features) {
  Parts parts;
  const int64_t last = features.back();
  const auto nearer = [&](const char* what, bool rpe) {
    return paired(what, true, rpe, last).mean.interval.high < 1;
  };
  parts.converts = nearer(compared::kOverUniform, false);
  if (model.own_bias)
    parts.converts = parts.converts && nearer(compared::kOverUniform, true) &&
                     nearer(compared::kOverBias, true);
  for (const bool rpe : {false, true})
    if (!rpe || model.own_bias)
      parts.loses =
          parts.loses &&
          paired(compared::kStandard, false, rpe, last).mean.interval.low > 0;
  for (int64_t f : features)
    for (const bool normalised : {false, true})
      if (model.own_bias)
        parts.rpe_helps[normalised] =
            parts.rpe_helps[normalised] &&
            paired(compared::kRpe, normalised, true, f).mean.interval.high < 0;
  return parts;
}

std::string Words(const PairedRow& row) {
  return fmt::format("{:.2f} [{:.2f}, {:.2f}]", row.mean.value,
                     row.mean.interval.low, row.mean.interval.high);
}

std::string RpeWords(const Paired& paired, bool normalised, bool helps,
                     const std::vector<int64_t>& features) {
  std::string text;
  for (int64_t f : features) {
    const PairedRow row = paired(compared::kRpe, normalised, true, f);
    text += fmt::format("{}{:.3f} [{:.3f}, {:.3f}] (lower in {:g} of {:g})",
                        text.empty() ? "" : ", ", row.mean.value,
                        row.mean.interval.low, row.mean.interval.high,
                        row.lower, row.heads);
  }
  return fmt::format("{} the error of {} attention: differences {}",
                     helps ? "surely lowers" : "does not surely lower",
                     normalised ? "normalised" : "standard", text);
}

std::string Numbers(const Paired& paired, const ModelInTables& model,
                    const Parts& parts, const std::vector<int64_t>& features) {
  const int64_t first = features.front(), last = features.back();
  const auto both = [&](const char* what, bool normalised, bool rpe) {
    return fmt::format("{} at f = {} and {} at {}",
                       Words(paired(what, normalised, rpe, first)), first,
                       Words(paired(what, normalised, rpe, last)), last);
  };
  std::string text = fmt::format(
      "{} {} heads{}, mean lengths {:.2f} of queries and {:.2f} of keys; error "
      "of a row by prf over that of equal weights, mean over heads with 95 % "
      "interval: normalised {}, standard {}; of the output: normalised {}, "
      "standard {}",
      model.heads,
      model.real ? "real" : "made-up (no real ones in reports/inputs)",
      model.layers > 1 ? fmt::format(" of {} layers", model.layers) : "",
      model.q_norm, model.k_norm, both(compared::kOverUniform, true, false),
      both(compared::kOverUniform, false, false),
      both(compared::kOutput, true, false),
      both(compared::kOutput, false, false));
  if (model.own_bias)
    text += fmt::format(
        "; with {} RPE over that of exp(bias) alone: normalised {}, standard "
        "{}; RPE {}; it {}",
        model.real ? "the learned" : "a made-up",
        both(compared::kOverBias, true, true),
        both(compared::kOverBias, false, true),
        RpeWords(paired, true, parts.rpe_helps[1], features),
        RpeWords(paired, false, parts.rpe_helps[0], features));
  else
    text += "; the heads have no RPE, so whether it helps is not tested";
  return text +
         fmt::format(
             "; normalised attention differs from the heads' own by {:.2f} in "
             "|A' - A|_1; its largest weight is {:.1f} times the mean, theirs "
             "{:.1f} times",
             model.moved, model.peak_normalised, model.peak_standard);
}

std::string ShortNumbers(const Paired& paired, const ModelInTables& model,
                         int64_t last, ClaimVerdict outcome) {
  const auto both = [&](const char* what, bool rpe) {
    return fmt::format("{} and {}", Words(paired(what, true, rpe, last)),
                       Words(paired(what, false, rpe, last)));
  };
  return fmt::format("{} ({} heads): {} of equal weights{} ({})", model.name,
                     model.heads, both(compared::kOverUniform, false),
                     model.own_bias
                         ? ", with RPE " + both(compared::kOverBias, true) +
                               " of exp(bias) alone"
                         : ", no RPE",
                     ToString(outcome));
}

std::vector<StudyVerdict> JudgeTables(const Json& parameters,
                                      const StudyTables& tables) {
  const StudyTable& table = FindTable(tables, "paired");
  const auto features = parameters.at("f").get<std::vector<int64_t>>();
  const std::string claim =
      "with many features prf is nearer to normalised attention than weights "
      "that ignore queries and keys, and relative to them further from "
      "standard "
      "attention; RPE lowers the error of both";
  StudyVerdict paper{
      "nprf-convert",
      "a translation model with normalised attention keeps its quality when it "
      "is converted, one with standard attention does not; RPE helps both"};
  paper.outcome = ClaimVerdict::kCannotBeTested;
  StudyVerdict all{"nprf-convert-weights", claim};
  std::vector<StudyVerdict> models;
  bool fully = true, in_part = true, any_rpe = false;
  for (const ModelInTables& model : ModelsIn(FindTable(tables, "heads"))) {
    const Paired paired(table, model);
    const Parts parts = PartsOf(paired, model, features);
    const bool converts = parts.converts && parts.loses;
    StudyVerdict one{"nprf-convert-weights/" + model.name,
                     "on " + model.name + ": " + claim};
    // Without RPE that part cannot be tested: at best in part.
    one.outcome = Decide(model.own_bias && parts.all(), converts);
    one.numbers = Numbers(paired, model, parts, features);
    fully = fully && parts.all();
    in_part = in_part && converts;
    any_rpe = any_rpe || model.own_bias;
    all.numbers +=
        "; " + ShortNumbers(paired, model, features.back(), one.outcome);
    models.push_back(std::move(one));
  }
  all.numbers = fmt::format(
      "error of a row by prf at f = {}, normalised and standard, over that of "
      "weights that need no features, means over heads with 95 % intervals{}",
      features.back(), models.empty() ? ": no heads" : all.numbers);
  all.outcome = Decide(any_rpe && fully, !models.empty() && in_part);
  paper.numbers = fmt::format(
      "needs translation models trained with normalised attention, which these "
      "heads were not; of the weights alone, nprf-convert-weights is {}",
      ToString(all.outcome));
  std::vector<StudyVerdict> verdicts = {paper, all};
  verdicts.insert(verdicts.end(), models.begin(), models.end());
  return verdicts;
}

}  // namespace

Study ConversionStudy() {
  Study study;
  study.name = "conversion";
  study.purpose =
      "Error of attention weights when softmax attention is replaced by its "
      "kernelized form, for queries and keys of trained models, normalised or "
      "not, with and without relative positions.";
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
      {"n", 48},   {"d", 32},    {"most_heads", 6}, {"sharpness", {0.3, 0.6}},
      {"rows", 6}, {"draws", 2}, {"f", {16, 64}}};
  study.measure = Measure;
  study.judge = JudgeTables;
  return study;
}

}  // namespace subquad
