#include "harness/papers/claims.h"

#include <fmt/format.h>

#include <memory>

#include "harness/commands/commands.h"
#include "harness/papers/papers.h"

namespace subquad {

void AddClaimsCommand(CLI::App& program, const std::string& command_line,
                      int& status) {
  auto* command = program.add_subcommand(
      "claims", "judge the claims and errata of papers by measurements");
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
  command->footer(std::string());  // instead of the footer of the program
  command->footer([] {
    std::string list = "Claims, and the data from which each is judged:\n";
    for (const Claim& claim : Claims())
      list += fmt::format("  {:<29} {}\n", claim.id, AnsweredFrom(claim));
    return list +
           "`subquad sweep --preset paper` and `subquad study all` measure "
           "everything that\n"
           "the claims need.\n"
           "Verdicts:\n"
           "  reproduced             Measured numbers, or the paper's own, "
           "agree with the\n"
           "                         claim; they could have contradicted it.\n"
           "  holds by construction  Our implementation equals our "
           "definition, which\n"
           "                         implies the claim.\n"
           "  in part                Some of the numbers agree, or an interval "
           "contains the\n"
           "                         limit.\n"
           "  not reproduced         The numbers contradict the claim.\n"
           "  wrong as printed       The text has an error: it is false, "
           "understated or\n"
           "                         inconsistent, or has a wrong term or a "
           "typo.\n"
           "  not measured           The files lack the data listed above.\n"
           "  not attempted          This project could test the claim, but "
           "does not yet.\n"
           "  cannot be tested here  No measurement of this project could "
           "test it.\n"
           "Exit status: 0 the verdicts are written, 1 they are written, but a "
           "text listed\n"
           "as an erratum is correct as printed, 2 invalid arguments or files, "
           "130\n"
           "interrupted (nothing is written).";
  });
  command->callback([options, &status] { status = RunClaims(*options); });
}

}  // namespace subquad
