#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "harness/commands/commands.h"
#include "harness/registry/operator_listing.h"

namespace subquad {
namespace {

using Json = nlohmann::ordered_json;

std::string Text(const Json& json) {
  return json.is_string() ? json.get<std::string>() : json.dump();
}

std::string Joined(const Json& list, const std::string& separator) {
  std::string text;
  for (const Json& entry : list)
    text += (text.empty() ? "" : separator) + Text(entry);
  return text;
}

bool HasBackward(const Json& entry) {
  return std::ranges::any_of(entry.at("implementations"), [](const Json& item) {
    return item.at("backward").get<bool>();
  });
}

void PrintImplementations(const Json& entry) {
  for (const Json& item : entry.at("implementations"))
    fmt::print("    {:<14} {:<5} {:<17} time {:<28} memory {:<24} {}{}\n",
               Text(item.at("implementation")), Text(item.at("backend")),
               Joined(item.at("scalars"), " "), Text(item.at("time")),
               Text(item.at("memory")), Text(item.at("what")),
               !HasBackward(entry)               ? ""
               : item.at("backward").get<bool>() ? "; forward and backward"
                                                 : "; forward only");
}

void PrintSummary(const Json& entry) {
  fmt::print("{}   {}\n    {}\n", Text(entry.at("operator")),
             Text(entry.at("formula")), Text(entry.at("source")));
  PrintImplementations(entry);
  fmt::print("\n");
}

// Returns text such as ", if feature_map is prf or trf and height is given".
std::string Condition(const Json& entry) {
  std::string text;
  for (const auto& [name, choices] : entry.at("when").items())
    text += (text.empty() ? ", if " : " and ") + name + " is " +
            Joined(choices, " or ");
  return text;
}

std::string Range(const Json& param) {
  if (!param.contains("min")) return param.contains("above") ? " above 0" : "";
  if (!param.contains("max") || param.at("max").get<int64_t>() == kMaxInteger)
    return fmt::format(" >= {}", param.at("min").get<int64_t>());
  return fmt::format(" from {} to {}", param.at("min").get<int64_t>(),
                     param.at("max").get<int64_t>());
}

std::string Presence(const Json& param) {
  std::string text = param.at("required").get<bool>() ? "required"
                     : param.contains("default")
                         ? "default " + Text(param.at("default"))
                         : "optional";
  if (param.contains("together_with"))
    text += ", together with " + Joined(param.at("together_with"), ", ");
  if (param.contains("generated"))
    text +=
        fmt::format(" ({} in generated cases)", Text(param.at("generated")));
  return text;
}

std::string TypeOf(const Json& param) {
  if (param.contains("choices"))
    return "one of " + Joined(param.at("choices"), ", ");
  return (param.at("type") == "boolean" ? "true or false"
                                        : Text(param.at("type"))) +
         Range(param);
}

// Returns "name  type; default". A parameter whose meaning depends on others
// has several entries with the same heading.
std::string Heading(const Json& param) {
  return fmt::format("{:<13} {}; {}", Text(param.at("name")), TypeOf(param),
                     Presence(param));
}

void PrintParams(const Json& params) {
  fmt::print("\nParameters (\"params\" of case.json, --param NAME=VALUE):\n");
  std::string last;
  for (size_t i = 0; i < params.size(); ++i) {
    const std::string heading = Heading(params[i]);
    const bool shared = heading == last || (i + 1 < params.size() &&
                                            heading == Heading(params[i + 1]));
    const std::string condition = Condition(params[i]);
    if (heading != last)
      fmt::print("  {}{}\n", heading, shared ? "" : condition);
    fmt::print("{:16}{}{}\n", "", Text(params[i].at("meaning")),
               shared ? condition : "");
    last = heading;
  }
  if (params.empty()) fmt::print("  none\n");
}

void PrintSizes(const Json& sizes) {
  fmt::print(
      "\nSizes (the shapes of a case's tensors determine them; generated "
      "cases\nhave these, or those of --param NAME=VALUE):\n");
  for (const Json& size : sizes)
    fmt::print("  {:<13} {}; integer >= {}, {} in generated cases{}\n",
               Text(size.at("name")), Text(size.at("meaning")),
               size.at("min").get<int64_t>(), Text(size.at("generated")),
               Condition(size));
}

// Describes the offsets along the axes of a tensor.
std::string Offsets(const Json& tensor) {
  const Json offsets = tensor.value("first_offsets", Json::array());
  if (offsets.empty()) return "";
  if (Text(offsets.front()) == "0") return "; by distance, from 0";
  if (offsets.size() == 1)
    return "; by offset key - query, from " + Joined(offsets, "");
  return "; by offsets key - query of rows and columns, from " +
         Joined(offsets, " and ");
}

void PrintTensors(const char* title, const Json& tensors) {
  fmt::print("\n{}:\n", title);
  for (const Json& tensor : tensors) {
    const std::string shape = Joined(tensor.at("shape"), ", ");
    fmt::print(
        "  {:<13} [{}]{}{}{}{}\n", Text(tensor.at("name")), shape,
        tensor.value("required", true) ? "" : "; optional",
        tensor.value("minus_infinity", false) ? "; may be -inf (masked)" : "",
        Offsets(tensor), Condition(tensor));
  }
}

void PrintDetails(const Json& entry) {
  fmt::print("{}\n  {}\n  Source: {}\n", Text(entry.at("operator")),
             Text(entry.at("formula")), Text(entry.at("source")));
  PrintParams(entry.at("params"));
  PrintSizes(entry.at("sizes"));
  PrintTensors(
      "Inputs (.npy files of finite float32 or float64). Each may be [..], "
      "[h, ..] or\n[b, h, ..], with h heads and b batch items. A tensor with "
      "fewer of these axes,\nor with an axis of 1, is shared; a tensor with "
      "fewer heads is shared by\nneighbouring heads",
      entry.at("inputs"));
  PrintTensors("Outputs (\"expected\" of case.json)", entry.at("outputs"));
  fmt::print("\nImplementations{}:\n",
             HasBackward(entry) ? "" : " (only the forward pass is defined)");
  PrintImplementations(entry);
  fmt::print("\nA case.json, read by `subquad check FOLDER`:\n{}\n\n",
             entry.at("case").dump(2));
}

void List(const std::vector<std::string>& names, bool json) {
  std::vector<const Operator*> chosen;
  for (const std::string& name : names) chosen.push_back(&FindOperator(name));
  if (chosen.empty()) chosen = Operators();
  Json list = Json::array();
  for (const Operator* op : chosen) list.push_back(ListOperator(*op));
  if (json) fmt::print("{}\n", list.dump(2));
  for (const Json& entry : json ? Json::array() : list)
    names.empty() ? PrintSummary(entry) : PrintDetails(entry);
}

}  // namespace

void AddListCommand(CLI::App& program, int&) {
  auto* command = program.add_subcommand(
      "list", "list operators and implementations; describe an operator");
  auto json = std::make_shared<bool>(false);
  auto names = std::make_shared<std::vector<std::string>>();
  command->add_option("--operator", *names,
                      "describe this operator: parameters, shapes, a sample "
                      "case.json (repeatable)");
  AddTargetOption(*command);
  command->add_flag("--json", *json,
                    "print everything as JSON (list.schema.json)");
  command->callback([json, names] { List(*names, *json); });
}

}  // namespace subquad
