// Attention of all queries to a reduced number of keys and values, by two
// algorithms; shared by linformer_attention and memory_compressed_attention.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/softmax/softmax_tiles.h"

namespace subquad {

struct AttentionSizes {
  int64_t n_q, keys, d, e;
};

// Uses two GEMMs with the scores [n_q, keys] in memory.
template <typename T>
class DenseToReduced {
 public:
  static constexpr int64_t kRowBlock = 256;

  DenseToReduced(Layout& layout, const AttentionSizes& sizes)
      : sizes_(sizes), scores_(layout, sizes.n_q * sizes.keys) {}

  void Run(ThreadPool& pool, T scale, const T* queries, const T* keys,
           const T* values, T* outs) {
    const auto [n_q, count, d, e] = sizes_;
    const auto k = RowsOf(keys, count, d);
    const auto v = RowsOf(values, count, e);
    pool.For((n_q + kRowBlock - 1) / kRowBlock, [&](int64_t block, int) {
      const int64_t first = block * kRowBlock;
      const int64_t rows = std::min(kRowBlock, sizes_.n_q - first);
      const auto q = RowsOf(queries + first * k.cols(), rows, k.cols());
      auto scores = RowsOf(scores_.data() + first * k.rows(), rows, k.rows());
      auto out = RowsOf(outs + first * v.cols(), rows, v.cols());
      Multiply(scale, q, k.transpose(), scores);
      T sums[kRowBlock];
      for (int64_t i = 0; i < rows; ++i)
        sums[i] = ExponentiateRow<T>(scores.row(i).data(), k.rows(), nullptr);
      Multiply(T{1}, scores, v, out);
      for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
    });
  }

 private:
  const AttentionSizes sizes_;
  Buffer<T> scores_;
};

// Uses blocks of queries against tiles of keys, without storing scores.
template <typename T>
class TiledToReduced {
 public:
  TiledToReduced(Layout& layout, const AttentionSizes& sizes)
      : sizes_(sizes),
        blocks_(PartPerThread<SoftmaxBlock<T>>(layout, sizes.d, sizes.e)) {}

  void Run(ThreadPool& pool, T scale, const T* queries, const T* keys,
           const T* values, T* outs) {
    const int64_t count =
        (sizes_.n_q + kBlockQueries<T> - 1) / kBlockQueries<T>;
    pool.For(count, [&](int64_t index, int worker) {
      SoftmaxBlock<T>& block = blocks_[static_cast<size_t>(worker)];
      const int64_t d = sizes_.d, e = sizes_.e;
      const int64_t first = index * kBlockQueries<T>;
      block.Begin(queries + first * d, d,
                  std::min(kBlockQueries<T>, sizes_.n_q - first), scale);
      for (int64_t j = 0; j < sizes_.keys; j += kTileKeys) {
        block.Scores(keys + j * d, d, std::min(kTileKeys, sizes_.keys - j));
        block.Accumulate(values + j * e, e);
      }
      block.End(outs + first * e, e);
    });
  }

 private:
  const AttentionSizes sizes_;
  std::vector<SoftmaxBlock<T>> blocks_;
};

}  // namespace subquad
