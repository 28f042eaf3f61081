// Runs `subquad verify --random`: random cases, by number or time.
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
  std::optional<uint64_t> seed;  // a fresh one if empty
  std::filesystem::path out;     // folder for cases that fail
  int threads = 1;
  bool verbose = false;
};

// Runs the cases and returns an ExitStatus.
int VerifyRandom(const RandomOptions& options);

}  // namespace subquad
