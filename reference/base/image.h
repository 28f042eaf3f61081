// Parameters of operators on images: pixel (r, c) of a height x width image is
// position r*width + c.
#pragma once

#include <cmath>
#include <vector>

#include "reference/base/params.h"

namespace subquad {

// The pixels of an image, in the symbols of shapes.
inline constexpr char kPixels[] = "height*width";

inline std::vector<ParamRule> ImageParams() {
  std::vector<ParamRule> rules = {
      ParamRule::Integer("height", "rows of the image", 1),
      ParamRule::Integer("width", "columns of the image", 1)};
  for (ParamRule& rule : rules) rule.follows_n = true;
  return rules;
}

// The most nearly square image of n pixels, wider than high, where the
// parameters do not say.
inline void CompleteImage(int64_t n, Params& params) {
  if (params.Has("height") && !params.Has("width"))
    params.Set("width", std::max<int64_t>(1, n / params.Integer("height")));
  if (params.Has("width") && !params.Has("height"))
    params.Set("height", std::max<int64_t>(1, n / params.Integer("width")));
  if (params.Has("height")) return;
  int64_t height = static_cast<int64_t>(std::sqrt(static_cast<double>(n)));
  while (height > 1 && n % height != 0) --height;
  params.Set("height", std::max<int64_t>(1, height));
  params.Set("width", n / std::max<int64_t>(1, height));
}

}  // namespace subquad
