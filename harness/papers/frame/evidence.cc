#include "harness/papers/frame/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <fstream>

namespace subquad {
namespace {

namespace fs = std::filesystem;

void CheckStudy(const Json& file, const std::string& name) {
  for (const char* field : {"study", "created"})
    if (!file.contains(field) || !file[field].is_string())
      throw InvalidInput(name, fmt::format("{} as text", field),
                         "missing or something else");
  for (const char* field : {"tables", "parameters"})
    if (!file.contains(field) || !file[field].is_object())
      throw InvalidInput(name, fmt::format("{} as an object", field),
                         "missing or something else");
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
  // Claims work out again, from the same records, what a summary says.
  return format == "summary/1";
}

}  // namespace

void AddResults(const Json& file, const std::string& name, Evidence& evidence) {
  CheckResults(file, name);
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

}  // namespace subquad
