#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "harness/commands/commands.h"
#include "harness/papers/papers.h"
#include "harness/papers/run_studies.h"

namespace subquad {

void AddStudyCommand(CLI::App& program, const std::string& command_line,
                     int& status) {
  auto* command = program.add_subcommand(
      "study",
      "measure what the papers claim about variance, rank and precision, and "
      "judge the claims");
  auto options = std::make_shared<StudyOptions>();
  options->threads =
      std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  options->command = command_line;
  command->add_option("NAME", options->names, "names of studies, or all")
      ->required();
  command
      ->add_option("--out", options->out,
                   "folder to write NAME.json and verdicts.md to")
      ->required();
  command->add_flag("--force", options->force,
                    "replace NAME.json in that folder if it exists");
  AddSeedOption(*command, options->seed)
      ->description("seed for random numbers (default: 1)");
  command
      ->add_option("--threads", options->threads,
                   "number of worker threads; results do not depend on it "
                   "(default: all cores)")
      ->check(IntegerFromTo(1, 1024));
  AddTargetOption(*command);
  command->add_option("--input", options->inputs,
                      "case folders whose tensors replace the default ones; "
                      "only for studies of the heads of models");
  command->add_flag("--tiny", options->tiny,
                    "do a smoke run of a few seconds; its verdicts mean "
                    "nothing");
  std::string list = "Studies:\n";
  for (const Study& study : Studies())
    list += fmt::format("  {:<20} {}\n", study.name, study.purpose);
  command->footer(list +
                  "Exit status: 0 every claim is reproduced at least in part, "
                  "1 a claim is not,\n"
                  "2 invalid arguments, 130 interrupted (finished studies are "
                  "kept).");
  command->callback([options, &status] { status = RunStudies(*options); });
}

}  // namespace subquad
