#include "harness/papers/claims/claims.h"

#include <fmt/format.h>

#include <memory>

#include "harness/commands/commands.h"

namespace subquad {

void AddClaimsCommand(CLI::App& program, const std::string& command_line,
                      int& status) {
  auto* command = program.add_subcommand(
      "claims", "check the papers' claims and errata against measurements");
  auto options = std::make_shared<ClaimsOptions>();
  options->command = command_line;
  command
      ->add_option("FILE", options->files,
                   "result and study files, or folders of them")
      ->required();
  command
      ->add_option("--out", options->out,
                   "file for the verdicts, ending in .json; a Markdown table "
                   "is written beside it")
      ->required();
  AddForceOption(*command, options->force);
  std::string list = "Claims, and the commands that measure what they need:\n";
  for (const Claim& claim : Claims()) {
    const std::string needs = NeedsOf(claim);
    list +=
        fmt::format("  {:<18} {}\n", claim.id,
                    needs.empty() ? "none: computed by this command" : needs);
  }
  command->footer(
      list +
      "`subquad sweep --preset claims` runs all the sweeps that claims need.\n"
      "Verdicts: reproduced, in part, not reproduced, wrong as printed (a\n"
      "confirmed erratum), cannot be tested here.\n"
      "Exit status: 0 every claim has a verdict, whatever it is, 1 a listed\n"
      "erratum is correct as printed, 2 an invalid file, 130 interrupted\n"
      "(nothing is written).");
  command->callback([options, &status] { status = RunClaims(*options); });
}

}  // namespace subquad
