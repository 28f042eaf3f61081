// Sums of values before and after the window of a block of queries, for clipped
// relative scores on a device (LRPE section III). With clip(j - i, -r, r) all
// keys at or before i - r have one weight, all at or after i + r another. For a
// block of queries
//
//   keys    0 .. begin-1 | begin ........ end-1 | end .. n_k-1
//           one sum      | tile                 | one sum
//
// so that the keys outside of the tile only enter through sums of values at the
// edges of blocks.
//
// Accuracy: values of one block are added up, then such sums within runs of
// kRun, then those of runs, so that a value passes through at most kQueries +
// kRun log(n) / log(kRun) roundings, in an order that does not depend on the
// launch. A tail is added up from its own end and never as a difference of two
// sums, which would lose the small one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "cuda/base/launch.h"
#include "cuda/base/memory.h"
#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

struct ClippedEdges {
  static constexpr int kQueries = 32;  // of a block

  int64_t n_q, n_k, r;
  bool causal;

  int64_t blocks() const { return (n_q + kQueries - 1) / kQueries; }

  // Clipped offsets that occur are first .. first + columns - 1; the embedding
  // of the first one is in row first_row.
  __host__ __device__ int64_t first() const { return r < n_q ? -r : 1 - n_q; }
  __host__ __device__ int64_t columns() const {
    const int64_t last = causal ? 0 : n_k - 1;
    return (r < last ? r : last) - first() + 1;
  }
  int64_t first_row() const { return first() + r; }

  // Returns the column of an offset's weight.
  __device__ int64_t Column(int64_t offset) const {
    const int64_t clipped = offset < -r ? -r : offset > r ? r : offset;
    return clipped - first();
  }

  // The keys of the tile of block b. The last block is treated as if it were
  // full. For r = 0 the key at i itself is in the tile.
  __host__ __device__ int64_t Begin(int64_t b) const {
    const int64_t begin = b * kQueries - reach() + 1;
    return begin < 0 ? 0 : begin < n_k ? begin : n_k;
  }
  __host__ __device__ int64_t End(int64_t b) const {
    const int64_t end = (b + 1) * kQueries + (causal ? 0 : reach() - 1);
    return end < n_k ? end : n_k;
  }

 private:
  __host__ __device__ int64_t reach() const { return r > 1 ? r : 1; }
};

enum class Side { kBefore, kAfter };

// The pointers and sizes by which a kernel reads the sums.
struct EdgeSumsView {
  static constexpr int kRun = kEmulated ? 2 : 32;

  const float* sums;  // of the first head
  int64_t head_stride;
  int64_t count;  // sums at the lowest level
  int64_t e;
  bool before;

  // Returns the sum over all keys on this side of the tile of block b.
  __device__ float At(int64_t head, int64_t b, int64_t c) const {
    if (b >= count && !before) return 0;
    const float* level = sums + head * head_stride + c;
    int64_t at = before ? b : count - 1 - b, length = count;
    float sum = level[at * e];
    while (at >= kRun) {
      level += length * e;
      length = (length + kRun - 1) / kRun;
      at = at / kRun - 1;
      sum += level[at * e];
    }
    return sum;
  }
};

class EdgeSums {
 public:
  EdgeSums(Layout& layout, const ClippedEdges& edges, Side side, int64_t e,
           int64_t heads);

  // Computes the sums of values [heads, n_k, e].
  template <typename S>
  void Run(HeadArray<const S> values);

  EdgeSumsView View(int64_t first_head) const;

 private:
  const ClippedEdges edges_;
  const Side side_;
  const int64_t e_, heads_, count_;
  DeviceBuffer<float> sums_;
};

}  // namespace subquad::device
