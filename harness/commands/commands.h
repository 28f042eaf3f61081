// The subcommands of the command line. Each adds itself to the program and sets
// `status` when it has run.
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
// `command_line`: as the program was called, for result files.
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

// --operator, --implementation, --backend, --scalar: each repeatable.
void AddFilterOptions(CLI::App& command, Filters& filters);

// Adds --target: which CPU programs run (optimized/targets.h), here and in
// processes that this one starts.
void AddTargetOption(CLI::App& command);

// Adds --seed: an integer that an id can carry, 0 to 2^63 - 1.
CLI::Option* AddSeedOption(CLI::App& command, uint64_t& seed);
CLI::Option* AddSeedOption(CLI::App& command, std::optional<uint64_t>& seed);

// Adds --force: replace what --out names.
void AddForceOption(CLI::App& command, bool& force);

// For options whose value is a finite number greater than 0 and at most `most`.
CLI::Validator PositiveUpTo(double most);

}  // namespace subquad
