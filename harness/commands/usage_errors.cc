#include "harness/commands/usage_errors.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "harness/registry/registry.h"

namespace subquad {
namespace {

std::vector<std::string> CommandNames(const CLI::App& program) {
  std::vector<std::string> names;
  for (const CLI::App* command : program.get_subcommands({}))
    if (!command->get_group().empty()) names.push_back(command->get_name());
  return names;
}

std::vector<std::string> OptionNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (option->nonpositional()) names.push_back(option->get_name());
  return names;
}

std::vector<std::string> PositionalNames(const CLI::App& command) {
  std::vector<std::string> names;
  for (const CLI::Option* option : command.get_options())
    if (!option->nonpositional()) names.push_back(option->get_name());
  return names;
}

bool IsOption(const std::string& argument) {
  return argument.starts_with("--");
}

// Describes an argument that the command does not have. If it is the name of an
// operator, the message names the option for it.
std::string Unexpected(const CLI::App& command, const std::string& argument) {
  if (IsOption(argument))
    return UnknownName("option", OptionNames(command),
                       argument.substr(0, argument.find('=')))
        .what();
  for (const Operator* op : Operators())
    if (op->description().id == argument)
      return fmt::format(
          "unexpected argument '{}'; to select an operator, use --operator {}",
          argument, argument);
  const std::vector<std::string> names = PositionalNames(command);
  if (names.empty())
    return fmt::format("expected only options, found '{}'", argument);
  return fmt::format("expected no argument after {}, found '{}'",
                     fmt::join(names, " and "), argument);
}

// Describes the first rule on the presence of options that is broken; "" if
// none is.
std::string BrokenRule(const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    if (option->get_required() && option->count() == 0)
      return fmt::format("{}: expected a value ({}), found none",
                         option->get_name(), option->get_description());
    if (option->count() == 0) continue;
    for (const CLI::Option* needed : option->get_needs())
      if (needed->count() == 0)
        return fmt::format("{}: expected together with {}, found alone",
                           option->get_name(), needed->get_name());
    for (const CLI::Option* excluded : option->get_excludes())
      if (excluded->count() > 0)
        return fmt::format("expected at most one of {} and {}, found both",
                           option->get_name(), excluded->get_name());
  }
  return "";
}

// Returns the option whose value is an empty string, or the program's name if
// the command is one; "" if there is none.
std::string EmptyValue(const CLI::App& program,
                       const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const std::string& argument = arguments[i];
    if (argument.empty()) return i == 0 ? program.get_name() : arguments[i - 1];
    if (IsOption(argument) && argument.ends_with('='))
      return argument.substr(0, argument.size() - 1);
  }
  return "";
}

// Returns the option that lacks its value at the end of the command line or
// before another option; "" if there is none.
std::string WithoutValue(const CLI::App& command,
                         const std::vector<std::string>& arguments) {
  for (size_t i = 0; i < arguments.size(); ++i) {
    const CLI::Option* option = command.get_option_no_throw(arguments[i]);
    const bool last = i + 1 == arguments.size() || IsOption(arguments[i + 1]);
    if (option && option->get_items_expected_min() > 0 && last)
      return arguments[i];
  }
  return "";
}

// Returns the message for a flag with a value, which CLI11 would count several
// times (--verbose=3); "" if there is none.
std::string ValueOfFlag(const CLI::App& command,
                        const std::vector<std::string>& arguments) {
  for (const std::string& argument : arguments) {
    const size_t equals = argument.find('=');
    if (!IsOption(argument) || equals == std::string::npos) continue;
    const CLI::Option* option =
        command.get_option_no_throw(argument.substr(0, equals));
    if (option && option->get_items_expected_max() == 0)
      return fmt::format("{}: expected no value, found '{}'",
                         argument.substr(0, equals),
                         argument.substr(equals + 1));
  }
  return "";
}

// Returns the message for an option with one value that is given several times;
// "" if there is none.
std::string Repeated(const CLI::App& command,
                     const std::vector<std::string>& arguments) {
  std::map<std::string, int> counts;
  for (const std::string& argument : arguments) {
    if (!IsOption(argument)) continue;
    const std::string name = argument.substr(0, argument.find('='));
    const CLI::Option* option = command.get_option_no_throw(name);
    if (option && option->get_items_expected_max() == 1 && ++counts[name] > 1)
      return name + ": expected once, found twice";
  }
  return "";
}

}  // namespace

std::string UsageProblem(const CLI::App& program,
                         const std::vector<std::string>& arguments) {
  if (arguments.empty()) return "";
  if (arguments[0] == "--version" && arguments.size() > 1)
    return fmt::format("--version: expected no other argument, found '{}'",
                       arguments[1]);
  std::string name = EmptyValue(program, arguments);
  if (arguments[0].starts_with('-') || arguments[0].empty())
    return name.empty() ? "" : name + ": expected a value, found none";
  for (const CLI::App* command : program.get_subcommands({})) {
    if (command->get_name() != arguments[0]) continue;
    if (name.empty()) name = WithoutValue(*command, arguments);
    std::string problem =
        name.empty() ? "" : name + ": expected a value, found none";
    if (problem.empty()) problem = ValueOfFlag(*command, arguments);
    if (problem.empty()) problem = Repeated(*command, arguments);
    return problem.empty() ? ""
                           : fmt::format("{}; see subquad {} --help", problem,
                                         command->get_name());
  }
  return UnknownName("command", CommandNames(program), arguments[0]).what();
}

std::string UsageError(const CLI::App& program,
                       const std::vector<std::string>& arguments,
                       const CLI::ParseError& error) {
  const std::vector<CLI::App*> chosen = program.get_subcommands();
  if (chosen.empty() && (arguments.empty() || !IsOption(arguments[0])))
    return fmt::format(
        "expected a command ({}), found none; see subquad --help",
        fmt::join(CommandNames(program), ", "));
  const CLI::App& command = chosen.empty() ? program : *chosen.front();
  std::string problem;
  if (const auto rest = command.remaining(); !rest.empty())
    problem = Unexpected(command, rest.front());
  if (problem.empty()) problem = BrokenRule(command);
  if (problem.empty()) problem = error.what();
  return chosen.empty() ? problem
                        : fmt::format("{}; see subquad {} --help", problem,
                                      command.get_name());
}

}  // namespace subquad
