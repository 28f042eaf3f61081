#include "harness/papers/frame/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace subquad {
namespace {

namespace fs = std::filesystem;

void CheckStudy(const Json& file, const std::string& name) {
  const auto expect = [&](const char* field, bool valid, const char* kind) {
    if (!valid)
      throw InvalidInput(
          name, fmt::format("a field \"{}\" that is {}", field, kind),
          file.contains(field) ? file[field].type_name() : "none");
  };
  for (const char* field : {"study", "created"})
    expect(field, file.contains(field) && file[field].is_string(), "a string");
  for (const char* field : {"tables", "parameters"})
    expect(field, file.contains(field) && file[field].is_object(), "an object");
  for (const auto& [table, content] : file["tables"].items()) {
    const std::string where = name + ": table " + table;
    if (!content.is_object() || !content.contains("columns") ||
        !content["columns"].is_array() || !content.contains("rows") ||
        !content["rows"].is_array())
      throw InvalidInput(where, "lists \"columns\" and \"rows\"",
                         "a table without them");
    for (const Json& column : content["columns"])
      if (!column.is_object() || !column.contains("name") ||
          !column["name"].is_string())
        throw InvalidInput(where, "a name for each column",
                           "a column without one");
    for (const Json& row : content["rows"])
      if (!row.is_array() || row.size() != content["columns"].size())
        throw InvalidInput(where,
                           fmt::format("rows of {} cells, one for each column",
                                       content["columns"].size()),
                           row.is_array() ? fmt::format("{}", row.size())
                                          : std::string(row.type_name()));
  }
}

Json TextOf(const Json& object, const char* name) {
  const auto found = object.find(name);
  return found != object.end() && found->is_string() ? *found : Json(nullptr);
}

constexpr const char* kExpected = "a result file or a study file";

// Reads a file. Throws InvalidInput unless it is JSON.
Json ReadJson(const fs::path& path) {
  std::ifstream stream(path);
  if (!stream) {
    std::error_code error;
    throw InvalidInput(path.string(), kExpected,
                       fs::exists(path, error) ? "a file that cannot be read"
                                               : "no file of this name");
  }
  Json file = Json::parse(stream, nullptr, false);
  if (file.is_discarded())
    throw InvalidInput(path.string(), kExpected, FormatWords(file));
  return file;
}

// Adds a file. Returns false if it has another format.
bool AddFile(const fs::path& path, const Json& file, Evidence& evidence) {
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
  // Claims work out again, from the same records, what a summary says.
  return format == "summary/1";
}

}  // namespace

void AddResults(const Json& file, const std::string& name, Evidence& evidence) {
  RecordsOf(file, name);  // throws if one is invalid
  const Json& environment = file["environment"];
  const auto same = [&](const Machine& machine) {
    for (const char* field : {"cpu", "target", "cores", "compiler", "flags",
                              "commit", "dirty", "program"})
      if (machine.environment.value(field, Json()) !=
          environment.value(field, Json()))
        return false;
    return true;
  };
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
  found->mixed = found->mixed || IsMixed(file);
  for (const Json& record : file["records"]) found->records.push_back(record);
}

Evidence ReadEvidence(const std::vector<std::string>& paths) {
  Evidence evidence;
  for (const std::string& path : paths) {
    std::error_code error;
    if (!fs::is_directory(path, error)) {
      const Json file = ReadJson(path);
      if (!AddFile(path, file, evidence))
        throw InvalidInput(path, kExpected, FormatWords(file));
      continue;
    }
    std::vector<fs::path> below;
    for (const auto& entry : fs::recursive_directory_iterator(
             path, fs::directory_options::skip_permission_denied, error))
      if (entry.is_regular_file(error) && entry.path().extension() == ".json")
        below.push_back(entry.path());
    std::ranges::sort(below);
    int64_t ours = 0;
    for (const fs::path& file : below)
      ours += AddFile(file, ReadJson(file), evidence);
    if (ours == 0)
      throw InvalidInput(
          path, "a folder with result or study files",
          below.empty()
              ? std::string("no .json file in it")
              : fmt::format("only {} .json file{} of other "
                            "formats in it",
                            below.size(), below.size() == 1 ? "" : "s"));
  }
  if (evidence.files.empty())
    throw InvalidInput(paths.front(), kExpected,
                       "only summaries, which hold no records");
  return evidence;
}

}  // namespace subquad
