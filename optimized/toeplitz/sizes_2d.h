// The sizes of toeplitz_2d.
#pragma once

#include <cstdint>
#include <vector>

#include "optimized/toeplitz/fft_lengths.h"
#include "reference/contract/implementation.h"

namespace subquad {

struct Toeplitz2dSizes {
  explicit Toeplitz2dSizes(const Problem& problem)
      : height(problem.Dim("height")),
        width(problem.Dim("width")),
        e(problem.Dim("e")),
        heads(problem.heads),
        vectors(problem.SlicesOf("weights")) {}
  int64_t pixels() const { return height * width; }
  int64_t pitch() const { return 2 * width - 1; }  // of the weights
  std::vector<int64_t> lengths() const {
    return ImageFftLengths(height, width);
  }
  int64_t height, width, e, heads;
  Slices vectors;  // of weights
};

}  // namespace subquad
