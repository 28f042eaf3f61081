#include <fmt/format.h>

#include <thread>

#include "harness/commands/commands.h"
#include "harness/machine/environment.h"

namespace subquad {

void AddEnvCommand(CLI::App& program, int&) {
  auto* command = program.add_subcommand(
      "env", "print the build and the machine as result files record them");
  AddTargetOption(*command);
  command->callback([] {
    fmt::print("{}\n", WriteJson(DescribeEnvironment(static_cast<int>(
                                     std::thread::hardware_concurrency())))
                           .dump(2));
  });
}

}  // namespace subquad
