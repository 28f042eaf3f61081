// The schemes of position_attention by name. No arithmetic.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "reference/base/params.h"

namespace subquad {

enum class PositionScheme {
  kAbsolute,
  kAbsoluteScores,
  kUntied,
  kShaw,
  kBias,
  kMultiplicative,
  kDeberta
};

inline const std::vector<std::string>& PositionSchemeNames() {
  static const std::vector<std::string> names = {
      "absolute", "absolute_scores", "untied", "shaw",
      "bias",     "multiplicative",  "deberta"};
  return names;
}

inline PositionScheme PositionSchemeOf(const Params& params) {
  const auto& names = PositionSchemeNames();
  return static_cast<PositionScheme>(
      std::find(names.begin(), names.end(), params.Text("scheme")) -
      names.begin());
}

// True if the third term of deberta uses rel(j-i), as the released code does,
// instead of rel(i-j), as the paper says.
inline bool TakesReleasedOrder(const Params& params) {
  return params.Has("p2c") && params.Text("p2c") == "released";
}

}  // namespace subquad
