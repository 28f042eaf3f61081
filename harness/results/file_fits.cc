#include "harness/results/file_fits.h"

#include <algorithm>
#include <map>
#include <optional>

#include "harness/base/statistics.h"
#include "harness/registry/registry.h"
#include "harness/results/lengths.h"

namespace subquad {
namespace {

using Json = nlohmann::ordered_json;

struct Point {
  double n, value, low, high;
};

// One curve: an implementation under fixed settings.
struct Series {
  Json settings;  // CurveSettings
  std::string op, implementation, backend, scalar, input;
  std::vector<Point> seconds, workspace;
};

std::vector<Series> Group(const std::vector<Json>& records) {
  std::vector<Series> all;
  std::map<std::string, size_t> index;
  for (const Json& record : records) {
    const Json settings = CurveSettings(record);
    const std::string op = record.at("operator");
    const std::string implementation = record.at("implementation");
    const std::string backend = record.at("backend");
    const std::string scalar = record.at("scalar");
    const std::string input = record.value("input", "");
    const std::string key = op + "|" + implementation + "|" + backend + "|" +
                            scalar + "|" + settings.dump() + "|" + input;
    const auto [position, added] = index.try_emplace(key, all.size());
    if (added)
      all.push_back(
          {settings, op, implementation, backend, scalar, input, {}, {}});
    Series& series = all[position->second];
    const double n = LengthOf(record);
    if (const Json& seconds = record.at("seconds"); !seconds.is_null())
      series.seconds.push_back(
          {n, seconds.at("median"), seconds.at("low"), seconds.at("high")});
    if (const Json& bytes = record.at("workspace_bytes"); !bytes.is_null()) {
      const double value = bytes.get<double>();
      series.workspace.push_back({n, value, value, value});
    }
  }
  for (Series& series : all) {
    std::ranges::sort(series.seconds, {}, &Point::n);
    std::ranges::sort(series.workspace, {}, &Point::n);
  }
  return all;
}

struct Columns {
  explicit Columns(const std::vector<Point>& points) {
    for (const Point& point : points) {
      n.push_back(point.n);
      value.push_back(point.value);
      low.push_back(point.low);
      high.push_back(point.high);
    }
  }
  Curve curve() const { return {n, value, low, high}; }
  bool distinct() const { return std::ranges::adjacent_find(n) == n.end(); }
  std::vector<double> n, value, low, high;
};

bool IsQuadratic(const Series& series) {
  for (const Implementation& implementation : Implementations())
    if (implementation.op == series.op &&
        implementation.id == series.implementation &&
        ToString(implementation.backend) == series.backend)
      return implementation.time.order == "n^2";
  return false;
}

// Adds the settings that distinguish a curve from others of its implementation.
void AddSettings(const Series& series, Json& entry) {
  entry.update(series.settings);
  if (!series.input.empty()) entry["input"] = series.input;
}

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

// Returns everything that two records must share so that their inputs can be
// compared.
std::string AllButInput(const Json& record) {
  std::string key;
  for (const char* name : {"operator", "implementation", "backend", "scalar",
                           "threads", "size", "params"})
    key += record.at(name).dump() + "|";
  return key;
}

}  // namespace

Json ComputeInputRatios(const std::vector<Json>& records) {
  // Finds the record with input "normal" of each group; every other input is
  // compared with it.
  std::map<std::string, const Json*> normal;
  for (const Json& record : records)
    if (record.value("input", "") == "normal" &&
        !record.at("seconds").is_null())
      normal.emplace(AllButInput(record), &record);
  std::vector<std::pair<const Json*, const Json*>> pairs;
  for (const Json& record : records) {
    if (record.value("input", "normal") == "normal" ||
        record.at("seconds").is_null())
      continue;
    const auto position = normal.find(AllButInput(record));
    if (position != normal.end()) pairs.emplace_back(&record, position->second);
  }
  const double confidence =
      1 - 0.05 / static_cast<double>(std::max<size_t>(1, pairs.size()));
  const auto samples = [](const Json& record) {
    return record.at("seconds").at("samples").get<std::vector<double>>();
  };
  Json ratios = Json::array();
  for (const auto& [record, base] : pairs) {
    const Ratio ratio =
        RatioOfMedians(samples(*base), samples(*record), confidence);
    const Json with = record->value("timed_with", Json::array());
    Json entry = Json::object();
    for (const char* name :
         {"operator", "implementation", "backend", "scalar", "threads", "size",
          "tokens", "length_axes", "params", "input"})
      entry[name] = record->at(name);
    entry["against"] = base->at("input");
    entry["ratio"] = ratio.ratio;
    entry["low"] =
        ratio.interval_known ? Json(ratio.interval.low) : Json(nullptr);
    entry["high"] =
        ratio.interval_known ? Json(ratio.interval.high) : Json(nullptr);
    entry["in_turns"] = std::ranges::count(with, base->at("input")) > 0;
    ratios.push_back(std::move(entry));
  }
  return ratios;
}

Json ComputeFits(const std::vector<Json>& records) {
  Json fits = Json::array();
  for (const Series& series : Group(records)) {
    for (const bool time : {true, false}) {
      const Columns columns(time ? series.seconds : series.workspace);
      const auto fit =
          FitExponent(columns.n, columns.value, columns.low, columns.high,
                      columns.n.empty() ? 0 : UpperRange(columns.n));
      if (!fit) continue;
      Json entry = {{"operator", series.op},
                    {"implementation", series.implementation},
                    {"backend", series.backend},
                    {"scalar", series.scalar},
                    {"quantity", time ? "seconds" : "workspace_bytes"},
                    {"exponent", fit->exponent},
                    {"low", fit->interval.low},
                    {"high", fit->interval.high},
                    {"n_min", fit->n_min},
                    {"n_max", fit->n_max}};
      AddSettings(series, entry);
      fits.push_back(std::move(entry));
    }
  }
  return fits;
}

Json ComputeCrossovers(const std::vector<Json>& records) {
  Json crossovers = Json::array();
  const std::vector<Series> all = Group(records);
  for (const Series& dense : all) {
    if (!IsQuadratic(dense)) continue;
    for (const Series& fast : all) {
      if (fast.op != dense.op || fast.backend != dense.backend ||
          fast.scalar != dense.scalar || fast.settings != dense.settings ||
          fast.input != dense.input ||
          fast.implementation == dense.implementation || IsQuadratic(fast))
        continue;
      for (const bool time : {true, false}) {
        const Columns a(time ? fast.seconds : fast.workspace);
        const Columns b(time ? dense.seconds : dense.workspace);
        if (!a.distinct() || !b.distinct()) continue;
        const Crossover crossover = FindCrossover(a.curve(), b.curve());
        Json entry = {{"operator", fast.op},
                      {"fast", fast.implementation},
                      {"dense", dense.implementation},
                      {"backend", fast.backend},
                      {"scalar", fast.scalar},
                      {"quantity", time ? "seconds" : "workspace_bytes"},
                      {"n", OrNull(crossover.n)},
                      {"low", OrNull(crossover.low)},
                      {"high", OrNull(crossover.high)},
                      {"reason", crossover.reason}};
        AddSettings(fast, entry);
        crossovers.push_back(std::move(entry));
      }
    }
  }
  return crossovers;
}

}  // namespace subquad
