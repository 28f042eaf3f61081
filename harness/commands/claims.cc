#include "harness/papers/claims.h"

#include <fmt/format.h>

#include <memory>

#include "harness/commands/commands.h"
#include "harness/papers/papers.h"

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
  command->add_flag(
      "--all", options->all,
      "print every claim, not only those for which the files have "
      "data");
  // A function, so that only --help reads the claims.
  command->footer([] {
    std::string list = "Claims, each with the data that answers it:\n";
    for (const Claim& claim : Claims())
      list += fmt::format("  {:<25} {}\n", claim.id, AnsweredFrom(claim));
    return list +
           "`subquad sweep --preset paper` measures everything that claims "
           "need.\n"
           "Verdicts:\n"
           "  reproduced             by measured numbers (or the paper's own) "
           "that could\n"
           "                         have contradicted it\n"
           "  holds by construction  our implementation equals our definition\n"
           "  in part, not reproduced\n"
           "  wrong as printed       false, understated, inconsistent, a wrong "
           "term or a\n"
           "                         typo\n"
           "  not measured           the files lack the measurement named "
           "above\n"
           "  not attempted          it could be answered\n"
           "  cannot be tested here  no measurement here could answer it\n"
           "Exit status: 0 every claim has a verdict, 1 a listed erratum is\n"
           "correct as printed, 2 an invalid file, 130 interrupted (nothing "
           "is\n"
           "written).";
  });
  command->callback([options, &status] { status = RunClaims(*options); });
}

}  // namespace subquad
