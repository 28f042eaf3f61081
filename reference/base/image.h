// Parameters of operators on images: pixel (r, c) of a height x width image is
// position r*width + c.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/base/params.h"

namespace subquad {

// The number of pixels, in the symbols of shapes.
inline constexpr char kPixels[] = "height*width";

inline std::vector<ParamRule> ImageParams() {
  std::vector<ParamRule> rules = {
      ParamRule::Integer("height", "rows of the image", 1),
      ParamRule::Integer("width", "columns of the image", 1)};
  for (ParamRule& rule : rules) rule.follows_n = true;
  return rules;
}

// Completes the image's height and width: without either, chooses the most
// nearly square image of n pixels whose height is at most its width.
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

// Index of query i and key j in a bias by offset, for a sequence of `n_q`
// queries or for an image of this width and n_q pixels.
struct BiasByOffset {
  int64_t n_q, width;  // 0: a sequence
  int64_t Index(int64_t i, int64_t j) const {
    if (width == 0) return j - i + n_q - 1;
    const int64_t rows = j / width - i / width + n_q / width - 1;
    const int64_t columns = j % width - i % width + width - 1;
    return rows * (2 * width - 1) + columns;
  }
};

}  // namespace subquad
