// The subcommands of the command line. Each adds itself to the program and sets
// `status` when it has run.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "harness/registry.h"

namespace subquad {

enum ExitStatus {
  kFine = 0,
  kCheckFailed = 1,
  kNotValid = 2,
  kInterrupted = 130
};

void AddListCommand(CLI::App& program, int& status);
void AddCheckCommand(CLI::App& program, int& status);
void AddVerifyCommand(CLI::App& program, int& status);
// `command_line`: as the program was called, for result files.
void AddSweepCommand(CLI::App& program, const std::string& command_line,
                     int& status);
void AddEnvCommand(CLI::App& program, int& status);

// --operator, --implementation, --backend, --scalar: each repeatable.
struct Filters {
  std::vector<std::string> operators, implementations, backends, scalars;

  void AddTo(CLI::App& command);
  // Throws InvalidInput for a name that does not exist.
  void Check() const;
  bool Takes(const Implementation& implementation) const;
  bool Takes(Scalar scalar) const;
  bool Takes(const Operator& op) const;
};

// Adds --seed: an integer that an id can carry, 0 to 2^63 - 1.
CLI::Option* AddSeedOption(CLI::App& command, uint64_t& seed);

// For options whose value is a finite number greater than 0 and at most `most`.
CLI::Validator PositiveUpTo(double most);

// "1024,4096" or "1024:1048576:x2" (also "1:9:+2"). Throws InvalidInput that
// names the option.
std::vector<std::string> ParseAxis(const std::string& option,
                                   const std::string& text);
std::vector<int64_t> ParseIntegerAxis(const std::string& option,
                                      const std::string& text);

}  // namespace subquad
