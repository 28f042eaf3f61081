// Feature maps of rows of q and k (feature_map_spec.h) as float32 arrays in
// device memory: the first step of all kernelized attention.
//
// The arrays are scaled by powers of two so that nothing leaves float32's
// range, and all these factors cancel in the quotient of a normalised
// attention:
//
//   keys    [heads, n_k, f]   phi_a(k_j) 2^-(K_a + r_j)
//   queries [heads, n_q, f]   phi_a(q_i) 2^(K_a - t_i)
//
// K_a is the largest exponent of feature a over the keys, and t_i the exponent
// that brings the largest feature of query i to about one. r_j is 0, or with
// KeyScaling::kRows the exponent that brings the largest feature of key j to
// about one. So
//   sum_a queries[i][a] keys[j][a] 2^r_j = phi(q_i) . phi(k_j) 2^-t_i.
//
// With KeyScaling::kChunks, K_a of a token is the maximum over the keys of its
// chunk of 64 and of all earlier chunks: a causal query must not lose visible
// keys to larger keys of the future. A sum over keys of earlier chunks moves to
// the scale of chunk c by 2^(K_a[earlier] - K_a[c]).
#pragma once

#include <optional>

#include "cuda/base/gemm.h"
#include "cuda/base/launch.h"
#include "cuda/kernelized/scaled.h"
#include "reference/contract/implementation.h"
#include "reference/kernelized/feature_map_spec.h"

namespace subquad::device {

struct FeatureShape {
  FeatureMapSpec map;
  int64_t n_q, n_k, heads;
};

enum class KeyScaling { kShared, kRows, kChunks };

// Tokens of one chunk.
inline constexpr int64_t kChunk = 64;

// The exponents K_a: [f] for every head, or for every chunk of a head.
struct KeyExponents {
  const int* data = nullptr;
  int64_t head_stride = 0, chunk_stride = 0;  // chunk_stride 0: one for all
                                              // chunks
  __device__ const int* Of(int64_t head, int64_t token) const {
    return data + head * head_stride + token / kChunk * chunk_stride;
  }
};

class Features {
 public:
  // `copies_omega` is needed for a Run whose X and O differ.
  Features(Layout& layout, const FeatureShape& shape, KeyScaling scale,
           bool copies_omega = false);

  // Computes the features of q [n_q, d] and k [n_k, d]. `omega` has the map's
  // projections; it is {} if the map has none. If q and k are float32 and omega
  // has another type (X is float, O is not), omega is converted to a copy.
  template <typename X, typename O>
  void Run(HeadArray<const X> q, HeadArray<const X> k,
           HeadArray<const O> omega);

  const float* queries() const { return queries_.data(); }
  const float* keys() const { return keys_.data(); }
  // Returns r_j [heads, n_k], or null.
  const int* row_exponents() const { return row_exponents_.data(); }
  // Returns, for KeyScaling::kChunks, the exponents of all chunks with queries
  // or keys.
  KeyExponents exponents() const;

  static double Flops(const FeatureShape& shape);

 private:
  static int64_t Pieces(const FeatureShape& shape, KeyScaling scale);
  static bool HasFactors(const FeatureShape& shape) {
    return shape.map.projects() || shape.map.normalize;
  }
  static int64_t OmegaCopies(const FeatureShape& shape, bool copies_omega) {
    return copies_omega ? shape.heads * shape.map.projections * shape.map.d : 0;
  }
  template <FeatureMapId kMap, typename X>
  void RunMap(HeadArray<const X> q, HeadArray<const X> k,
              HeadArray<const X> omega);

  const FeatureShape shape_;
  const KeyScaling scale_;
  const int64_t pieces_;
  DeviceBuffer<float> queries_, keys_, factors_, half_squares_, omega_;
  DeviceBuffer<int> row_exponents_, exponents_;
  std::optional<Gemm> gemm_;
};

}  // namespace subquad::device
