#include "harness/registry/filters.h"

#include <algorithm>

#include "cuda/device.h"
#include "harness/base/tell.h"
#include "harness/base/text.h"

namespace subquad {
namespace {

constexpr const char* kAxis =
    "a list like 1024,4096 or a range like 1024:1048576:x2";

int64_t Integer(const std::string& option, const std::string& text) {
  return ParseInteger(option, text, 0, kAxis);
}

bool Contains(const std::vector<std::string>& names, std::string_view name) {
  return names.empty() || std::ranges::find(names, name) != names.end();
}

}  // namespace

void Filters::Check() const {
  for (const std::string& name : operators) FindOperator(name);
  for (const std::string& name : scalars) ParseScalar(name);
  for (const std::string& name : backends)
    if (name != "cpu" && name != "cuda")
      throw UnknownName("--backend", {"cpu", "cuda"}, name);
  const bool asks_for_device = std::ranges::count(backends, "cuda") > 0;
  if (asks_for_device && !Device().present)
    throw InvalidInput("--backend cuda", "a usable GPU", Device().why_not);
  for (const std::string& name : implementations) {
    std::vector<std::string> known;
    for (const Implementation& implementation : Implementations())
      if (Contains(operators, implementation.op) &&
          std::ranges::find(known, implementation.id) == known.end())
        known.push_back(implementation.id);
    if (std::ranges::find(known, name) != known.end()) continue;
    if (const std::string why = WhyMissing(operators, name); !why.empty())
      throw InvalidInput("--implementation: " + name + " " + why);
    throw UnknownName("--implementation", known, name);
  }
}

void Filters::TellOfUnusableDevice() const {
  if (Device().unusable && Contains(backends, "cuda"))
    Tell("GPU implementations are left out: {}\n", Device().why_not);
}

InvalidInput Filters::LeaveNothing(const std::string& which) {
  return InvalidInput(
      "the filters leave no implementation " + which +
      (Device().present
           ? ""
           : "; float16 and the backend cuda need a GPU, and this machine has "
             "none") +
      "; `subquad list` shows those that exist");
}

bool Filters::Takes(const Implementation& implementation) const {
  return Contains(operators, implementation.op) &&
         Contains(implementations, implementation.id) &&
         Contains(backends, ToString(implementation.backend));
}

bool Filters::Takes(Scalar scalar) const {
  return Contains(scalars, Info(scalar).name);
}

bool Filters::Takes(const Operator& op) const {
  return Contains(operators, op.description().id);
}

std::string Filters::ToArguments() const {
  std::string text;
  const auto add = [&](const char* option,
                       const std::vector<std::string>& values) {
    for (const std::string& value : values)
      text += std::string(" ") + option + " " + value;
  };
  add("--operator", operators);
  add("--implementation", implementations);
  add("--backend", backends);
  add("--scalar", scalars);
  return text;
}

void Filters::CheckUsed(
    const std::vector<std::pair<const Implementation*, Scalar>>& chosen) const {
  const auto check = [&](const char* option,
                         const std::vector<std::string>& values, auto name_of) {
    for (const std::string& value : values)
      if (std::ranges::none_of(
              chosen, [&](const auto& item) { return name_of(item) == value; }))
        throw InvalidInput(option,
                           "a value that selects something in combination with "
                           "the other options",
                           "'" + value + "'");
  };
  check("--operator", operators,
        [](const auto& entry) { return std::string_view(entry.first->op); });
  check("--implementation", implementations,
        [](const auto& entry) { return std::string_view(entry.first->id); });
  check("--backend", backends,
        [](const auto& entry) { return ToString(entry.first->backend); });
  check("--scalar", scalars,
        [](const auto& entry) { return Info(entry.second).name; });
}

std::vector<std::string> ParseTexts(const std::string& option,
                                    const std::string& text) {
  // Split would not notice a missing value at the end.
  if (text.ends_with(','))
    throw InvalidInput(option, "a value after each comma", "'" + text + "'");
  const std::vector<std::string> values = Split(text, ',');
  if (values.empty())
    throw InvalidInput(option, "at least one value", "'" + text + "'");
  return values;
}

std::vector<std::string> ParseAxis(const std::string& option,
                                   const std::string& text) {
  std::vector<std::string> values;
  for (const std::string& part : ParseTexts(option, text)) {
    const auto range = Split(part, ':');
    if (range.size() == 1) {
      values.push_back(part);
      continue;
    }
    if (range.size() == 2)
      throw InvalidInput(option,
                         "START:END:STEP, such as 1024:4096:x2 or 16:64:+8",
                         "'" + text + "'");
    if (range.size() != 3) throw InvalidInput(option, kAxis, "'" + text + "'");
    const bool times = range[2].starts_with('x');
    if (range[2].size() < 2 || (!times && range[2][0] != '+'))
      throw InvalidInput(
          option, "a step such as x2 (factor) or +256 at the end of the range",
          "'" + text + "'");
    const int64_t step = Integer(option, range[2].substr(1));
    const int64_t last = Integer(option, range[1]);
    if (step < (times ? 2 : 1))
      throw InvalidInput(option,
                         times ? "a factor of at least 2 after the x"
                               : "a step of at least 1 after the +",
                         "'" + text + "'");
    int64_t value = Integer(option, range[0]);
    if (times && value == 0)
      throw InvalidInput(option, "a range with a factor that begins above 0",
                         "'" + text + "'");
    if (value > last)
      throw InvalidInput(option, "a range whose end is not below its start",
                         "'" + text + "'");
    for (; value <= last; value = times ? value * step : value + step) {
      if (values.size() >= 10000)
        throw InvalidInput(option, "at most 10000 values", "more");
      values.push_back(std::to_string(value));
      if (times && value > last / step) break;
    }
  }
  return values;
}

std::vector<int64_t> ParseIntegerAxis(const std::string& option,
                                      const std::string& text, int64_t most) {
  std::vector<int64_t> values;
  for (const std::string& value : ParseAxis(option, text)) {
    const auto number = ParseNumber<int64_t>(value);
    const bool digits =
        value.find_first_not_of("0123456789") == std::string::npos;
    if (!number && (value.empty() || !digits))
      throw InvalidInput(option, kAxis, "'" + value + "'");
    if (!number || *number < 1 || *number > most)
      throw InvalidInput(option, "integers from 1 to " + std::to_string(most),
                         value);
    values.push_back(*number);
  }
  return values;
}

}  // namespace subquad
