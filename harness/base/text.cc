#include "harness/base/text.h"

#include <sstream>

#include "reference/base/invalid_input.h"

namespace subquad {

std::vector<std::string> Split(const std::string& text, char separator) {
  std::vector<std::string> parts;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, separator);)
    parts.push_back(part);
  return parts;
}

std::string Counted(size_t count, const std::string& noun) {
  return std::to_string(count) + " " + noun + (count == 1 ? "" : "s");
}

int64_t ParseInteger(const std::string& subject, const std::string& text,
                     int64_t min, const std::string& expected) {
  const auto value = ParseNumber<int64_t>(text);
  if (!value || *value < min)
    throw InvalidInput(subject, expected, "'" + text + "'");
  return *value;
}

}  // namespace subquad
