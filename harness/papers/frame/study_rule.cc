#include "harness/papers/frame/study_rule.h"

#include <fmt/format.h>

#include <algorithm>

namespace subquad {
namespace {

StudyTables TablesOf(const Json& file) {
  StudyTables tables;
  for (const auto& [name, content] : file.at("tables").items()) {
    StudyTable table;
    table.name = name;
    for (const Json& column : content.at("columns"))
      table.columns.push_back({column.at("name").get<std::string>(),
                               column.value("unit", "1"),
                               column.value("meaning", "")});
    for (const Json& row : content.at("rows")) {
      std::vector<Json> cells;
      for (const Json& cell : row) cells.push_back(cell);
      table.rows.push_back(std::move(cells));
    }
    tables.push_back(std::move(table));
  }
  return tables;
}

// In any order of the keys. Which tensors a study looked at is no matter of how
// thoroughly it looked.
bool SameNumbers(const Json& a, const Json& b) {
  nlohmann::json one(a), other(b);
  one.erase("input");
  other.erase("input");
  return one == other;
}

void Judge(const Study& study, const StudyFile& file, const std::string& claim,
           Finding& finding) {
  const bool full =
      SameNumbers(file.content.at("parameters"), study.parameters);
  std::vector<StudyVerdict> verdicts;
  try {
    verdicts =
        study.judge(file.content.at("parameters"), TablesOf(file.content));
  } catch (const std::exception& error) {
    throw InvalidInput(file.file, "the tables of the study " + study.name,
                       error.what());
  }
  const auto verdict = std::ranges::find(verdicts, claim, &StudyVerdict::claim);
  if (verdict == verdicts.end()) {
    finding.Add(Holds::kMissing,
                fmt::format("{} has no verdict on it", file.file));
    return;
  }
  if (verdict->outcome == ClaimVerdict::kWrongAsPrinted) {
    finding.Require(true, verdict->numbers);
    return;
  }
  Holds holds = verdict->outcome == ClaimVerdict::kReproduced ? Holds::kYes
                : verdict->outcome == ClaimVerdict::kInPart   ? Holds::kBetween
                : verdict->outcome == ClaimVerdict::kCannotBeTested
                    ? Holds::kUntestable
                    : Holds::kNo;
  std::string numbers = verdict->numbers;
  if (!full && holds != Holds::kUntestable) {
    // Uncertain either way.
    numbers += " (with other settings than the full ones: no more than a hint)";
    holds = holds == Holds::kYes || holds == Holds::kBetween ? Holds::kBetween
                                                             : Holds::kMissing;
  }
  finding.Add(holds, numbers);
}

}  // namespace

Finding FromStudies(const Evidence& evidence, const Study& study,
                    const std::string& claim) {
  Finding finding(evidence);
  std::vector<const StudyFile*> files;
  for (const StudyFile& file : evidence.studies)
    if (file.content.at("study") == study.name) files.push_back(&file);
  if (files.empty()) finding.Add(Holds::kMissing, "not in the files given");
  for (const StudyFile* file : files) {
    Finding one;
    Judge(study, *file, claim, one);
    finding.Append(one, files.size() > 1 ? file->file + ": " : "");
  }
  return finding;
}

}  // namespace subquad
