// What claims are answered from: records by the machine that made them, and
// studies.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/results/result_file.h"

namespace subquad {

// Times are compared on one machine with one build only.
struct Machine {
  std::string name;  // processor and commit
  Json environment;
  // Shards of several processors: only bytes and counts may be compared.
  bool mixed = false;
  std::vector<Json> records;
};

struct StudyFile {
  std::string file;
  Json content;
};

struct Evidence {
  std::vector<Machine> machines;
  std::vector<StudyFile> studies;
  Json files = Json::array();  // what was read, for the claims file
  // Numbers that take the place of measured ones, by name: tests plant wrong
  // ones to see that a rule can fail.
  std::map<std::string, double> planted;
};

// Reads result and study files; of a folder all that are below it, other JSON
// files left out. Throws InvalidInput that names the file, and the record.
Evidence ReadEvidence(const std::vector<std::string>& paths);
void AddResults(const Json& file, const std::string& name, Evidence& evidence);

}  // namespace subquad
