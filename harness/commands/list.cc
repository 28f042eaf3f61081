#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/commands/commands.h"

namespace subquad {
namespace {

std::string ScalarNames(const Implementation& implementation) {
  std::string names;
  for (Scalar scalar : implementation.scalars)
    names += (names.empty() ? "" : " ") + std::string(Info(scalar).name);
  return names;
}

void PrintText() {
  for (const Operator* op : Operators()) {
    const Description& description = op->description();
    fmt::print("{}   {}\n    {}\n", description.id, description.formula,
               description.source);
    for (const Implementation* one : ImplementationsOf(*op))
      fmt::print("    {:<14} {:<5} {:<17} time {:<28} memory {:<24} {}{}\n",
                 one->id, ToString(one->backend), ScalarNames(*one),
                 one->time.text, one->memory.text, one->what,
                 one->backward ? "; backward too" : "");
    fmt::print("\n");
  }
}

void PrintJson() {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Operator* op : Operators()) {
    const Description& description = op->description();
    nlohmann::ordered_json entry = {
        {"operator", std::string(description.id)},
        {"formula", std::string(description.formula)},
        {"source", std::string(description.source)},
        {"implementations", nlohmann::ordered_json::array()}};
    for (const Implementation* one : ImplementationsOf(*op)) {
      nlohmann::ordered_json row = {
          {"implementation", one->id},
          {"backend", std::string(ToString(one->backend))},
          {"scalars", nlohmann::ordered_json::array()},
          {"time", one->time.text},
          {"memory", one->memory.text},
          {"backward", one->backward},
          {"what", one->what},
          {"source", one->source}};
      for (Scalar scalar : one->scalars)
        row["scalars"].push_back(std::string(Info(scalar).name));
      entry["implementations"].push_back(std::move(row));
    }
    list.push_back(std::move(entry));
  }
  fmt::print("{}\n", list.dump(2));
}

}  // namespace

void AddListCommand(CLI::App& program, int&) {
  auto* command = program.add_subcommand(
      "list",
      "operators, implementations, scalar types, complexity and source");
  auto json = std::make_shared<bool>(false);
  command->add_flag("--json", *json, "as JSON");
  command->callback([json] { *json ? PrintJson() : PrintText(); });
}

}  // namespace subquad
