#include <fmt/format.h>

#include <cstdio>
#include <exception>
#include <new>

#include "cuda/device.h"
#include "harness/base/tell.h"
#include "harness/commands/commands.h"
#include "harness/commands/usage_errors.h"
#include "harness/machine/build_info.h"
#include "harness/machine/environment.h"
#include "harness/registry/registry.h"
#include "optimized/targets.h"

namespace subquad {
namespace {

std::string VersionText() {
  std::string libraries;
  for (const auto& [name, version] : DescribeBuild().libraries) {
    // FFTW's version begins with its name: "fftw-3.3.10-sse2".
    const bool named = version.starts_with(name + "-");
    libraries += (libraries.empty() ? "" : ", ") + name + " " +
                 version.substr(named ? name.size() + 1 : 0);
  }
  std::string targets;
  for (const Target* target : Targets())
    targets += (targets.empty() ? "" : ", ") + std::string(target->name);
  return fmt::format(
      "subquad {}\ncommit: {}{}\ncompiler: {}\nflags: {}\nlibraries: {}\n"
      "target: {}; this processor has {}\nCUDA: {}; device: {}",
      kVersion, kCommit, kDirty ? " with local changes" : "", kCompiler, kFlags,
      libraries, CurrentTarget().name, targets, kCudaCompiler,
      Device().present ? Device().name : Device().why_not);
}

}  // namespace
}  // namespace subquad

int main(int argc, char** argv) {
  using namespace subquad;
  OpenClosedStreams();
  int status = kFine;
  const std::vector<std::string> arguments(argv + 1, argv + argc);
  std::string command_line = "subquad";
  for (const std::string& argument : arguments) command_line += " " + argument;
  CLI::App program(
      "Checks attention outputs and kernels against plain dense definitions,\n"
      "with derived error bounds, and benchmarks sub-quadratic algorithms for\n"
      "attention with relative positions beside strong dense baselines.");
  program.name("subquad");
  program.require_subcommand(1);
  program.set_version_flag("--version", VersionText,
                           "print version, commit, compiler, libraries, CUDA");
  program.footer(
      "Exit status: 0 success, 1 a check failed, 2 invalid arguments or "
      "input,\n"
      "130 interrupted (finished results are kept).\n"
      "See `subquad COMMAND --help`.");
  AddListCommand(program, status);
  AddCheckCommand(program, status);
  AddVerifyCommand(program, status);
  AddSweepCommand(program, command_line, status);
  AddStudyCommand(program, command_line, status);
  AddClaimsCommand(program, command_line, status);
  AddMergeCommand(program, command_line, status);
  AddSummarizeCommand(program, command_line, status);
  AddCompareCommand(program, status);
  AddIntervalsCommand(program, status);
  AddEnvCommand(program, status);
  if (const std::string problem = UsageProblem(program, arguments);
      !problem.empty()) {
    Tell("subquad: {}\n", problem);
    return kNotValid;
  }
  try {
    program.parse(argc, argv);
  } catch (const CLI::Success& request) {  // --help
    return program.exit(request);
  } catch (const CLI::ParseError& error) {
    Tell("subquad: {}\n", UsageError(program, arguments, error));
    return kNotValid;
  } catch (const InvalidInput& problem) {
    Tell("subquad: {}\n", problem.what());
    return kNotValid;
  } catch (const std::bad_alloc&) {
    Tell("subquad: out of memory\n");
    return kNotValid;
  } catch (const std::exception& error) {
    if (std::ferror(stdout)) {
      Tell("subquad: cannot write to standard output\n");
      return kNotValid;
    }
    Tell("subquad: {}\n", error.what());
    return kNotValid;
  }
  // The program fails if its output could not be written.
  if (std::fflush(stdout) != 0 || std::ferror(stdout)) {
    Tell("subquad: cannot write to standard output\n");
    return kNotValid;
  }
  return status;
}
