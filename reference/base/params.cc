#include "reference/base/params.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace subquad {
namespace {

std::string NumberToString(double value) {
  char text[32];
  auto end = std::to_chars(text, text + sizeof text, value).ptr;
  return std::string(text, end);
}

struct Printer {
  std::string operator()(bool value) const { return value ? "true" : "false"; }
  std::string operator()(int64_t value) const { return std::to_string(value); }
  std::string operator()(double value) const { return NumberToString(value); }
  std::string operator()(const std::string& value) const { return value; }
  template <typename T>
  std::string operator()(const std::vector<T>& values) const {
    std::string text = "[";
    for (const T& value : values)
      text += (text.size() > 1 ? ", " : "") + (*this)(value);
    return text + "]";
  }
};

std::string TypeName(ParamType type) {
  switch (type) {
    case ParamType::kFlag:
      return "true or false";
    case ParamType::kInteger:
      return "an integer";
    case ParamType::kNumber:
      return "a finite number";
    case ParamType::kText:
      return "a string";
    case ParamType::kList:
      return "a list of integers";
    case ParamType::kTable:
      return "a list of lists of integers";
  }
  return "";
}

std::string Range(const ParamRule& rule, int64_t value) {
  // Names the upper end only if the value is above it.
  if (rule.max == kMaxInteger && value < rule.min)
    return "at least " + std::to_string(rule.min);
  return "an integer from " + std::to_string(rule.min) + " to " +
         std::to_string(rule.max);
}

std::string Expected(const ParamRule& rule) {
  if (rule.type == ParamType::kNumber)
    return TypeName(rule.type) +
           (rule.may_be_zero ? " of at least 0" : " greater than 0");
  if (rule.may_be_list) return TypeName(rule.type) + " or a list of integers";
  if (rule.type != ParamType::kText) return TypeName(rule.type);
  std::string choices;
  for (const std::string& choice : rule.choices)
    choices += (choices.empty() ? "one of " : ", ") + choice;
  return choices;
}

void CheckRange(const ParamRule& rule, int64_t value) {
  if (value < rule.min || value > rule.max)
    throw InvalidInput("parameter " + rule.name, Range(rule, value),
                       std::to_string(value));
}

// Returns a value that was refused as text. A text such as "3" has quotes,
// unless it does not look like a value of another type. Where 20.0 is
// refused because it is no integer, it does not look like one.
std::string Found(const ParamRule& rule, const ParamValue& value) {
  const std::string text = ToString(value);
  if (std::holds_alternative<std::string>(value)) {
    const bool looks_typed =
        text == "true" || text == "false" ||
        text.find_first_not_of("-+.0123456789e") == std::string::npos;
    return looks_typed ? '"' + text + '"' : text;
  }
  const bool looks_whole =
      rule.type != ParamType::kNumber &&
      std::holds_alternative<double>(value) &&
      text.find_first_not_of("-0123456789") == std::string::npos;
  return looks_whole ? text + ".0" : text;
}

void CheckValue(const ParamRule& rule, ParamValue& value) {
  const std::string subject = "parameter " + rule.name;
  auto wrong_type = [&] {
    return InvalidInput(subject, Expected(rule), Found(rule, value));
  };
  switch (rule.type) {
    case ParamType::kFlag:
      if (!std::holds_alternative<bool>(value)) throw wrong_type();
      break;
    case ParamType::kInteger:
      if (const IntegerList* list = std::get_if<IntegerList>(&value);
          list && rule.may_be_list) {
        for (int64_t entry : *list) CheckRange(rule, entry);
        break;
      }
      if (!std::holds_alternative<int64_t>(value)) throw wrong_type();
      CheckRange(rule, std::get<int64_t>(value));
      break;
    case ParamType::kNumber: {
      if (const int64_t* integer = std::get_if<int64_t>(&value))
        value = static_cast<double>(*integer);
      const double* number = std::get_if<double>(&value);
      if (!number || !std::isfinite(*number) ||
          !(*number > 0 || (rule.may_be_zero && *number == 0)))
        throw wrong_type();
      break;
    }
    case ParamType::kText: {
      const std::string* text = std::get_if<std::string>(&value);
      if (!text) throw wrong_type();
      if (std::find(rule.choices.begin(), rule.choices.end(), *text) ==
          rule.choices.end())
        throw UnknownName(subject, rule.choices, *text);
      break;
    }
    case ParamType::kList: {
      const IntegerList* list = std::get_if<IntegerList>(&value);
      if (!list) throw wrong_type();
      for (int64_t entry : *list) CheckRange(rule, entry);
      break;
    }
    case ParamType::kTable: {
      // An empty list may be a list of integers or a list of lists.
      if (const IntegerList* list = std::get_if<IntegerList>(&value);
          list && list->empty())
        value = IntegerTable{};
      const IntegerTable* table = std::get_if<IntegerTable>(&value);
      if (!table) throw wrong_type();
      for (const IntegerList& list : *table)
        for (int64_t entry : list) CheckRange(rule, entry);
      break;
    }
  }
}

}  // namespace

std::string ToString(const ParamValue& value) {
  return std::visit(Printer{}, value);
}

void CheckParams(const std::vector<ParamRule>& rules, Params& params) {
  for (const auto& entry : params.values()) {
    const std::string& name = entry.first;
    const bool known =
        std::any_of(rules.begin(), rules.end(),
                    [&](const ParamRule& rule) { return rule.name == name; });
    if (known) continue;
    std::vector<std::string> names;
    for (const ParamRule& rule : rules) names.push_back(rule.name);
    throw UnknownName("parameter", names, name);
  }
  for (const ParamRule& rule : rules) {
    if (!params.Has(rule.name)) {
      if (rule.required)
        throw InvalidInput("parameter " + rule.name, Expected(rule), "none");
      continue;
    }
    ParamValue value = params.values().at(rule.name);
    CheckValue(rule, value);
    params.Set(rule.name, std::move(value));
  }
}

}  // namespace subquad
