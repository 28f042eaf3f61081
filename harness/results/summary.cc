#include "harness/results/summary.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "harness/results/curve.h"

namespace subquad {
namespace {

Json NumberOrNull(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

// Lengths are integers in the file, although the statistics use doubles.
Json SizeJson(double n) { return std::llround(n); }

Json OrNull(const std::optional<double>& value) {
  return value ? NumberOrNull(*value) : Json(nullptr);
}

Json RatioJson(const Quotient& quotient) {
  return {{"ratio", NumberOrNull(quotient.ratio)},
          {"low", NumberOrNull(quotient.interval.low)},
          {"high", NumberOrNull(quotient.interval.high)}};
}

Json CurveJson(const RecipeCurve& curve, CurveValue quantity) {
  Json sizes = Json::array();
  for (const CurvePoint& point : curve.points)
    sizes.push_back(SizeJson(point.n));
  const auto fit = FitOf(curve, quantity);
  return {{"label", curve.label},
          {"operator", curve.op},
          {"implementation", curve.implementation},
          {"n", sizes},
          {"fit", fit ? Json{{"exponent", fit->exponent},
                             {"low", fit->interval.low},
                             {"high", fit->interval.high},
                             {"n_min", SizeJson(fit->n_min)},
                             {"n_max", SizeJson(fit->n_max)}}
                      : Json(nullptr)}};
}

// Adds one pair of curves that the recipe compares.
void AddPair(const RecipeCurve& fast, const RecipeCurve& slow,
             CurveValue quantity, Json& panel) {
  const Crossover crossover = CrossoverOf(fast, slow, quantity);
  panel["crossovers"].push_back(
      {{"fast", fast.label},
       {"dense", slow.label},
       {"n", OrNull(crossover.n)},
       {"low", OrNull(crossover.low)},
       {"high", OrNull(crossover.high)},
       {"value", crossover.n
                     ? NumberOrNull(HeightAt(fast, quantity, *crossover.n))
                     : Json(nullptr)},
       {"reason", crossover.reason}});
  // Times of several processors cannot be compared.
  if (quantity == CurveValue::kSeconds && (fast.mixed || slow.mixed)) return;
  for (const CurvePoint& point : fast.points) {
    const CurvePoint* other = slow.At(point.n);
    if (!other) continue;
    const Quotient quotient = RatioOf(*other, point, quantity);
    if (!std::isfinite(quotient.ratio)) continue;
    Json entry = {
        {"fast", fast.label}, {"dense", slow.label}, {"n", SizeJson(point.n)}};
    entry.update(RatioJson(quotient));
    panel["ratios"].push_back(std::move(entry));
  }
}

Json PanelsOf(const Recipe& recipe, const std::vector<RecipePoint>& points) {
  Json panels = Json::array();
  for (const Json& wanted : recipe.content().at("panels")) {
    const std::string y = wanted.at("y");
    if (y != "seconds" && y != "workspace_bytes") continue;
    const CurveValue quantity =
        y == "seconds" ? CurveValue::kSeconds : CurveValue::kWorkspace;
    const std::vector<RecipeCurve> curves =
        CurvesOfPanel(recipe, wanted, points);
    Json panel = {{"title", wanted.value("title", "")},
                  {"quantity", y},
                  {"curves", Json::array()},
                  {"crossovers", Json::array()},
                  {"ratios", Json::array()}};
    for (const RecipeCurve& curve : curves)
      if (!curve.empty()) panel["curves"].push_back(CurveJson(curve, quantity));
    for (const Json& pair : recipe.content().value("crossovers", Json::array()))
      for (const RecipeCurve& fast : curves)
        for (const RecipeCurve& slow : curves)
          if (pair[0] == Json(fast.id) && pair[1] == Json(slow.id))
            AddPair(fast, slow, quantity, panel);
    if (!panel["curves"].empty()) panels.push_back(std::move(panel));
  }
  return panels;
}

// Returns the cells of a map: the ratio of each baseline's time to that of the
// fast program at (x, y).
Json CellsOf(const Recipe& recipe, const std::vector<RecipePoint>& points) {
  const std::string x = recipe.x(), y = recipe.content().at("y");
  // Makes a curve over x for each value of y; baselines may not depend on y.
  const auto curves = [&](Json series) {
    series["by"] = y;
    series["label"] = "{" + y + "}";
    return CurvesOf(recipe, series, points, {});
  };
  Json cells = Json::array();
  for (const Json& baseline : recipe.content().at("baselines")) {
    const std::vector<RecipeCurve> slow = curves(baseline);
    for (const RecipeCurve& fast : curves(recipe.content().at("series")[0])) {
      const auto other = std::ranges::find_if(slow, [&](const auto& curve) {
        return curve.label == fast.label || curve.label.empty();
      });
      for (const CurvePoint& point : fast.points) {
        const CurvePoint* against =
            other == slow.end() || fast.mixed ? nullptr : other->At(point.n);
        if (!against) continue;
        const Quotient quotient =
            RatioOf(*against, point, CurveValue::kSeconds);
        if (!std::isfinite(quotient.ratio)) continue;
        Json cell = {{"baseline", baseline.at("label")},
                     {"x", SizeJson(point.n)},
                     {"y", Json::parse(fast.label, nullptr, false)}};
        cell.update(RatioJson(quotient));
        cells.push_back(std::move(cell));
      }
    }
  }
  return cells;
}

using Platform = std::pair<std::string, std::string>;  // machine, backend

Platform PlatformOf(const Json& record, const Json& environment) {
  const std::string backend = record.at("backend");
  const Json gpu = environment.value("gpu", Json());
  if (backend == "cuda" && gpu.is_object())
    return {gpu.at("name").get<std::string>(), backend};
  const Json& cpu = environment.at("cpu");
  std::string machine =
      cpu.is_string() ? cpu.get<std::string>() : "a processor";
  if (environment.contains("target"))
    machine += ", " + environment["target"].get<std::string>();
  return {machine, backend};
}

}  // namespace

Json SummarizeRecipes(const std::vector<std::pair<std::string, Json>>& files,
                      const std::vector<Recipe>& recipes) {
  std::vector<Platform> order;
  std::map<Platform, std::vector<RecipePoint>> platforms;
  std::map<std::pair<Platform, PointKey>, std::string> seen;
  for (const auto& [name, file] : files)
    for (const Json& record : file.at("records")) {
      const Platform platform = PlatformOf(record, file.at("environment"));
      if (!platforms.contains(platform)) order.push_back(platform);
      const PointKey key = PointKey::Of(record);
      const auto [position, added] = seen.try_emplace({platform, key}, name);
      if (!added)
        throw InvalidInput(name,
                           "measurements that are not in " + position->second,
                           key.Text() + "; summarize the runs separately");
      platforms[platform].push_back(
          {SettingsOf(record), &record, IsMixed(file)});
    }
  Json entries = Json::array();
  for (const Recipe& recipe : recipes) {
    // Such a recipe shows an error or a share of another recipe's points.
    if (recipe.content().contains("like")) continue;
    const bool curves = recipe.kind() == "curves" && recipe.x() == "n";
    if (!curves && recipe.kind() != "map") continue;
    for (const Platform& platform : order) {
      Json panels = Json::array(), cells = Json::array();
      (curves ? panels : cells) = curves ? PanelsOf(recipe, platforms[platform])
                                         : CellsOf(recipe, platforms[platform]);
      if (panels.empty() && cells.empty()) continue;
      entries.push_back({{"recipe", recipe.name()},
                         {"machine", platform.first},
                         {"backend", platform.second},
                         {"panels", panels},
                         {"cells", cells}});
    }
  }
  return entries;
}

}  // namespace subquad
