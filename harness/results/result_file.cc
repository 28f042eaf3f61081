#include "harness/results/result_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <tuple>

#include "harness/base/output_file.h"
#include "harness/registry/registry.h"
#include "harness/results/file_fits.h"

namespace subquad {
namespace {

namespace fs = std::filesystem;

Json TextOrNull(const std::string& text) {
  return text.empty() ? Json(nullptr) : Json(text);
}

std::runtime_error SystemError(const std::string& what, const fs::path& path) {
  return std::runtime_error(
      fmt::format("{} {}: {}", what, path.string(), std::strerror(errno)));
}

}  // namespace

template <FieldsOf<RunInfo> T, typename Fields>
void VisitFields(T& run, Fields&& fields) {
  fields("command", run.command, Empty::kValue);
  fields("created", run.created, Empty::kValue);
  fields("seed", run.seed, Empty::kValue);
  fields("environment", run.environment, Empty::kValue);
}

Json RunInfo::ToJson() const { return WriteJson(*this); }

RunInfo RunInfo::Of(const Json& file, const std::string& name) {
  RunInfo run;
  FieldReader fields(file, name);  // the file has other fields too
  VisitFields(run, fields);
  return run;
}

namespace {

// An implementation of the registry.
using ImplementationKey = std::tuple<std::string, std::string, Backend>;

ImplementationKey KeyOf(const Record& record) {
  return {record.op, record.implementation, record.backend};
}

ImplementationKey KeyOf(const Implementation& implementation) {
  return {implementation.op, implementation.id, implementation.backend};
}

}  // namespace

Json DescribeAlgorithms(const std::vector<Record>& records) {
  std::set<ImplementationKey> used;
  for (const Record& record : records) used.insert(KeyOf(record));
  Json list = Json::array();
  for (const Implementation& implementation : Implementations()) {
    if (!used.contains(KeyOf(implementation))) continue;
    list.push_back({{"operator", implementation.op},
                    {"implementation", implementation.id},
                    {"backend", std::string(ToString(implementation.backend))},
                    {"time", implementation.time.text},
                    {"memory", implementation.memory.text},
                    {"time_class", TextOrNull(implementation.time.order)},
                    {"memory_class", TextOrNull(implementation.memory.order)},
                    {"source", TextOrNull(implementation.source)}});
  }
  return list;
}

void SortRecords(std::vector<Record>& records) {
  std::map<ImplementationKey, size_t> position;
  for (const Implementation& implementation : Implementations())
    position.try_emplace(KeyOf(implementation), position.size());
  std::map<std::string, size_t> operators;
  for (const Operator* op : Operators())
    operators.try_emplace(std::string(op->description().id), operators.size());
  struct Entry {
    std::tuple<size_t, std::string_view, std::string, int64_t, std::string, int,
               size_t>
        order;
    Record record;
  };
  std::vector<Entry> entries;
  for (Record& record : records)
    entries.push_back(
        {{operators[record.op], Info(record.scalar).name, record.ParamsText(),
          record.Extent("n_k"), record.case_id, record.threads,
          position[KeyOf(record)]},
         std::move(record)});
  std::ranges::stable_sort(entries, {}, &Entry::order);
  for (size_t i = 0; i < entries.size(); ++i)
    records[i] = std::move(entries[i].record);
}

Json MakeResultFile(const RunInfo& run, const std::vector<Record>& records) {
  const std::vector<Json> list = ToJson(records);
  Json file = {{"format", "results/1"}};
  file.update(run.ToJson());
  file["algorithms"] = DescribeAlgorithms(records);
  file["records"] = list;
  file["fits"] = ComputeFits(list);
  file["crossovers"] = ComputeCrossovers(list);
  if (Json ratios = ComputeInputRatios(list); !ratios.empty())
    file["input_ratios"] = std::move(ratios);
  return file;
}

std::vector<Record> RecordsOf(const Json& file, const std::string& name) {
  if (!file.is_object() || !file.contains("records") ||
      !file["records"].is_array() || !file.contains("environment") ||
      !file["environment"].is_object())
    throw InvalidInput(name,
                       "an object with a list \"records\" and an object "
                       "\"environment\"",
                       !file.is_object()
                           ? "JSON of type " + std::string(file.type_name())
                           : "an object without them");
  std::vector<Record> records;
  for (const Json& record : file["records"])
    records.push_back(
        RecordOf(record, fmt::format("{}: record {}", name, records.size())));
  return records;
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

Journal::Journal(const fs::path& path, const RunInfo& run) : path_(path) {
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
  if (!exists || fs::file_size(path, error) == 0) {
    Json header = {{"format", "journal/1"}};
    header.update(run.ToJson());
    WriteLine(header.dump());
  }
}

Journal::~Journal() {
  if (file_ >= 0) ::close(file_);
}

void Journal::Append(const Record& record) { WriteLine(ToJson(record).dump()); }

void Journal::WriteLine(const std::string& line) {
  WriteToDisk(file_, line + "\n", path_);
}

fs::path Journal::PathFor(const fs::path& out) {
  return out.string() + ".journal";
}

Json Journal::ReadRun(const fs::path& path) {
  std::ifstream stream(path);
  std::string line;
  std::getline(stream, line);
  Json run = Json::parse(line, nullptr, false);
  return run.is_object() ? run : Json::object();
}

std::vector<Json> Journal::Read(const fs::path& path) {
  std::ifstream stream(path);
  std::vector<Json> records;
  for (std::string line; std::getline(stream, line);) {
    if (stream.eof()) break;  // without a newline, the record is incomplete
    Json record = Json::parse(line, nullptr, false);
    if (record.is_object() && record.contains("case"))
      records.push_back(std::move(record));
  }
  return records;
}

}  // namespace subquad
