// Terms of a score that depend on both tokens of a pair, added to scores in
// memory: the steps of position_attention other than products of matrices.
#pragma once

#include <cstdint>

#include "cuda/base/launch.h"

namespace subquad::device {

// Keys in a block that is multiplied by offsets.
inline constexpr int64_t kKeysOfBlock = 64;

// Computes out[h][n - 1 - j] = rows[h][j], for rows of `width` elements.
void ReverseRows(const float* rows, int64_t heads, int64_t n, int64_t width,
                 int64_t out_head_stride, float* out);

// Computes
//   scores[h][i][j] += by_offset[h][i][j - i + rows - 1]
//                    + by_key[h][j'][i + j' mod kKeysOfBlock], j' = n - 1 - j.
// by_offset [heads, rows, offset_stride], by_key [heads, padded_keys,
// key_stride], scores [heads, rows, stride] for n keys.
void AddOffsetTerms(const float* by_offset, int64_t offset_stride,
                    const float* by_key, int64_t key_stride,
                    int64_t padded_keys, int64_t heads, int64_t rows, int64_t n,
                    int64_t stride, float* scores);

// Rows of d elements, one for each pair of a query and a key.
struct PairRows {
  const float* first;
  int64_t query_stride, key_stride;

  __device__ const float* Of(int64_t i, int64_t j) const {
    return first + i * query_stride + j * key_stride;
  }
};

// Computes scores[i][j] += a(i, j) . b(i, j), with scores [queries, stride] for
// n keys.
void AddPairProducts(PairRows a, PairRows b, int64_t d, int64_t queries,
                     int64_t n, int64_t stride, float* scores);

}  // namespace subquad::device
