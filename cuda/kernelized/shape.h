// What the algorithms of kernelized attention on a device share: sizes, and the
// weights c = exp(bias) by offset.
#pragma once

#include "cuda/kernelized/features.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad::device {

struct KernelizedShape {
  explicit KernelizedShape(const Problem& problem)
      : map(FeatureMapOf(problem)),
        n_q(QueriesOf(problem)),
        n_k(KeysOf(problem)),
        e(problem.Dim("e")),
        f(map.features()),
        heads(problem.heads),
        causal(problem.params.Flag("causal")),
        image_width(problem.params.Has("width") ? problem.Dim("width") : 0) {
    if (problem.HasInput("bias")) {
      bias_vectors = problem.PerHead("bias") ? heads : 1;
      bias_count = image_width == 0
                       ? n_q + n_k - 1
                       : (2 * (n_q / image_width) - 1) * (2 * image_width - 1);
    }
    // Keys behind the last query are seen by none.
    if (causal) n_k = std::min(n_k, n_q);
  }

  FeatureShape features() const { return {map, n_q, n_k, heads}; }

  FeatureMapSpec map;
  int64_t n_q, n_k, e, f, heads;
  bool causal;
  int64_t image_width;                       // 0: no image
  int64_t bias_vectors = 0, bias_count = 0;  // 0: no bias
};

// The entry of the bias for query i and key j is Of(j) - Of(i) behind that for
// i = j, in an image too: there pixels stand in rows of 2 W - 1 positions.
struct Positions {
  int64_t image_width;
  __host__ __device__ int64_t Of(int64_t token) const {
    return image_width == 0 ? token
                            : token / image_width * (2 * image_width - 1) +
                                  token % image_width;
  }
  // The token at a position, or -1.
  __device__ int64_t TokenAt(int64_t position) const {
    if (image_width == 0) return position;
    const int64_t column = position % (2 * image_width - 1);
    return column < image_width
               ? position / (2 * image_width - 1) * image_width + column
               : -1;
  }
};

// exp(bias) in device memory; without a bias, `at` is null.
struct BiasWeights {
  const Scaled* at = nullptr;  // that for i = j of head 0
  int64_t head_stride = 0;
  Positions positions = {0};
};

class BiasTable {
 public:
  explicit BiasTable(const KernelizedShape& shape);
  template <typename S>
  void Run(HeadArray<const S> bias);

  BiasWeights weights() const;
  // Of every vector, over the entries that some query may see: the largest
  // exponent, and the 2-norm of exp(bias) divided by that power of two.
  const int* tops() const { return tops_.data(); }
  const float* norms() const { return norms_.data(); }

  static double WorkspaceBytes(const KernelizedShape& shape) {
    return 8.0 *
           static_cast<double>(shape.bias_vectors * (shape.bias_count + 1));
  }

 private:
  // The entry for i = j.
  int64_t Middle() const;

  const KernelizedShape shape_;
  DeviceBuffer<Scaled> table_;  // [vectors, count]
  DeviceBuffer<int> tops_;
  DeviceBuffer<float> norms_;
};

}  // namespace subquad::device
