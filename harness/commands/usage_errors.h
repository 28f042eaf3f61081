// Describes mistakes on the command line: what was expected, what was found and
// what to do.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace subquad {

// Returns a message for mistakes that CLI11 accepts: an unknown command beside
// --help, an empty value, a flag with a value, and an option given
// twice. Returns "" if there are
// none.
std::string UsageProblem(const CLI::App& program,
                         const std::vector<std::string>& arguments);

// Returns the message for arguments that CLI11 has refused.
std::string UsageError(const CLI::App& program,
                       const std::vector<std::string>& arguments,
                       const CLI::ParseError& error);

}  // namespace subquad
