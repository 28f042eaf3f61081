#include <fmt/format.h>

#include <exception>
#include <new>

#include "harness/commands.h"

namespace subquad {

void AddFilterOptions(CLI::App& command, Filters& filters) {
  command.add_option("--operator", filters.operators,
                     "only this operator (repeatable)");
  command.add_option("--implementation", filters.implementations,
                     "only this implementation (repeatable)");
  command.add_option("--backend", filters.backends, "cpu or cuda (repeatable)");
  command.add_option("--scalar", filters.scalars,
                     "float32, float64, bfloat16 or float16 (repeatable)");
}

}  // namespace subquad

int main(int argc, char** argv) {
  using namespace subquad;
  int status = kFine;
  std::string command_line = "subquad";
  for (int i = 1; i < argc; ++i) command_line += std::string(" ") + argv[i];
  CLI::App program(
      "Checks, measures and compares algorithms for attention with relative\n"
      "positions against their dense definitions.");
  program.name("subquad");
  program.require_subcommand(1);
  program.footer(
      "Exit status: 0 fine, 1 a check failed, 2 the request or an input is\n"
      "not valid, 130 interrupted (what was finished is kept).\n"
      "`subquad COMMAND --help` explains each command.");
  AddListCommand(program, status);
  AddCheckCommand(program, status);
  AddVerifyCommand(program, status);
  AddSweepCommand(program, command_line, status);
  AddMergeCommand(program, command_line, status);
  AddCompareCommand(program, status);
  AddEnvCommand(program, status);
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help
    return program.exit(request);
  } catch (const CLI::ParseError& error) {
    fmt::print(stderr, "subquad: {}\n", error.what());
    return kNotValid;
  } catch (const InvalidInput& problem) {
    fmt::print(stderr, "subquad: {}\n", problem.what());
    return kNotValid;
  } catch (const std::bad_alloc&) {
    fmt::print(stderr, "subquad: out of memory\n");
    return kNotValid;
  } catch (const std::exception& error) {
    fmt::print(stderr, "subquad: {}\n", error.what());
    return kNotValid;
  }
  return status;
}
