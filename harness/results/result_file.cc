#include "harness/results/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "harness/base/output_file.h"
#include "harness/cases/input_source.h"
#include "harness/machine/build_info.h"
#include "harness/registry/registry.h"
#include "harness/results/file_fits.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

Json NumberOrNull(double value) {
  return std::isfinite(value) ? Json(value) : Json(nullptr);
}

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

std::runtime_error SystemError(const std::string& what, const fs::path& path) {
  return std::runtime_error(
      fmt::format("{} {}: {}", what, path.string(), std::strerror(errno)));
}

bool IsLength(const Problem& problem, const std::string& name) {
  return std::ranges::count(problem.length_axes, name) > 0;
}

// Returns the parameters of a record that a user would set, without tables.
Json ParamsJson(const Case& test_case, const Problem& problem) {
  Json params = Json::object();
  for (const auto& [name, value] : test_case.params.values()) {
    if (IsLength(problem, name)) continue;
    if (const bool* flag = std::get_if<bool>(&value))
      params[name] = *flag;
    else if (const int64_t* integer = std::get_if<int64_t>(&value))
      params[name] = *integer;
    else if (const double* number = std::get_if<double>(&value))
      params[name] = *number;
    else if (const std::string* text = std::get_if<std::string>(&value))
      params[name] = *text;
    else if (const auto* list = std::get_if<IntegerList>(&value))
      params[name] = *list;
  }
  if (test_case.backward) params["backward"] = true;
  if (!test_case.with.empty()) params["with"] = test_case.with;
  if (test_case.leading.per_head) params["per_head"] = true;
  if (!test_case.leading.own.empty())
    params["leading"] = LeadingText(test_case.leading.own);
  if (test_case.omega != "gaussian") params["omega"] = test_case.omega;
  return params;
}

Json SizeJson(const Case& test_case, const Problem& problem) {
  Json size = {{"n_q", problem.queries}, {"n_k", problem.keys}};
  for (const auto& [name, value] : problem.dims)
    if (!test_case.params.Has(name) || IsLength(problem, name))
      size[name] = value;
  size["heads"] = problem.heads / problem.Batch();
  if (problem.leading.size() == 2) size["batch"] = problem.Batch();
  return size;
}

Json InputsJson(const Case& test_case, const Problem& problem) {
  const SourceFit fit = FitSource(*test_case.source, problem);
  return {{"source", test_case.input},
          {"rows", fit.rows},
          {"fitted", fit.fitted},
          {"offsets", TextOrNull(fit.offsets)},
          {"taken", fit.taken},
          {"generated", fit.generated},
          {"digest", test_case.source->digest}};
}

}  // namespace

std::string RecordKey(const std::string& case_id,
                      const std::string& implementation,
                      std::string_view backend, int threads) {
  return fmt::format("{}|{}|{}|{}", case_id, implementation, backend, threads);
}

std::string RecordKey(const Json& record) {
  return RecordKey(record.at("case").get<std::string>(),
                   record.at("implementation").get<std::string>(),
                   record.at("backend").get<std::string>(),
                   record.at("threads").get<int>());
}

Json CheckJson(const Verdict& verdict) {
  const Comparison& numbers = verdict.comparison;
  const bool compared = numbers.elements > 0;
  Json check = {{"verdict", std::string(ToString(verdict.outcome))},
                {"reason", TextOrNull(verdict.reason)},
                {"error", nullptr},
                {"max_error", nullptr},
                {"bound", nullptr},
                {"error_ratio", nullptr},
                {"rows", nullptr},
                {"gates", TextOrNull(verdict.gates)},
                {"margin", nullptr},
                {"nearest", nullptr},
                {"blind_to", Json::array()},
                {"wrong_share", nullptr},
                {"looks_like", nullptr}};
  if (!compared) return check;
  for (const BlindSpot& spot : verdict.margin.blind_to)
    check["blind_to"].push_back(spot.name);
  if (verdict.diagnosis) {
    check["wrong_share"] = verdict.diagnosis->Share();
    check["looks_like"] = TextOrNull(verdict.diagnosis->looks_like.name);
  }
  check["max_error"] = NumberOrNull(numbers.max_error);
  if (numbers.judged() > 0) {
    check["error"] = NumberOrNull(numbers.max_over_bound);
    check["bound"] = NumberOrNull(numbers.bound);
    check["error_ratio"] = NumberOrNull(numbers.over_plain);
    check["margin"] = NumberOrNull(verdict.margin.value);
    check["nearest"] = TextOrNull(verdict.margin.nearest);
  }
  check["rows"] = numbers.all_rows ? Json("all") : Json(numbers.rows);
  return check;
}

Json MakeRecord(const Case& test_case, const Problem& problem,
                const Implementation& implementation, int threads,
                const Verdict& verdict) {
  const Cost cost = implementation.CostOf(problem, threads);
  Json record = {
      {"operator", implementation.op},
      {"implementation", implementation.id},
      {"backend", std::string(ToString(implementation.backend))},
      {"scalar", std::string(Info(test_case.scalar).name)},
      {"threads", threads},
      {"program", kProgram},
      {"size", SizeJson(test_case, problem)},
      {"tokens", problem.queries},
      {"length_axes", problem.length_axes},
      {"params", ParamsJson(test_case, problem)},
      {"case", test_case.Id()},
      {"input", test_case.input},
      {"setup_seconds", nullptr},
      {"first_seconds", nullptr},
      {"seconds", nullptr},
      {"workspace_bytes", nullptr},
      {"workspace_formula_bytes", NumberOrNull(cost.workspace_bytes)},
      {"resident_bytes", nullptr},
      {"flops", NumberOrNull(cost.flops)},
      {"bytes", NumberOrNull(cost.bytes)},
      {"check", CheckJson(verdict)}};
  if (test_case.source) record["inputs"] = InputsJson(test_case, problem);
  return record;
}

Json DescribeAlgorithms(const std::vector<Json>& records) {
  std::set<std::string> used;
  for (const Json& record : records)
    used.insert(record.at("operator").get<std::string>() + "/" +
                record.at("implementation").get<std::string>() + "/" +
                record.at("backend").get<std::string>());
  Json list = Json::array();
  for (const Implementation& implementation : Implementations()) {
    const std::string backend(ToString(implementation.backend));
    if (!used.contains(implementation.op + "/" + implementation.id + "/" +
                       backend))
      continue;
    list.push_back({{"operator", implementation.op},
                    {"implementation", implementation.id},
                    {"backend", backend},
                    {"time", implementation.time.text},
                    {"memory", implementation.memory.text},
                    {"time_class", TextOrNull(implementation.time.order)},
                    {"memory_class", TextOrNull(implementation.memory.order)},
                    {"source", TextOrNull(implementation.source)}});
  }
  return list;
}

void SortRecords(std::vector<Json>& records) {
  std::map<std::string, size_t> position;
  for (const Implementation& implementation : Implementations())
    position.try_emplace(implementation.op + "/" + implementation.id + "/" +
                             std::string(ToString(implementation.backend)),
                         position.size());
  std::map<std::string, size_t> operators;
  for (const Operator* op : Operators())
    operators.try_emplace(std::string(op->description().id), operators.size());
  struct Entry {
    std::tuple<size_t, std::string, std::string, int64_t, std::string, int,
               size_t>
        order;
    Json record;
  };
  std::vector<Entry> entries;
  for (Json& record : records) {
    const std::string op = record.at("operator");
    const std::string name = op + "/" +
                             record.at("implementation").get<std::string>() +
                             "/" + record.at("backend").get<std::string>();
    entries.push_back(
        {{operators[op], record.at("scalar"), record.at("params").dump(),
          record.at("size").at("n_k").get<int64_t>(), record.at("case"),
          record.at("threads").get<int>(), position[name]},
         std::move(record)});
  }
  std::ranges::stable_sort(entries, {}, &Entry::order);
  for (size_t i = 0; i < entries.size(); ++i)
    records[i] = std::move(entries[i].record);
}

Json MakeResultFile(const Json& header, const std::vector<Json>& records) {
  Json file = {{"format", "results/1"},
               {"command", header.at("command")},
               {"created", header.at("created")},
               {"seed", header.at("seed")},
               {"environment", header.at("environment")},
               {"algorithms", DescribeAlgorithms(records)},
               {"records", records}};
  file["fits"] = ComputeFits(records);
  file["crossovers"] = ComputeCrossovers(records);
  if (Json ratios = ComputeInputRatios(records); !ratios.empty())
    file["input_ratios"] = std::move(ratios);
  return file;
}

namespace {

void CheckRecord(const Json& record, const std::string& where) {
  const auto wrong = [&](const char* field, const char* expected) {
    return InvalidInput(where, fmt::format("{} {}", field, expected),
                        "none, or another type");
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
  if (!record.value("tokens", Json()).is_number())
    throw wrong("tokens", "as a number");
  const Json axes = record.value("length_axes", Json());
  const auto is_size = [&](const Json& axis) {
    return axis.is_string() &&
           record["size"].value(axis.get<std::string>(), Json()).is_number();
  };
  if (!axes.is_array() || axes.empty() || !std::ranges::all_of(axes, is_size))
    throw wrong("length_axes", "as names of sizes");
  if (!record.contains("threads") || !record["threads"].is_number_integer())
    throw wrong("threads", "as a number");
  if (!record["check"].contains("verdict") ||
      !record["check"]["verdict"].is_string())
    throw wrong("check.verdict", "as text");
}

}  // namespace

void CheckResults(const Json& file, const std::string& name) {
  if (!file.is_object() || !file.contains("records") ||
      !file["records"].is_array() || !file.contains("environment") ||
      !file["environment"].is_object())
    throw InvalidInput(name, "records and an environment", "something else");
  for (size_t i = 0; i < file["records"].size(); ++i)
    CheckRecord(file["records"][i], fmt::format("{}: record {}", name, i));
}

bool IsMixed(const Json& file) {
  const Json environment = file.at("environment");
  for (const Json& source : file.value("sources", Json::array()))
    if (source.is_object() && source.contains("environment") &&
        source["environment"].is_object() &&
        source["environment"].value("cpu", Json()) !=
            environment.value("cpu", Json()))
      return true;
  return false;
}

Json ReadResultFile(const fs::path& path) {
  std::ifstream stream(path);
  std::error_code error;
  if (fs::is_directory(path, error))
    throw InvalidInput(path.string(), "a result file", "a folder");
  if (!stream)
    throw InvalidInput(path.string(), "a readable file",
                       fs::exists(path, error) ? "a file that cannot be read"
                                               : "none of this name");
  Json file = Json::parse(stream, nullptr, false);
  const std::string expected = "a result file (format \"results/1\")";
  if (!file.is_object() || !file.contains("format") ||
      file["format"] != "results/1")
    throw InvalidInput(path.string(), expected, FormatWords(file));
  for (const char* field : {"records", "environment"})
    if (!file.contains(field))
      throw InvalidInput(path.string(), expected,
                         fmt::format("one without a field \"{}\"", field));
  if (!file["records"].is_array())
    throw InvalidInput(path.string(), expected,
                       "one whose field \"records\" is not a list");
  return file;
}

std::string FormatWords(const Json& file) {
  if (file.is_discarded()) return "a file that is not JSON";
  if (!file.is_object()) return "JSON that is not an object";
  if (!file.contains("format")) return "JSON without a field \"format\"";
  return "format " + file["format"].dump();
}

Journal::Journal(const fs::path& path, const Json& header) : path_(path) {
  std::error_code error;
  const bool exists = fs::exists(path, error);
  if (exists) {
    // Cuts off an incomplete line, so that the next record begins a new one.
    std::ifstream stream(path, std::ios::binary);
    std::stringstream text;
    text << stream.rdbuf();
    const size_t end = text.str().rfind('\n');
    fs::resize_file(path, end == std::string::npos ? 0 : end + 1);
  }
  file_ = ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND, 0644);
  if (file_ < 0) throw SystemError("cannot write", path);
  if (!exists || fs::file_size(path, error) == 0) WriteLine(header.dump());
}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

void Journal::Append(const Json& record) { WriteLine(record.dump()); }

void Journal::WriteLine(const std::string& line) {
  WriteToDisk(file_, line + "\n", path_);
}

fs::path Journal::PathFor(const fs::path& out) {
  return out.string() + ".journal";
}

Json Journal::ReadHeader(const fs::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  Json header = Json::parse(line, nullptr, false);
  return header.is_object() ? header : Json::object();
}

std::vector<Json> Journal::Read(const fs::path& path) {
  std::ifstream stream(path);
  std::vector<Json> lines;
  for (std::string line; std::getline(stream, line);) {
    if (stream.eof()) break;  // without a newline, the record is incomplete
    Json record = Json::parse(line, nullptr, false);
    if (record.is_object() && record.contains("case"))
      lines.push_back(std::move(record));
  }
  return lines;
}

}  // namespace subquad
