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
  command->add_flag("--all", options->all,
                    "print every claim, not only those that the files hold "
                    "something of");
  // A function, as only --help looks at the claims.
  command->footer([] {
    std::string list = "Claims, and what each is answered from:\n";
    for (const Claim& claim : Claims())
      list += fmt::format("  {:<25} {}\n", claim.id, AnsweredFrom(claim));
    return list +
           "`subquad sweep --preset paper` runs all sweeps that claims need.\n"
           "Verdicts: reproduced (by a measurement, or by the paper's own\n"
           "numbers, that could have said otherwise), holds by construction\n"
           "(our program equals our definition), in part, not reproduced, "
           "wrong as printed (false, understated,\n"
           "inconsistent, terminology or typo), not measured (the files lack\n"
           "what the command above measures), not attempted (it could be\n"
           "answered), cannot be tested here (nothing measured here could).\n"
           "Exit status: 0 every claim has a verdict, whatever it is, 1 a\n"
           "listed erratum is correct as printed, 2 an invalid file, 130\n"
           "interrupted (nothing is written).";
  });
  command->callback([options, &status] { status = RunClaims(*options); });
}

}  // namespace subquad
