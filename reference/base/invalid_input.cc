#include "reference/base/invalid_input.h"

#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include "reference/base/field_words.h"

namespace subquad {
namespace {

// With more names than this, the message puts the suggestion before the list.
constexpr size_t kMostListed = 8;

// Common names of other projects for ours.
constexpr std::pair<std::string_view, std::string_view> kAliases[] = {
    {"gpu", "cuda"},     {"f32", "float32"},  {"fp32", "float32"},
    {"f64", "float64"},  {"fp64", "float64"}, {"double", "float64"},
    {"f16", "float16"},  {"fp16", "float16"}, {"half", "float16"},
    {"bf16", "bfloat16"}};

// Levenshtein distance: edits (insert, delete, replace one character) from `a`
// to `b`.
size_t Distance(std::string_view a, std::string_view b) {
  std::vector<size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), size_t{0});
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = row[0];
    row[0] = i;
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t replaced = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

// Returns the known name that was probably meant, or "".
std::string Nearest(const std::vector<std::string>& names,
                    const std::string& found) {
  constexpr size_t kLongest = 100;  // text from outside may be of any length
  if (found.empty() || found.size() > kLongest) return "";
  for (const auto& [alias, name] : kAliases)
    if (found == alias && std::ranges::find(names, name) != names.end())
      return std::string(name);
  std::string nearest;
  size_t least = std::max<size_t>(2, found.size() / 3) + 1;
  for (const std::string& name : names) {
    const bool part = found.size() > 2 && name.find(found) != std::string::npos;
    const size_t distance = part ? 1 : Distance(found, name);
    if (distance >= std::min(least, found.size())) continue;
    least = distance;
    nearest = name;
  }
  return nearest;
}

}  // namespace

InvalidInput UnknownName(const std::string& subject,
                         const std::vector<std::string>& names,
                         const std::string& found) {
  const std::string advice = FieldAdvice(found),
                    nearest = Nearest(names, found);
  const std::string suggestion = !advice.empty() ? " (" + advice + ")"
                                 : !nearest.empty()
                                     ? " (did you mean '" + nearest + "'?)"
                                     : "";
  std::string list;
  for (const std::string& name : names)
    list += (list.empty() ? "" : ", ") + name;
  if (names.size() > kMostListed)
    return InvalidInput(subject + ": unknown name '" + found + "'" +
                        suggestion + "; expected one of " + list);
  return InvalidInput(
      subject,
      names.empty() ? "none" : (names.size() > 1 ? "one of " : "") + list,
      "'" + found + "'" + suggestion);
}

}  // namespace subquad
