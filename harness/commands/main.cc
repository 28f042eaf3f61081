#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "harness/commands/commands.h"

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
  AddStudyCommand(program, command_line, status);
  AddClaimsCommand(program, command_line, status);
  AddMergeCommand(program, command_line, status);
  AddCompareCommand(program, status);
  AddEnvCommand(program, status);
  for (int i = 1; i < argc; ++i) {
    const std::string argument = argv[i];
    const bool empty = argument.empty();
    if (!empty && !(argument.starts_with("--") && argument.ends_with('=')))
      continue;
    fmt::print(stderr, "subquad: {}: expected a value, found an empty one\n",
               empty ? argv[i - 1] : argument.substr(0, argument.size() - 1));
    return kNotValid;
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help
    return program.exit(request);
  } catch (const CLI::RequiredError& error) {
    // CLI11 asks for a command before it looks at what was given instead.
    if (argc > 1 && program.get_subcommands().empty())
      fmt::print(stderr,
                 "subquad: '{}' is no command or option; --help lists "
                 "them\n",
                 argv[1]);
    else
      fmt::print(stderr, "subquad: {}\n", error.what());
    return kNotValid;
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
  // A table that did not reach the disk is no success.
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    fmt::print(stderr, "subquad: standard output cannot be written\n");
    return kNotValid;
  }
  return status;
}
