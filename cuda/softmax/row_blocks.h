// Work in blocks of rows, so that the data that one step leaves in a workspace
// is still in the device's cache when the next step reads it.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/base/launch.h"

namespace subquad::device {

// Bytes of a workspace that is written and read again immediately: about half
// of a Hopper's second-level cache.
inline constexpr int64_t kCacheBytes = kEmulated ? 16 << 10 : 24 << 20;

// Rows first .. first + rows - 1 of each of `heads` heads.
struct RowBlock {
  int64_t first_head, heads;
  int64_t first, rows;
};

// Splits `rows` rows of each of `heads` heads into blocks whose workspace of
// `row_bytes` for each row fits the cache: all rows of several heads, or else
// some rows of one head.
class RowBlocks {
 public:
  // All blocks except the last have a multiple of this many rows.
  static constexpr int64_t kStep = 64;

  RowBlocks(int64_t rows, int64_t heads, int64_t row_bytes)
      : all_rows_(rows), all_heads_(heads) {
    const int64_t fit =
        std::max<int64_t>(kCacheBytes / row_bytes / kStep, 1) * kStep;
    const int64_t blocks = PiecesOf(rows, fit);
    rows_ =
        blocks == 1 ? rows : PiecesOf(PiecesOf(rows, blocks), kStep) * kStep;
    heads_ =
        blocks == 1 ? std::min(heads, std::max<int64_t>(fit / rows, 1)) : 1;
  }

  // Returns blocks of all rows of one head, whether or not they fit.
  static RowBlocks WholeHeads(int64_t rows, int64_t heads) {
    RowBlocks blocks(rows, heads, 1);
    blocks.rows_ = rows;
    blocks.heads_ = 1;
    return blocks;
  }

  // The size of the largest block.
  int64_t rows() const { return rows_; }
  int64_t heads() const { return heads_; }

  template <typename Function>
  void ForEach(const Function& f) const {
    for (int64_t head = 0; head < all_heads_; head += heads_)
      for (int64_t row = 0; row < all_rows_; row += rows_)
        f(RowBlock{head, std::min(heads_, all_heads_ - head), row,
                   std::min(rows_, all_rows_ - row)});
  }

 private:
  const int64_t all_rows_, all_heads_;
  int64_t rows_, heads_;
};

}  // namespace subquad::device
