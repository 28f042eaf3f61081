// The verdict on a claim, and tables in Markdown that list verdicts.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace subquad {

enum class ClaimVerdict {
  kReproduced,      // by measured numbers, or the paper's own, that could have
                    // contradicted it
  kByConstruction,  // our program equals our definition: a test of ourselves
  kInPart,
  kNotReproduced,
  kWrongAsPrinted,  // every erratum of the claim is confirmed
  kNotMeasured,     // the files given lack the sweep or study that it needs
  kNotAttempted,    // it could be answered; its row says what that takes
  kCannotBeTested   // nothing that this program could measure answers it
};
inline constexpr ClaimVerdict kClaimVerdicts[] = {
    ClaimVerdict::kReproduced,     ClaimVerdict::kByConstruction,
    ClaimVerdict::kInPart,         ClaimVerdict::kNotReproduced,
    ClaimVerdict::kWrongAsPrinted, ClaimVerdict::kNotMeasured,
    ClaimVerdict::kNotAttempted,   ClaimVerdict::kCannotBeTested};
std::string_view ToString(ClaimVerdict verdict);

// A table in Markdown; bars in cells are escaped, newlines become spaces.
std::string MarkdownTable(const std::vector<std::string>& columns,
                          const std::vector<std::vector<std::string>>& rows);

}  // namespace subquad
