#include "harness/papers/nprf/paired_heads.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/papers/frame/random_features.h"

namespace subquad {
namespace {

// One setting of one head.
struct Cell {
  bool normalised = false, rpe = false;
  size_t map = 0, f = 0;
};

double MeanOverDraws(const Grid& grid, const Cell& cell) {
  double sum = 0;
  for (size_t draw = 0; draw < grid.Size(0); ++draw)
    sum += grid(draw, cell.normalised, cell.rpe, cell.map, cell.f);
  return sum / static_cast<double>(grid.Size(0));
}

size_t BaselineIndex(Baseline map) {
  for (size_t b = 0; b < BaselineKinds().size(); ++b)
    if (BaselineKinds()[b].map == map) return b;
  return BaselineKinds().size();
}

double Over(Baseline map, const HeadResult& head, const Cell& cell) {
  return MeanOverDraws(head.errors, cell) /
         head.baselines(cell.normalised, cell.rpe, BaselineIndex(map));
}

double Compared(const std::string& what, const HeadResult& head,
                const Cell& cell) {
  if (what == compared::kOverUniform)
    return Over(Baseline::kUniform, head, cell);
  if (what == compared::kOverBias) return Over(Baseline::kBias, head, cell);
  if (what == compared::kOutput)
    return MeanOverDraws(head.outputs, cell) /
           head.baseline_outputs(cell.normalised, cell.rpe,
                                 BaselineIndex(Baseline::kUniform));
  Cell other = cell;
  if (what == compared::kRpe) {
    other.rpe = false;
    return MeanOverDraws(head.errors, cell) - MeanOverDraws(head.errors, other);
  }
  other.normalised = true;
  return Over(Baseline::kBias, head, cell) - Over(Baseline::kBias, head, other);
}

// Ratios are compared with 1, differences with 0.
bool IsRatio(const std::string& what) {
  return what == compared::kOverUniform || what == compared::kOverBias ||
         what == compared::kOutput;
}

bool Applies(const std::string& what, const Cell& cell) {
  if (what == compared::kOverBias || what == compared::kRpe) return cell.rpe;
  if (what == compared::kStandard) return !cell.normalised;
  return true;
}

std::vector<std::string> ModelsOf(const AttentionHeads& all) {
  std::vector<std::string> models;
  for (const AttentionHead& head : all.heads)
    if (!std::ranges::count(models, head.model)) models.push_back(head.model);
  return models;
}

}  // namespace

StudyTable HeadBaselineTable(const AttentionHeads& all,
                             const std::vector<HeadResult>& results) {
  StudyTable table{
      "head_baseline",
      {{"head", "name", "as in heads"},
       {"normalised", "flag", "rows of length 1, scale 1"},
       {"rpe", "flag", "with the bias by offset that the head has"},
       {"map", "name", "what stands in for attention"},
       {"error", "1", "mean |A - A^|_1 of a row"},
       {"output", "1", "mean |(A - A^) V| / |A V| of a row; null: no values"}},
      {}};
  for (size_t h = 0; h < results.size(); ++h)
    for (const bool normalised : {false, true})
      for (const bool rpe : {false, true}) {
        if (rpe && !results[h].has_bias) continue;
        for (size_t b = 0; b < BaselineKinds().size(); ++b) {
          const double output = results[h].baseline_outputs(normalised, rpe, b);
          table.Add({all.heads[h].name, normalised, rpe,
                     BaselineKinds()[b].name,
                     results[h].baselines(normalised, rpe, b),
                     std::isfinite(output) ? Json(output) : Json()});
        }
      }
  return table;
}

StudyTable PairedTable(const AttentionHeads& all,
                       const std::vector<HeadResult>& results,
                       const HeadSettings& settings) {
  StudyTable table{
      "paired",
      {{"compared", "name",
        "error: mean |A - A^|_1 of a row; output: mean |(A - A^) V| / |A V|; "
        "over those of equal weights or of exp(bias) alone; rpe - none: error "
        "with RPE less that without; standard - normalised: of the error over "
        "that of exp(bias) alone, which without RPE are equal weights"},
       {"model", "name", "whose heads they are"},
       {"normalised", "flag", "rows of length 1, scale 1"},
       {"rpe", "flag", "with the bias by offset that the heads have"},
       {"map", "name", "feature map"},
       {"f", "1", "features; elu1 always has d"},
       {"heads", "1", "compared, each with itself"},
       {"mean", "1", "over heads"},
       {"low", "1", "95 % interval of the mean, over heads"},
       {"high", "1", "95 % interval of the mean, over heads"},
       {"lower", "1", "heads with a ratio below 1 or a difference below 0"}},
      {}};
  for (const char* what :
       {compared::kOverUniform, compared::kOverBias, compared::kOutput,
        compared::kRpe, compared::kStandard})
    for (const std::string& model : ModelsOf(all))
      for (const bool normalised : {false, true})
        for (const bool rpe : {false, true})
          for (size_t map = 0; map < HeadMaps().size(); ++map)
            for (size_t f = 0; f < settings.features.size(); ++f) {
              const Cell cell{normalised, rpe, map, f};
              if (!Applies(what, cell)) continue;
              std::vector<double> samples;
              for (size_t h = 0; h < results.size(); ++h)
                if (all.heads[h].model == model &&
                    (!rpe || results[h].has_bias))
                  samples.push_back(Compared(what, results[h], cell));
              if (samples.size() < 2 ||
                  !std::ranges::all_of(
                      samples, [](double x) { return std::isfinite(x); }))
                continue;
              const double limit = IsRatio(what) ? 1 : 0;
              const Estimate mean = MeanWithInterval(samples);
              table.Add({what, model, normalised, rpe, HeadMaps()[map],
                         settings.features[f], samples.size(), mean.value,
                         mean.interval.low, mean.interval.high,
                         std::ranges::count_if(
                             samples, [&](double x) { return x < limit; })});
            }
  return table;
}

PairedRow FindPaired(const StudyTable& table, const std::string& what,
                     const std::string& model, bool normalised, bool rpe,
                     const std::string& map, double f) {
  for (size_t r = 0; r < table.rows.size(); ++r)
    if (table.Text(r, "compared") == what && table.Text(r, "model") == model &&
        table.Flag(r, "normalised") == normalised &&
        table.Flag(r, "rpe") == rpe && table.Text(r, "map") == map &&
        table.Number(r, "f") == f)
      return {{table.Number(r, "mean"),
               {table.Number(r, "low"), table.Number(r, "high")}},
              table.Number(r, "heads"),
              table.Number(r, "lower")};
  return {};
}

}  // namespace subquad
