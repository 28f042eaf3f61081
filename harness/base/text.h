// Numbers and lists in the text of options and of case ids.
#pragma once

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace subquad {

// The parts between separators; none after a separator at the end.
std::vector<std::string> Split(const std::string& text, char separator);

// Nothing unless the whole text is one number.
template <typename T>
std::optional<T> ParseNumber(const std::string& text) {
  T value = 0;
  const auto [end, error] =
      std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return {};
  return value;
}

// Throws InvalidInput unless the whole text is an integer of at least `min`.
int64_t ParseInteger(const std::string& subject, const std::string& text,
                     int64_t min = std::numeric_limits<int64_t>::min(),
                     const std::string& expected = "an integer");

}  // namespace subquad
