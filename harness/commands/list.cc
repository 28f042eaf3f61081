#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/cases/case.h"
#include "harness/commands/commands.h"
#include "harness/registry/operator_listing.h"

namespace subquad {
namespace {

bool HasBackward(const OperatorListing& listing) {
  return std::ranges::any_of(listing.implementations,
                             &ListedImplementation::backward);
}

void PrintImplementations(const OperatorListing& listing) {
  for (const ListedImplementation& item : listing.implementations)
    fmt::print("    {:<14} {:<5} {:<17} time {:<28} memory {:<24} {}{}\n",
               item.id, ToString(item.backend),
               fmt::format("{}", fmt::join(item.scalars, " ")), item.time,
               item.memory, item.what,
               !HasBackward(listing) ? ""
               : item.backward       ? "; forward and backward"
                                     : "; forward only");
  for (const ListedMissing& item : listing.missing)
    fmt::print("    {:<14} not in this build: needs {}\n", item.id, item.needs);
}

// Says what implementations do not take, in a line for each of them.
void PrintNotTaken(const OperatorListing& listing) {
  for (const ListedImplementation& item : listing.implementations) {
    std::vector<std::string> lacks = item.not_taken;
    for (const std::string& name : item.pairs_not_taken)
      lacks.push_back(name + " [.., n_q, n_k] (only [.., 1, n_k])");
    if (item.takes_groups == false)
      lacks.emplace_back("tensors that only some of the heads share");
    if (!lacks.empty())
      fmt::print("    {} on {} does not take {}\n", item.id,
                 ToString(item.backend), fmt::join(lacks, ", "));
  }
}

void PrintSummary(const OperatorListing& listing) {
  fmt::print("{}   {}\n    {}\n", listing.id, listing.formula, listing.source);
  PrintImplementations(listing);
  fmt::print("\n");
}

// Returns text such as ", if feature_map is prf or trf and height is given".
std::string Text(const Conditions& when) {
  std::string text;
  for (const auto& [name, choices] : when)
    text += fmt::format("{}{} is {}", text.empty() ? ", if " : " and ", name,
                        fmt::join(choices, " or "));
  return text;
}

std::string Range(const ListedParam& param) {
  if (!param.min) return param.above ? " above 0" : "";
  if (!param.max || *param.max == kMaxInteger)
    return *param.min <= -kMaxInteger ? "" : fmt::format(" >= {}", *param.min);
  return fmt::format(" from {} to {}", *param.min, *param.max);
}

std::string Presence(const ListedParam& param) {
  std::string text = param.required ? "required"
                     : !param.default_value.empty()
                         ? "default " + param.default_value
                         : "optional";
  if (!param.together_with.empty())
    text +=
        fmt::format(", together with {}", fmt::join(param.together_with, ", "));
  if (!param.of_input.empty()) text += ", of " + param.of_input;
  if (!param.generated.empty())
    text += fmt::format(" ({} in generated cases)", param.generated);
  return text;
}

std::string TypeOf(const ListedParam& param) {
  if (!param.choices.empty())
    return fmt::format("one of {}", fmt::join(param.choices, ", "));
  if (param.type == ParamType::kFlag) return "true or false";
  return std::string(ToString(param.type)) +
         (param.may_be_list ? " or list of integers" : "") + Range(param);
}

// Returns "name  type; default". A parameter whose meaning depends on others
// has several entries with the same heading.
std::string Heading(const ListedParam& param) {
  return fmt::format("{:<13} {}; {}", param.name, TypeOf(param),
                     Presence(param));
}

void PrintParams(const std::vector<ListedParam>& params) {
  fmt::print("\nParameters (\"params\" of case.json, --param NAME=VALUE):\n");
  std::string last;
  for (size_t i = 0; i < params.size(); ++i) {
    const std::string heading = Heading(params[i]);
    const bool shared = heading == last || (i + 1 < params.size() &&
                                            heading == Heading(params[i + 1]));
    const std::string condition = Text(params[i].when);
    if (heading != last)
      fmt::print("  {}{}\n", heading, shared ? "" : condition);
    fmt::print("{:16}{}{}\n", "", params[i].meaning, shared ? condition : "");
    last = heading;
  }
  if (params.empty()) fmt::print("  none\n");
}

void PrintSizes(const std::vector<ListedSize>& sizes) {
  fmt::print(
      "\nSizes (the shapes of a case's tensors determine them; generated "
      "cases\nhave these, or those of --param NAME=VALUE):\n");
  for (const ListedSize& size : sizes)
    fmt::print("  {:<13} {}; integer >= {}, {} in generated cases{}{}\n",
               size.name, size.meaning, size.min, size.generated.Text(),
               size.of_input.empty() ? "" : " with " + size.of_input,
               Text(size.when));
}

void PrintCaseSettings() {
  fmt::print(
      "\nSettings of generated cases (--param NAME=VALUE, and in ids):\n");
  for (const CaseSetting& setting : CaseSettings())
    fmt::print("  {:<13} {}\n", setting.name, setting.meaning);
}

// Describes the offsets along the axes of a tensor.
std::string Offsets(const std::vector<std::string>& first) {
  if (first.empty()) return "";
  if (first.front() == "0") return "; by distance, from 0";
  if (first.size() == 1)
    return "; by offset key - query, from " + first.front();
  return fmt::format("; by offsets key - query of rows and columns, from {}",
                     fmt::join(first, " and "));
}

// A tensor without axes of its own has a number for each head.
std::string Shape(const std::vector<std::string>& extents) {
  return extents.empty() ? "[h], [b, h], or [1] for all heads"
                         : fmt::format("[{}]", fmt::join(extents, ", "));
}

void PrintTensors(const char* title, const std::vector<ListedTensor>& tensors) {
  fmt::print("\n{}:\n", title);
  for (const ListedTensor& tensor : tensors) {
    const ListedInput input = tensor.input.value_or(ListedInput());
    fmt::print("  {:<13} {}{}{}{}{}{}{}\n", tensor.name, Shape(tensor.shape),
               input.required ? "" : "; optional",
               input.zero_or_one ? "; 0 hides the key, 1 shows it (a file may "
                                   "have booleans, integers or any floats)"
                                 : "",
               input.per_pair ? fmt::format("; 1 for {} is shared",
                                            fmt::join(tensor.shape, " or "))
                              : "",
               input.minus_infinity ? "; may be -inf (masked)" : "",
               Offsets(input.first_offsets), Text(tensor.when));
  }
}

void PrintDetails(const OperatorListing& listing) {
  fmt::print("{}\n  {}\n  Source: {}\n", listing.id, listing.formula,
             listing.source);
  PrintParams(listing.params);
  PrintSizes(listing.sizes);
  PrintCaseSettings();
  PrintTensors(
      "Inputs (.npy files of finite float32 or float64, unless it says "
      "otherwise). Each may be [..], "
      "[h, ..] or\n[b, h, ..], with h heads and b batch items. A tensor with "
      "fewer of these axes,\nor with an axis of 1, is shared; a tensor with "
      "fewer heads is shared by\nneighbouring heads",
      listing.inputs);
  PrintTensors("Outputs (\"expected\" of case.json)", listing.outputs);
  fmt::print("\nImplementations{}:\n",
             HasBackward(listing) ? "" : " (none has a backward pass)");
  PrintImplementations(listing);
  PrintNotTaken(listing);
  fmt::print("\nA case.json, read by `subquad check FOLDER`:\n{}\n\n",
             listing.sample_case.dump(2));
}

void List(const std::vector<std::string>& names, bool json) {
  std::vector<const Operator*> chosen;
  for (const std::string& name : names) chosen.push_back(&FindOperator(name));
  if (chosen.empty()) chosen = Operators();
  std::vector<OperatorListing> list;
  for (const Operator* op : chosen) list.push_back(ListOperator(*op));
  if (json) {
    fmt::print("{}\n", WriteJson(list).dump(2));
    return;
  }
  for (const OperatorListing& listing : list)
    names.empty() ? PrintSummary(listing) : PrintDetails(listing);
}

}  // namespace

void AddListCommand(CLI::App& program, int&) {
  auto* command = program.add_subcommand(
      "list", "list operators and implementations; describe an operator");
  auto json = std::make_shared<bool>(false);
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("operator,--operator", *names,
                      "describe this operator: parameters, shapes, a sample "
                      "case.json (repeatable)");
  AddTargetOption(*command);
  command->add_flag("--json", *json,
                    "print everything as JSON (list.schema.json)");
  command->callback([json, names] { List(*names, *json); });
}

}  // namespace subquad
