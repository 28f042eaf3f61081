// Parses numbers and lists in options and case ids.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace subquad {

// Returns the parts between separators; a separator at the end adds no part.
std::vector<std::string> Split(const std::string& text, char separator);

// Returns "1 case", "2 cases" and so on.
std::string Counted(size_t count, const std::string& noun);

// Parses a number; returns nothing unless the whole text is one.
template <typename T>
std::optional<T> ParseNumber(const std::string& text) {
  T value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// Parses an integer. Throws InvalidInput unless the whole text is an integer of
// at least `min`.
int64_t ParseInteger(const std::string& subject, const std::string& text,
                     int64_t min = std::numeric_limits<int64_t>::min(),
                     const std::string& expected = "an integer");

}  // namespace subquad
