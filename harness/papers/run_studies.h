// `subquad study`: measures studies, judges them and writes their files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

namespace subquad {

struct StudyOptions {
  std::vector<std::string> names;  // or "all"
  std::filesystem::path out;
  uint64_t seed = 1;
  int threads = 1;
  // Case folders for the parameter `input` of the studies that have it.
  std::vector<std::string> inputs;
  bool tiny = false;
  bool force = false;  // replace NAME.json if it exists
  std::string command;
};

// The whole command: measures, judges, writes NAME.json and verdicts.md.
// Returns an ExitStatus.
int RunStudies(const StudyOptions& options);

}  // namespace subquad
