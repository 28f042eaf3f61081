#include <fmt/format.h>

#include <thread>

#include "harness/commands/commands.h"
#include "harness/machine/environment.h"

namespace subquad {

void AddEnvCommand(CLI::App& program, int&) {
  auto* command = program.add_subcommand(
      "env", "print what a result file records of build and machine, as JSON");
  AddTargetOption(*command);
  command->callback([] {
    fmt::print("{}\n",
               DescribeEnvironment(
                   static_cast<int>(std::thread::hardware_concurrency()))
                   .dump(2));
  });
}

}  // namespace subquad
