// Parses JSON that users write: case.json, sweep configurations, recipes.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "reference/base/invalid_input.h"

namespace subquad {

// Returns the place of the byte with this number (from 1) as "line 3, column
// 7".
inline std::string PlaceInText(const std::string& text, size_t byte) {
  size_t line = 1, column = 1;
  for (size_t i = 0; i + 1 < byte && i < text.size(); ++i) {
    column = text[i] == '\n' ? 1 : column + 1;
    line += text[i] == '\n';
  }
  return fmt::format("line {}, column {}", line, column);
}

// Parses a document. `subject` names it in messages. Throws InvalidInput for
// errors of syntax, for repeated keys (the parser would silently drop a value)
// and for deep nesting (the parser and the destructor use the stack).
template <typename Json>
Json ParseJsonText(const std::string& subject, const std::string& text) {
  constexpr int kDeepest = 8;
  constexpr size_t kLongestKey = 100;
  std::vector<std::set<std::string>> keys;
  const auto check = [&](int depth, typename Json::parse_event_t event,
                         Json& parsed) {
    if (depth > kDeepest)
      throw InvalidInput(subject, fmt::format("at most {} levels", kDeepest),
                         "deeper nesting");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event != Json::parse_event_t::key) return true;
    const auto key = parsed.template get<std::string>();
    if (!keys.back().insert(key).second)
      throw InvalidInput(
          subject + ": " +
              (key.size() <= kLongestKey ? key
                                         : key.substr(0, kLongestKey) + ".."),
          "one value", "two");
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const typename Json::parse_error& error) {
    throw InvalidInput(subject, "valid JSON",
                       "an error at " + PlaceInText(text, error.byte));
  } catch (const typename Json::exception&) {  // a number beyond double
    throw InvalidInput(subject, "valid JSON with numbers that fit into float64",
                       "a larger number");
  }
}

}  // namespace subquad
