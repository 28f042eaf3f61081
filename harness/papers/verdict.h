// The verdict on a claim of a paper, and the tables that list verdicts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace subquad {

enum class ClaimVerdict {
  kReproduced,
  kInPart,
  kNotReproduced,
  kWrongAsPrinted,  // every erratum confirmed: a formula is wrong, its
                    // correction right
  kNotMeasured,     // the files given lack the sweep or study that it needs
  kCannotBeTested   // nothing that is measured here can answer it
};
inline constexpr ClaimVerdict kClaimVerdicts[] = {
    ClaimVerdict::kReproduced,    ClaimVerdict::kInPart,
    ClaimVerdict::kNotReproduced, ClaimVerdict::kWrongAsPrinted,
    ClaimVerdict::kNotMeasured,   ClaimVerdict::kCannotBeTested};
std::string_view ToString(ClaimVerdict verdict);

// A table in Markdown; bars in cells are escaped, newlines become spaces.
std::string MarkdownTable(const std::vector<std::string>& columns,
                          const std::vector<std::vector<std::string>>& rows);

}  // namespace subquad
