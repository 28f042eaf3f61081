#include "harness/results/curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "harness/results/lengths.h"
#include "harness/results/times.h"

namespace subquad {
namespace {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double NumberOr(const Json& record, const char* name) {
  const auto position = record.find(name);
  return position != record.end() && position->is_number()
             ? position->get<double>()
             : kNaN;
}

CurvePoint PointOf(const Json& record) {
  CurvePoint point = {LengthOf(record),
                      kNaN,
                      kNaN,
                      kNaN,
                      NumberOr(record, "workspace_bytes"),
                      NumberOr(record, "workspace_formula_bytes"),
                      NumberOr(record, "flops"),
                      record.at("size"),
                      &record};
  const auto seconds = record.find("seconds");
  if (seconds != record.end() && seconds->is_object()) {
    point.seconds = NumberOr(*seconds, "median");
    point.low = NumberOr(*seconds, "low");
    point.high = NumberOr(*seconds, "high");
    const Times times{seconds->value("samples", std::vector<double>()),
                      seconds->value("processes", std::vector<int64_t>()), ""};
    if (!times.samples.empty() && !MedianOf(times).interval_known)
      point.range_of = times.processes.size() < 2 ? std::ssize(times.samples)
                                                  : std::ssize(times.processes);
  }
  return point;
}

// Checks that a curve, which is a line of a figure, has one value for each
// setting except its axis.
void CheckOneThing(const std::string& what,
                   const std::vector<const RecipePoint*>& points,
                   const std::string& x) {
  const std::set<std::string> free = {x, "aspect", "height", "width"};
  Settings seen;
  for (const RecipePoint* point : points)
    for (const auto& [name, value] : point->settings) {
      const auto [position, added] = seen.try_emplace(name, value);
      if (!added && position->second != value && !free.contains(name))
        throw InvalidInput(
            what, "one value of " + name + " (the recipe has to name it)",
            position->second + " and " + value);
    }
}

// Returns the axes of a series on which any value matches, in addition to
// `axes`.
std::set<std::string> FreeAxes(const Json& series, std::set<std::string> axes) {
  if (IsOthers(series)) axes.insert("implementation");
  return axes;
}

// The settings that a series names.
struct Selection {
  Match match, except;

  Selection(const Json& series, const std::string& subject)
      : match(MatchOf(series.at("match"), subject)),
        except(MatchOf(series.value("except", Json::object()), subject)) {}
  bool Takes(const Settings& settings) const {
    return Fits(settings, match) && (except.empty() || !Fits(settings, except));
  }
};

// Returns the recipe's points that a series matches.
std::vector<const RecipePoint*> PointsOf(
    const Recipe& recipe, const Json& series,
    const std::vector<RecipePoint>& points) {
  const std::string subject = "recipe " + recipe.name();
  const Selection own(series, subject);
  std::vector<Selection> named;
  if (IsOthers(series))
    for (const Json& entry : recipe.content().at("series"))
      if (!IsOthers(entry)) named.emplace_back(entry, subject);
  const auto is_named = [&](const Settings& settings) {
    return recipe.AsksFor(settings, {recipe.x()}) &&
           std::ranges::any_of(named, [&](const Selection& selection) {
             return selection.Takes(settings);
           });
  };
  const std::set<std::string> free = FreeAxes(series, {recipe.x()});
  std::vector<const RecipePoint*> taken;
  for (const RecipePoint& point : points)
    if (own.Takes(point.settings) && recipe.AsksFor(point.settings, free) &&
        !is_named(point.settings))
      taken.push_back(&point);
  return taken;
}

// Adds a point unless its size is there already: the first record counts.
void AddPoint(CurvePoint point, std::vector<CurvePoint>& points) {
  if (std::ranges::find(points, point.n, &CurvePoint::n) == points.end())
    points.push_back(std::move(point));
}

RecipeCurve MakeCurve(const Recipe& recipe, const Json& series,
                      const std::string& label,
                      std::vector<const RecipePoint*> points) {
  CheckOneThing(fmt::format("recipe {}: {}", recipe.name(), label), points,
                recipe.x());
  std::vector<const RecipePoint*> own;
  for (const RecipePoint* point : points)
    if (recipe.AsksFor(point->settings, FreeAxes(series, {})))
      own.push_back(point);
  RecipeCurve curve{series.value("id", series.at("label")), label, {}, {}};
  for (const RecipePoint* point : points)
    if (point->record->at("check").at("verdict") == "passed")
      AddPoint(PointOf(*point->record), curve.all_points);
  std::ranges::sort(curve.all_points, {}, &CurvePoint::n);
  if (own.size() >= 3) points = own;
  for (const RecipePoint* point : points) {
    curve.mixed = curve.mixed || point->mixed;
    const Json& record = *point->record;
    const Json& check = record.at("check");
    if (check.at("verdict") != "passed") {
      ++curve.refused;
      if (curve.reason.empty())
        curve.reason =
            fmt::format("n = {} {}: {}", point->settings.at("n"),
                        check.at("verdict").get<std::string>(),
                        check.contains("reason") && check["reason"].is_string()
                            ? check["reason"].get<std::string>()
                            : "no reason given");
      continue;
    }
    AddPoint(PointOf(record), curve.points);
  }
  std::ranges::sort(curve.points, {}, &CurvePoint::n);
  curve.op = points.front()->settings.at("operator");
  curve.implementation = points.front()->settings.at("implementation");
  return curve;
}

// Orders by value if both are numbers, otherwise as text.
bool Before(const std::string& a, const std::string& b) {
  char *end_a, *end_b;
  const double x = std::strtod(a.c_str(), &end_a);
  const double y = std::strtod(b.c_str(), &end_b);
  return *end_a == 0 && *end_b == 0 ? x < y : a < b;
}

// The measured values of a quantity, in the form of statistics.h.
struct Columns {
  std::vector<double> n, value, low, high;
  Curve curve() const { return {n, value, low, high}; }
};

Columns ColumnsOf(const std::vector<CurvePoint>& points, CurveValue quantity) {
  Columns columns;
  for (const CurvePoint& point : points) {
    const bool timed = quantity == CurveValue::kSeconds;
    const double value = timed                                ? point.seconds
                         : quantity == CurveValue::kWorkspace ? point.workspace
                                                              : point.flops;
    if (timed ? !point.has_time() : !(std::isfinite(value) && value >= 0))
      continue;
    columns.n.push_back(point.n);
    columns.value.push_back(value);
    columns.low.push_back(timed ? point.low : value);
    columns.high.push_back(timed ? point.high : value);
  }
  return columns;
}

}  // namespace

bool CurvePoint::has_time() const {
  return std::isfinite(seconds) && std::isfinite(high) && low > 0 &&
         low <= seconds && seconds <= high;
}

const CurvePoint* RecipeCurve::At(double n) const {
  for (const CurvePoint& point : points)
    if (point.n == n) return &point;
  return nullptr;
}

std::vector<RecipeCurve> CurvesOf(const Recipe& recipe, const Json& series,
                                  const std::vector<RecipePoint>& points,
                                  const Match& where) {
  const std::string label = series.at("label");
  const std::string by = series.value("by", "");
  const auto before = [](const std::string& a, const std::string& b) {
    return Before(a, b);
  };
  std::map<std::string, std::vector<const RecipePoint*>, decltype(before)>
      groups(before);
  for (const RecipePoint* point : PointsOf(recipe, series, points)) {
    if (!Fits(point->settings, where)) continue;
    const auto value = point->settings.find(by);
    groups[value == point->settings.end() ? "" : value->second].push_back(
        point);
  }
  std::vector<RecipeCurve> curves;
  for (const auto& [value, own] : groups) {
    std::string name = label;
    const std::string hole = "{" + by + "}";
    if (const size_t at = name.find(hole);
        !by.empty() && at != std::string::npos)
      name.replace(at, hole.size(), value);
    curves.push_back(MakeCurve(recipe, series, name, own));
  }
  return curves;
}

std::vector<RecipeCurve> CurvesOfPanel(const Recipe& recipe, const Json& panel,
                                       const std::vector<RecipePoint>& points) {
  const Match where =
      MatchOf(panel.value("where", Json::object()), "recipe " + recipe.name());
  std::vector<RecipeCurve> curves;
  for (const Json& series : recipe.content().at("series"))
    for (RecipeCurve& curve : CurvesOf(recipe, series, points, where))
      curves.push_back(std::move(curve));
  return curves;
}

std::optional<ExponentFit> FitOf(const RecipeCurve& curve,
                                 CurveValue quantity) {
  if (curve.mixed && quantity == CurveValue::kSeconds) return std::nullopt;
  const Columns columns = ColumnsOf(curve.points, quantity);
  if (columns.n.empty()) return std::nullopt;
  auto fit = FitExponent(columns.n, columns.value, columns.low, columns.high,
                         UpperRange(columns.n));
  // The exponent of a constant is exactly 0.
  if (fit)
    for (double* exponent :
         {&fit->exponent, &fit->interval.low, &fit->interval.high})
      if (std::abs(*exponent) < 1e-9) *exponent = 0;
  return fit;
}

Crossover CrossoverOf(const RecipeCurve& fast, const RecipeCurve& slow,
                      CurveValue quantity) {
  if (quantity == CurveValue::kSeconds && (fast.mixed || slow.mixed)) return {};
  const Columns a = ColumnsOf(fast.all_points, quantity),
                b = ColumnsOf(slow.all_points, quantity);
  return FindCrossover(a.curve(), b.curve());
}

double HeightAt(const RecipeCurve& curve, CurveValue quantity, double n) {
  const Columns columns = ColumnsOf(curve.all_points, quantity);
  for (size_t i = 1; i < columns.n.size(); ++i) {
    if (!(columns.n[i - 1] <= n && n <= columns.n[i])) continue;
    const double share = std::log(n / columns.n[i - 1]) /
                         std::log(columns.n[i] / columns.n[i - 1]);
    return columns.value[i - 1] *
           std::pow(columns.value[i] / columns.value[i - 1], share);
  }
  return kNaN;
}

Quotient RatioOf(const CurvePoint& slow, const CurvePoint& fast,
                 CurveValue quantity) {
  if (quantity == CurveValue::kSeconds) {
    if (!slow.has_time() || !fast.has_time()) return {kNaN, {kNaN, kNaN}};
    Quotient times{slow.seconds / fast.seconds,
                   {slow.low / fast.high, slow.high / fast.low}};
    for (const int64_t range_of : {slow.range_of, fast.range_of})
      if (range_of > 0 && (times.range_of == 0 || range_of < times.range_of))
        times.range_of = range_of;
    return times;
  }
  const double ratio = quantity == CurveValue::kWorkspace
                           ? slow.workspace / fast.workspace
                           : slow.flops / fast.flops;
  return {ratio, {ratio, ratio}};
}

}  // namespace subquad
