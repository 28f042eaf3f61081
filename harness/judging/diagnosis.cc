#include "harness/judging/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace subquad {
namespace {

// Returns ", heads 0, 2 of 8", or nothing if there is only one.
std::string Axis(const char* name, const std::vector<int64_t>& which,
                 int64_t of) {
  constexpr size_t kNamed = 4;
  if (of == 1) return "";
  if (std::ssize(which) == of) return fmt::format(", all {} {}s", of, name);
  if (which.size() == 1)
    return fmt::format(", {} {} of {}", name, which[0], of);
  std::string text;
  for (size_t i = 0; i < std::min(which.size(), kNamed); ++i)
    text += fmt::format("{}{}", i ? ", " : "", which[i]);
  if (which.size() > kNamed)
    text += fmt::format(" and {} more", which.size() - kNamed);
  return fmt::format(", {}s {} of {}", name, text, of);
}

}  // namespace

std::string Resemblance::Text() const {
  if (name.empty())
    return fmt::format("resembles none of the {} mistakes tried", known);
  if (!std::isfinite(tolerances)) return "looks like: " + name;
  return fmt::format(
      "looks like: {} (your output differs from that mistake's by {:.2g} "
      "tolerances)",
      name, tolerances);
}

std::string WrongElements::Text() const {
  const std::string rows_text =
      first_row == last_row
          ? fmt::format("row {} of {}", first_row, rows)
          : fmt::format("rows {} to {} of {}", first_row, last_row, rows);
  return rows_text + Axis("head", heads, of_heads) +
         Axis("batch item", items, of_items);
}

double Diagnosis::Share() const {
  int64_t wrong = 0;
  for (const WrongElements& output : outputs) wrong += output.wrong;
  return elements == 0
             ? 0
             : static_cast<double>(wrong) / static_cast<double>(elements);
}

std::string Diagnosis::ShareText() const {
  const double percent = 100 * Share();
  if (percent == 100) return "100 % of elements";
  if (percent > 99) return "over 99 % of elements";
  return fmt::format("{:.2g} % of elements", percent);
}

}  // namespace subquad
