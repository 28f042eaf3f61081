// The subcommands of the command line. Each function adds a command to the
// program; when the command has run, it sets `status`.
#pragma once

#include <CLI/CLI.hpp>
#include <optional>
#include <string>

#include "harness/base/exit_status.h"
#include "harness/registry/filters.h"

namespace subquad {

void AddListCommand(CLI::App& program, int& status);
void AddCheckCommand(CLI::App& program, int& status);
void AddVerifyCommand(CLI::App& program, int& status);
// `command_line`: the command as typed, for result files.
void AddSweepCommand(CLI::App& program, const std::string& command_line,
                     int& status);
void AddStudyCommand(CLI::App& program, const std::string& command_line,
                     int& status);
void AddClaimsCommand(CLI::App& program, const std::string& command_line,
                      int& status);
void AddMergeCommand(CLI::App& program, const std::string& command_line,
                     int& status);
void AddSummarizeCommand(CLI::App& program, const std::string& command_line,
                         int& status);
void AddIntervalsCommand(CLI::App& program, int& status);
void AddCompareCommand(CLI::App& program, int& status);
void AddEnvCommand(CLI::App& program, int& status);

// Adds --operator, --implementation, --backend and --scalar, each repeatable.
void AddFilterOptions(CLI::App& command, Filters& filters);

// Adds --target, the instruction set of CPU implementations
// (optimized/targets.h) in this process and in those that it starts.
void AddTargetOption(CLI::App& command);

// Adds --seed, an integer that fits into an id: 0 to 2^63 - 1.
CLI::Option* AddSeedOption(CLI::App& command, uint64_t& seed);
CLI::Option* AddSeedOption(CLI::App& command, std::optional<uint64_t>& seed);

// Adds --force, which allows --out to replace a file.
void AddForceOption(CLI::App& command, bool& force);

// Validates a finite number above 0 and at most `most`.
CLI::Validator PositiveUpTo(double most);
// Validates a finite number of at least 0.
CLI::Validator AtLeastZero();
// Validates an integer from `least` to `most`.
CLI::Validator IntegerFromTo(int64_t least, int64_t most);

}  // namespace subquad
