#include "harness/judging/check.h"

#include <fmt/format.h>

#include <cstdio>

#include "harness/commands/commands.h"

namespace subquad {
namespace {

void PrintLine(const CaseFolder& folder, const CheckLine& line) {
  const Verdict& verdict = line.verdict;
  const std::string id =
      line.implementation + (line.backend == "cuda" ? " (cuda)" : "");
  const std::string outcome(ToString(verdict.outcome));
  if (verdict.comparison.judged() == 0) {
    fmt::print("{:<40} {:<14} {:<9} {}: {}\n", folder.name, id,
               Info(line.scalar).name, outcome, verdict.reason);
    return;
  }
  const Comparison& numbers = verdict.comparison;
  fmt::print("{:<40} {:<14} {:<9} error {:9.3e}  tolerance {:9.3e}  {}{}\n",
             folder.name, id, Info(line.scalar).name,
             numbers.max_over_bound * numbers.bound, numbers.bound,
             verdict.passed() ? "pass" : "FAIL",
             verdict.reason.empty()
                 ? (verdict.gates.empty() ? "" : "  (" + verdict.gates + ")")
                 : "  " + outcome + ": " + verdict.reason);
}

int Check(const std::vector<std::string>& folders) {
  int status = kFine;
  int64_t passed = 0, failed = 0, skipped = 0, not_valid = 0;
  for (const std::string& path : folders) {
    try {
      const CaseFolder folder = ReadCaseFolder(path);
      try {
        CheckCaseFolder(folder, [&](const CheckLine& line) {
          PrintLine(folder, line);
          if (line.verdict.passed())
            ++passed;
          else if (line.verdict.outcome == Outcome::kSkipped)
            ++skipped;
          else
            ++failed;
        });
      } catch (const InvalidInput& problem) {
        throw problem.In("case " + folder.name);
      }
    } catch (const InvalidInput& problem) {
      std::fflush(stdout);
      fmt::print(stderr, "subquad check: {}\n", problem.what());
      ++not_valid;
    }
  }
  fmt::print("{} passed, {} failed, {} skipped{}\n", passed, failed, skipped,
             not_valid ? fmt::format(", {} invalid cases", not_valid) : "");
  if (failed > 0 || passed == 0) status = kCheckFailed;
  if (not_valid > 0) status = kNotValid;
  return status;
}

}  // namespace

void AddCheckCommand(CLI::App& program, int& status) {
  auto* command = program.add_subcommand(
      "check",
      "check every implementation against the answers in case folders");
  auto folders = std::make_shared<std::vector<std::string>>();
  command
      ->add_option("CASE", *folders, "case folders (case.json and .npy files)")
      ->required();
  command->footer(
      "Prints a line for each implementation and scalar type: error, "
      "tolerance,\n"
      "pass or FAIL. Exit status: 0 all pass, 1 a failure, or nothing was\n"
      "checked, 2 an invalid or unreadable case.\n"
      "`subquad list --operator X` shows how to write a case.");
  command->callback([folders, &status] { status = Check(*folders); });
}

}  // namespace subquad
