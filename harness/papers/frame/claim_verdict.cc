#include "harness/papers/frame/claim_verdict.h"

namespace subquad {

std::string_view ToString(ClaimVerdict verdict) {
  switch (verdict) {
    case ClaimVerdict::kReproduced:
      return "reproduced";
    case ClaimVerdict::kByConstruction:
      return "holds by construction";
    case ClaimVerdict::kInPart:
      return "in part";
    case ClaimVerdict::kNotReproduced:
      return "not reproduced";
    case ClaimVerdict::kWrongAsPrinted:
      return "wrong as printed";
    case ClaimVerdict::kNotMeasured:
      return "not measured";
    case ClaimVerdict::kNotAttempted:
      return "not attempted";
    case ClaimVerdict::kCannotBeTested:
      return "cannot be tested here";
  }
  return "";
}

std::string MarkdownTable(const std::vector<std::string>& columns,
                          const std::vector<std::vector<std::string>>& rows) {
  std::string text;
  const auto add = [&](const std::vector<std::string>& cells) {
    text += "|";
    for (const std::string& cell : cells) {
      text += " ";
      for (char c : cell)
        text += c == '|' ? "\\|" : c == '\n' ? " " : std::string(1, c);
      text += " |";
    }
    text += "\n";
  };
  add(columns);
  text += "|";
  for (size_t c = 0; c < columns.size(); ++c) text += "---|";
  text += "\n";
  for (const auto& row : rows) add(row);
  return text;
}

}  // namespace subquad
