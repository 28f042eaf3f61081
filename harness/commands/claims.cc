#include "harness/papers/claims/claims.h"

#include <fmt/format.h>

#include <memory>

#include "harness/commands/commands.h"

namespace subquad {

void AddClaimsCommand(CLI::App& program, const std::string& command_line,
                      int& status) {
  auto* command = program.add_subcommand(
      "claims", "what the papers claim against what was measured");
  auto options = std::make_shared<ClaimsOptions>();
  options->command = command_line;
  command
      ->add_option("FILE", options->files,
                   "result and study files, or folders of them")
      ->required();
  command
      ->add_option("--out", options->out,
                   "file for the answers, ending in .json; the same as a "
                   "Markdown table beside it")
      ->required();
  std::string list = "Claims, and what makes the files that they need:\n";
  for (const Claim& claim : Claims()) {
    const std::string needs = NeedsOf(claim);
    list += fmt::format(
        "  {:<18} {}\n", claim.id,
        needs.empty() ? "nothing: computed by this command" : needs);
  }
  command->footer(
      list +
      "`subquad sweep --preset claims` measures all that the sweeps need.\n"
      "Verdicts: reproduced, in part, not reproduced, cannot be tested here.\n"
      "Exit status: 0 every claim has its answer, whatever it is, 1 an "
      "erratum\n"
      "is none, 2 a file is not valid, 130 interrupted (nothing is written).");
  command->callback([options, &status] { status = RunClaims(*options); });
}

}  // namespace subquad
