// The golden case folders, and small helpers for tests that read and corrupt
// them.
#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "harness/judging/check.h"
#include "harness/registry/registry.h"
#include "tests/places.h"

namespace subquad {

namespace fs = std::filesystem;
using Json = nlohmann::ordered_json;

inline std::string Slurp(const fs::path& path) {
  std::ifstream stream(path, std::ios::binary);
  std::stringstream text;
  text << stream.rdbuf();
  return text.str();
}

inline void Write(const fs::path& path, const std::string& text) {
  std::ofstream(path, std::ios::binary | std::ios::trunc) << text;
}

// Returns the golden cases, and the cases of make_cases.py for properties that
// the golden cases do not cover.
inline std::vector<fs::path> GoldenFolders() {
  std::vector<fs::path> folders;
  for (const fs::path& root :
       {fs::path(kGoldenFolder), fs::path(kSourceFolder) / "tests/cases"})
    for (const auto& entry : fs::directory_iterator(root))
      if (entry.is_directory()) folders.push_back(entry.path());
  std::ranges::sort(folders);
  return folders;
}

inline std::string OperatorOf(const fs::path& folder) {
  return Json::parse(Slurp(folder / "case.json")).at("operator");
}

inline bool IsRegistered(const std::string& id) {
  return std::ranges::any_of(Operators(), [&](const Operator* op) {
    return op->description().id == id;
  });
}

// True for a check that needs a GPU on a machine without one.
inline bool NoDevice(const CheckLine& line) {
  return line.backend == "cuda" && line.verdict.outcome == Outcome::kSkipped;
}

}  // namespace subquad
