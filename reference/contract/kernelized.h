// Sizes of kernelized attention and the layout of its relative bias, for
// implementations on CPU and GPU.
#pragma once

#include <algorithm>
#include <cstdint>

#include "reference/contract/seen_keys.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad {

// Places tokens on a line on which the offset of two tokens is the difference
// of their positions, in an image too: there a row of W pixels occupies 2 W - 1
// positions, as many as there are column offsets. Also used in kernels.
struct TokenPositions {
  int64_t image_width;  // 0: a sequence

  constexpr int64_t RowStride() const { return 2 * image_width - 1; }
  constexpr int64_t Of(int64_t token) const {
    return image_width == 0
               ? token
               : token / image_width * RowStride() + token % image_width;
  }
  // Returns the token at a position, or -1.
  constexpr int64_t TokenAt(int64_t position) const {
    if (image_width == 0) return position;
    const int64_t column = position % RowStride();
    return column < image_width ? position / RowStride() * image_width + column
                                : -1;
  }
};

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
        seen(problem),
        normaliser(NormaliserOf(problem)),
        has_bias(problem.HasInput("bias")),
        positions{problem.params.Has("width") ? problem.Dim("width") : 0} {}

  bool is_image() const { return positions.image_width > 0; }
  int64_t width() const { return positions.image_width; }  // of an image
  int64_t height() const { return n_q / width(); }

  // Returns the number of entries of one bias vector or, on an image, of one
  // bias matrix.
  int64_t BiasCount() const {
    return positions.Of(n_q - 1) + positions.Of(n_k - 1) + 1;
  }

  // Returns the index of the bias entry for i = j. The entry for query i and
  // key j follows positions.Of(j) - positions.Of(i) after it.
  int64_t BiasMiddle() const { return positions.Of(n_q - 1); }
  int64_t BiasIndex(int64_t i, int64_t j) const {
    return BiasMiddle() + positions.Of(j) - positions.Of(i);
  }

  // True if causality lets some query see a key at entry t of the bias.
  bool MayBeSeen(int64_t t) const {
    return !causal || t - BiasMiddle() <= seen.first();
  }

  FeatureMapSpec map;
  int64_t n_q, n_k, d, e, f, heads;
  bool causal;
  SeenKeys seen;
  Normaliser normaliser;
  bool has_bias;
  TokenPositions positions;
};

}  // namespace subquad
