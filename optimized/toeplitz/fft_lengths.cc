#include "optimized/toeplitz/fft_lengths.h"

#include <algorithm>
#include <cmath>

namespace subquad {

int64_t GoodFftLength(int64_t n) {
  if (n <= 2) return std::max<int64_t>(n, 1);
  int64_t best = 0;
  for (int64_t odd : {1, 3, 5, 15}) {
    int64_t length = odd * 2;
    while (length < n) length *= 2;
    if (best == 0 || length < best) best = length;
  }
  return best;
}

std::vector<int64_t> ImageFftLengths(int64_t height, int64_t width) {
  return {GoodFftLength(2 * height - 1), GoodFftLength(2 * width - 1)};
}

double RoundingsOfTransforms(const std::vector<int64_t>& lengths) {
  double log_length = 0;
  for (int64_t length : lengths)
    log_length += std::log2(static_cast<double>(length));
  return 2 * (log_length + 1);
}

}  // namespace subquad
