#include "harness/papers/claims/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <fstream>
#include <limits>
#include <map>

#include "harness/results/lengths.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

double NumberOr(const Json& record, const char* name) {
  const auto found = record.find(name);
  return found != record.end() && found->is_number() ? found->get<double>()
                                                     : kNaN;
}

// Everything that rules read without asking again.
void CheckRecord(const Json& record, const std::string& where) {
  const auto wrong = [&](const char* field, const char* expected) {
    return InvalidInput(where, fmt::format("{} {}", field, expected),
                        "none or another type");
  };
  if (!record.is_object())
    throw InvalidInput(where, "an object", std::string(record.type_name()));
  for (const char* name :
       {"operator", "implementation", "backend", "scalar", "case"})
    if (!record.contains(name) || !record[name].is_string())
      throw wrong(name, "as text");
  for (const char* name : {"size", "params", "check"})
    if (!record.contains(name) || !record[name].is_object())
      throw wrong(name, "as an object");
  for (const char* name : {"n_q", "n_k"})
    if (!record["size"].contains(name) || !record["size"][name].is_number())
      throw wrong(name, "as a number");
  if (record.contains("tokens") && !record["tokens"].is_number())
    throw wrong("tokens", "as a number");
  if (record.contains("length_axes")) {
    const Json& axes = record["length_axes"];
    const auto is_size = [&](const Json& axis) {
      return axis.is_string() && record["size"].value(axis, Json()).is_number();
    };
    if (!axes.is_array() || axes.empty() || !std::ranges::all_of(axes, is_size))
      throw wrong("length_axes", "as names of sizes");
  }
  if (!record.contains("threads") || !record["threads"].is_number_integer())
    throw wrong("threads", "as a number");
  if (!record["check"].contains("verdict") ||
      !record["check"]["verdict"].is_string())
    throw wrong("check.verdict", "as text");
}

void CheckStudy(const Json& file, const std::string& name) {
  for (const char* field : {"study", "created"})
    if (!file.contains(field) || !file[field].is_string())
      throw InvalidInput(name, fmt::format("{} as text", field),
                         "none or another");
  for (const char* field : {"tables", "parameters"})
    if (!file.contains(field) || !file[field].is_object())
      throw InvalidInput(name, fmt::format("{} as an object", field),
                         "none or another");
  for (const auto& [table, content] : file["tables"].items()) {
    const std::string where = name + ": table " + table;
    if (!content.is_object() || !content.contains("columns") ||
        !content["columns"].is_array() || !content.contains("rows") ||
        !content["rows"].is_array())
      throw InvalidInput(where, "columns and rows", "something else");
    for (const Json& column : content["columns"])
      if (!column.is_object() || !column.contains("name") ||
          !column["name"].is_string())
        throw InvalidInput(where, "columns with names", "something else");
    for (const Json& row : content["rows"])
      if (!row.is_array() || row.size() != content["columns"].size())
        throw InvalidInput(where, "a cell for each column", "another number");
  }
}

Json TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? *found : Json(nullptr);
}

// Adds a file and says whether it was one of ours.
bool AddFile(const fs::path& path, Evidence& evidence) {
  std::ifstream stream(path);
  const Json file = stream ? Json::parse(stream, nullptr, false) : Json();
  if (!stream || file.is_discarded())
    throw InvalidInput(path.string(), "JSON that can be read",
                       stream ? "something else" : "no readable file");
  const std::string format =
      file.is_object() && file.contains("format") && file["format"].is_string()
          ? file["format"].get<std::string>()
          : "";
  const std::string name = path.filename().string();
  if (format == "results/1") {
    AddResults(file, path.string(), evidence);
    evidence.files.push_back({{"file", name},
                              {"format", format},
                              {"created", TextOf(file, "created")},
                              {"records", file["records"].size()}});
    return true;
  }
  if (format == "study/1") {
    CheckStudy(file, path.string());
    evidence.studies.push_back({name, file});
    evidence.files.push_back({{"file", name},
                              {"format", format},
                              {"created", file["created"]},
                              {"study", file["study"]}});
    return true;
  }
  return false;
}

bool Contains(const Json& object, const Json& part) {
  for (const auto& [name, value] : part.items())
    if (!object.contains(name) || object.at(name) != value) return false;
  return true;
}

bool IsWanted(const Json& record, const Wanted& wanted) {
  if (record.at("operator") != wanted.op ||
      record.at("implementation") != wanted.implementation ||
      record.at("backend") != "cpu" || record.at("scalar") != "float32" ||
      record.at("threads") != 1 || record.value("input", "normal") != "normal")
    return false;
  const Json& params = record.at("params");
  for (const char* flag : {"causal", "backward", "per_head"})
    if (!wanted.params.contains(flag) && params.contains(flag) &&
        params.at(flag) != false)
      return false;
  if (!wanted.params.contains("with") && params.contains("with")) return false;
  for (const auto& [name, value] : wanted.params.items()) {
    const bool off = value == false && !params.contains(name);
    if (!off && (!params.contains(name) || params.at(name) != value))
      return false;
  }
  return Contains(record.at("size"), wanted.size);
}

MeasuredPoint PointOf(const Json& record) {
  MeasuredPoint point = {LengthOf(record),
                         kNaN,
                         kNaN,
                         kNaN,
                         NumberOr(record, "workspace_bytes"),
                         NumberOr(record, "workspace_formula_bytes"),
                         NumberOr(record, "flops"),
                         NumberOr(record, "bytes"),
                         record.at("size")};
  const auto seconds = record.find("seconds");
  if (seconds != record.end() && seconds->is_object()) {
    point.seconds = NumberOr(*seconds, "median");
    point.low = NumberOr(*seconds, "low");
    point.high = NumberOr(*seconds, "high");
  }
  return point;
}

template <typename Value>
Growth GrowthOf(const Measured& measured, const char* what, bool timed,
                Value value) {
  Growth growth;
  std::vector<double> n, values, low, high;
  for (const MeasuredPoint& point : measured.points) {
    const double one = value(point);
    if (!std::isfinite(one) || one <= 0) continue;
    if (timed && !point.has_time()) continue;
    n.push_back(point.n);
    values.push_back(one);
    if (timed) {
      low.push_back(point.low);
      high.push_back(point.high);
    }
  }
  if (timed && measured.mixed) {
    growth.why_not = "its times are of several processors";
    return growth;
  }
  const double from = n.empty() ? 0 : UpperRange(n);
  const auto used =
      std::ranges::count_if(n, [&](double x) { return x >= from; });
  if (used < 4 || n.back() < 8 * *std::ranges::lower_bound(n, from)) {
    growth.why_not = fmt::format(
        "no exponent of {}: {} sizes that passed{}, and four over a factor of "
        "eight are needed",
        what, n.size(),
        measured.refused > 0 ? fmt::format(" ({})", measured.reason) : "");
    return growth;
  }
  const auto fit = FitExponent(n, values, low, high, from);
  if (!fit || !std::isfinite(fit->exponent) ||
      !std::isfinite(fit->interval.low) || !std::isfinite(fit->interval.high)) {
    growth.why_not = fmt::format("no exponent of {}", what);
    return growth;
  }
  return {true, fit->exponent, fit->interval, fit->n_min, fit->n_max, ""};
}

struct Columns {
  std::vector<double> n, value, low, high;
  Curve curve() const { return {n, value, low, high}; }
};

Columns Times(const Measured& measured) {
  Columns columns;
  for (const MeasuredPoint& point : measured.points) {
    if (!point.has_time()) continue;
    columns.n.push_back(point.n);
    columns.value.push_back(point.seconds);
    columns.low.push_back(point.low);
    columns.high.push_back(point.high);
  }
  return columns;
}

}  // namespace

bool MeasuredPoint::has_time() const {
  return std::isfinite(seconds) && std::isfinite(high) && low > 0 &&
         low <= seconds && seconds <= high;
}

const MeasuredPoint* Measured::At(double n) const {
  for (const MeasuredPoint& point : points)
    if (point.n == n) return &point;
  return nullptr;
}

void AddResults(const Json& file, const std::string& name, Evidence& evidence) {
  if (!file.is_object() || !file.contains("records") ||
      !file["records"].is_array() || !file.contains("environment") ||
      !file["environment"].is_object())
    throw InvalidInput(name, "records and an environment", "something else");
  for (size_t i = 0; i < file["records"].size(); ++i)
    CheckRecord(file["records"][i], fmt::format("{}: record {}", name, i));
  const Json& environment = file["environment"];
  const auto same = [&](const Machine& machine) {
    for (const char* field :
         {"cpu", "cores", "compiler", "flags", "commit", "dirty"})
      if (machine.environment.value(field, Json()) !=
          environment.value(field, Json()))
        return false;
    return true;
  };
  bool mixed = false;
  if (file.contains("sources") && file["sources"].is_array())
    for (const Json& source : file["sources"])
      if (source.is_object() && source.contains("environment") &&
          source["environment"].is_object() &&
          source["environment"].value("cpu", Json()) !=
              environment.value("cpu", Json()))
        mixed = true;
  auto found = std::ranges::find_if(evidence.machines, same);
  if (found == evidence.machines.end()) {
    const Json cpu = TextOf(environment, "cpu");
    const Json commit = TextOf(environment, "commit");
    evidence.machines.push_back(
        {(cpu.is_string() ? cpu.get<std::string>() : "a processor") +
             (commit.is_string()
                  ? " at " + commit.get<std::string>().substr(0, 9)
                  : ""),
         environment,
         false,
         {}});
    found = evidence.machines.end() - 1;
  }
  found->mixed = found->mixed || mixed;
  for (const Json& record : file["records"]) found->records.push_back(record);
}

Evidence ReadEvidence(const std::vector<std::string>& paths) {
  Evidence evidence;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      if (!AddFile(path, evidence))
        throw InvalidInput(path, "a result file or a study file",
                           "something else");
      continue;
    }
    std::vector<fs::path> below;
    for (const auto& entry : fs::recursive_directory_iterator(
             path, fs::directory_options::skip_permission_denied, error))
      if (entry.is_regular_file(error) && entry.path().extension() == ".json")
        below.push_back(entry.path());
    std::ranges::sort(below);
    int64_t ours = 0;
    for (const fs::path& file : below) ours += AddFile(file, evidence);
    if (ours == 0)
      throw InvalidInput(path, "a folder with result or study files",
                         "none in it");
  }
  return evidence;
}

Measured Find(const Machine& machine, const Wanted& wanted) {
  std::vector<Measured> groups;
  std::map<std::string, size_t> index;
  for (const Json& record : machine.records) {
    if (!IsWanted(record, wanted)) continue;
    const Json settings = CurveSettings(record);
    const auto [found, added] =
        index.try_emplace(settings.dump(), groups.size());
    if (added) groups.push_back({settings, {}, 0, "", machine.mixed});
    Measured& group = groups[found->second];
    const Json& check = record.at("check");
    if (check.at("verdict") != "passed") {
      ++group.refused;
      if (group.reason.empty())
        group.reason =
            fmt::format("n = {} {}: {}", LengthOf(record),
                        check.at("verdict").get<std::string>(),
                        check.contains("reason") && check["reason"].is_string()
                            ? check["reason"].get<std::string>()
                            : "no reason given");
      continue;
    }
    MeasuredPoint point = PointOf(record);
    if (!group.At(point.n)) group.points.push_back(std::move(point));
  }
  for (Measured& group : groups)
    std::ranges::sort(group.points, {}, &MeasuredPoint::n);
  const auto most = std::ranges::max_element(
      groups, {}, [](const Measured& group) { return group.points.size(); });
  return most == groups.end() ? Measured{} : *most;
}

Growth TimeGrowth(const Measured& measured) {
  return GrowthOf(measured, "time", true,
                  [](const MeasuredPoint& point) { return point.seconds; });
}

Growth WorkspaceGrowth(const Measured& measured) {
  return GrowthOf(measured, "workspace", false,
                  [](const MeasuredPoint& point) { return point.workspace; });
}

Growth FlopGrowth(const Measured& measured) {
  return GrowthOf(measured, "operations", false,
                  [](const MeasuredPoint& point) { return point.flops; });
}

Quotient TimeRatio(const MeasuredPoint& slow, const MeasuredPoint& fast) {
  if (!slow.has_time() || !fast.has_time()) return {kNaN, {kNaN, kNaN}};
  return {slow.seconds / fast.seconds,
          {slow.low / fast.high, slow.high / fast.low}};
}

Crossover TimeCrossover(const Measured& fast, const Measured& dense) {
  if (fast.mixed || dense.mixed) return {};
  const Columns a = Times(fast), b = Times(dense);
  return FindCrossover(a.curve(), b.curve());
}

}  // namespace subquad
