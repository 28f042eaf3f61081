// Sizes of kernelized attention and the layout of its relative bias, for
// implementations on CPU and GPU.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "reference/contract/pair_places.h"
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
        masks_pairs(problem.HasInput("mask") &&
                    PairPlaces::Of(problem, "mask").query > 0),
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

  // True if causality and windows let some query see a key at entry t of the
  // bias.
  bool MayBeSeen(int64_t t) const {
    const int64_t ahead = t - BiasMiddle();
    return ahead >= seen.FirstOfZero() && ahead <= seen.LastOfZero();
  }

  // True if quadratic algorithms weigh pairs by more than their features.
  bool WeighsPairs() const {
    return has_bias || masks_pairs || seen.LimitsBehind();
  }

  // Returns about how many pairs of a head causality and windows leave visible.
  double SeenPairs() const {
    if (!seen.LimitsBehind() && (causal || !seen.LimitsAhead()))
      return static_cast<double>(n_q) * static_cast<double>(n_k) *
             (causal ? 0.5 : 1);
    double pairs = 0;
    for (int64_t i = 0; i < n_q; ++i)
      pairs += static_cast<double>(seen.By(0, i) - seen.From(0, i));
    return pairs;
  }

  FeatureMapSpec map;
  int64_t n_q, n_k, d, e, f, heads;
  bool causal;
  SeenKeys seen;
  Normaliser normaliser;
  bool has_bias;
  bool masks_pairs;  // the mask has an entry for each query
  TokenPositions positions;
};

// What algorithms refuse that keep features of keys only: they cannot hide
// single pairs.
inline std::vector<Refusal> FeaturesOfKeysRefuse() {
  return {{.name = "mask",
           .why = "this algorithm takes a mask of keys, [.., 1, n_k], only",
           .for_pairs_only = true}};
}

}  // namespace subquad
