// Sizes of kernelized attention and the layout of its relative bias, as CPU and
// GPU programs both need them.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/kernelized/feature_map_spec.h"

namespace subquad {

struct KernelizedShape {
  explicit KernelizedShape(const Problem& problem)
      : map(FeatureMapOf(problem)),
        n_q(QueriesOf(problem)),
        n_k(KeysOf(problem)),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        f(map.features()),
        heads(problem.heads),
        causal(problem.params.Flag("causal")),
        has_bias(problem.HasInput("bias")),
        image_width(problem.params.Has("width") ? problem.Dim("width") : 0) {}

  int64_t SeenBy(int64_t i) const {
    return causal ? std::min(i + 1, n_k) : n_k;
  }

  // Entries of one bias vector; on an image, of one bias matrix.
  int64_t BiasCount() const {
    if (image_width == 0) return n_q + n_k - 1;
    return (2 * (n_q / image_width) - 1) * (2 * image_width - 1);
  }

  // The entry of the bias for query i and key j.
  int64_t BiasIndex(int64_t i, int64_t j) const {
    const int64_t width = image_width;
    if (width == 0) return j - i + n_q - 1;
    return (j / width - i / width + n_q / width - 1) * (2 * width - 1) +
           j % width - i % width + width - 1;
  }

  // Does some query see a key at entry t of the bias, as far as causality goes?
  bool MayBeSeen(int64_t t) const {
    if (!causal) return true;
    const int64_t width = image_width;
    if (width == 0) return t <= n_q - 1;
    const int64_t row = t / (2 * width - 1) - (n_q / width - 1);
    const int64_t column = t % (2 * width - 1) - (width - 1);
    return row < 0 || (row == 0 && column <= 0);
  }

  FeatureMapSpec map;
  int64_t n_q, n_k, d, e, f, heads;
  bool causal, has_bias;
  int64_t image_width;  // 0: no image
};

}  // namespace subquad
