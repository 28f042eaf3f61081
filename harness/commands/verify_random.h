// `subquad verify --random`: cases that nobody chose, for as long as asked.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "harness/registry/filters.h"

namespace subquad {

struct RandomOptions {
  std::string amount;  // "1000", or a time: "90s", "15m", "1h"
  Filters filters;
  std::optional<std::string> input;
  std::optional<uint64_t> seed;  // else a fresh one
  std::filesystem::path out;     // folder for cases that fail
  int threads = 1;
  bool verbose = false;
};

// Returns an ExitStatus.
int VerifyRandom(const RandomOptions& options);

}  // namespace subquad
