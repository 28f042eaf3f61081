// The part that the linear algorithms for clipped relative scores share (LRPE
// section III). With clip(j - i, -r, r), all keys at or before i - r have one
// weight, all at or after i + r another, and only the window between them has
// its own. For a block of B queries, with i the position of a query among the
// keys,
//
//   keys    0 .. begin-1 | begin ........ end-1 | end .. n_k-1
//           one sum      | tile [B, B+2r-2]     | one sum
//
// the keys of the tile are multiplied by a GEMM. Every key before it has the
// weight of offset -r for all queries of the block, every key after it that of
// r, so that they only need sums of values at block edges. (The note stores a
// cumulative sum for every key; this needs one for every B keys.)
//
// Accuracy: an edge sum adds B values and then the sums of at most n_k/B
// blocks, so that a value passes through B + n_k/B roundings instead of the n_k
// of a running sum, or of the plain program. Tails are added up from their own
// ends and never as a difference of two sums, which would lose the small one.
#pragma once

#include <algorithm>
#include <cstdint>

#include "optimized/base/buffer.h"
#include "optimized/base/thread_pool.h"
#include "reference/base/problem.h"
#include "reference/contract/seen_keys.h"

namespace subquad {

struct ClippedWindow {
  ClippedWindow(const Problem& problem, int64_t block_size)
      : n_q(problem.Dim("n_q")),
        n_k(problem.Dim("n_k")),
        r(problem.Dim("r")),
        seen(problem),
        causal(seen.causal()),
        keys(n_k),
        block(block_size),
        reach(std::max<int64_t>(r, 1)),
        first(std::clamp(1 - n_q - seen.first(), -r, r)),
        last(std::clamp(n_k - 1 - seen.first(), -r, causal ? 0 : r)) {}

  // Starts a head, whose keys without padding are counted.
  void BeginHead(int64_t head) { keys = seen.Of(head); }

  // Chooses blocks whose tile is about a third longer than its window.
  static int64_t BlockFor(const Problem& problem) {
    const int64_t r = std::min(
        problem.Dim("r"), std::max(problem.Dim("n_q"), problem.Dim("n_k")));
    return std::clamp<int64_t>((r + 15) / 16 * 16, 32, 128);
  }

  int64_t blocks() const { return (n_q + block - 1) / block; }

  // Clipped offsets that occur are first .. last, the rows of rpe that are
  // used.
  int64_t columns() const { return last - first + 1; }
  int64_t first_row() const { return first + r; }

  // The keys of a block's tile. The last block is treated as if it were full.
  // For r = 0 the key at i itself is in the tile.
  int64_t Begin(int64_t b) const {
    return std::clamp<int64_t>(seen.first() + b * block - reach + 1, 0, keys);
  }
  int64_t End(int64_t b) const {
    const int64_t position = seen.first() + (b + 1) * block;
    return std::clamp<int64_t>(position + (causal ? 0 : reach - 1), Begin(b),
                               keys);
  }
  int64_t widest() const {
    return std::min(n_k, block + (causal ? 1 : 2) * (reach - 1));
  }

  // Splits the keys begin .. end-1 for a query at position i: keys up to
  // `before` are clipped on the left; those up to `inside` have an offset of
  // their own; those up to `visible` are clipped on the right; the query does
  // not see the rest.
  struct Ranges {
    int64_t before, inside, visible;
  };
  Ranges RangesOf(int64_t i, int64_t begin, int64_t end) const {
    const int64_t visible =
        std::max(begin, std::min({end, keys, causal ? i + 1 : keys}));
    const int64_t before = std::clamp(i - r, begin, visible);
    return {before, std::clamp(i + r + 1, before, visible), visible};
  }

  // Expands the weights [columns()] of a query to scores for keys begin ..
  // end-1.
  template <typename T>
  void FillRow(const T* weights, int64_t query, int64_t begin, int64_t end,
               T* row) const {
    const int64_t i = seen.first() + query;
    const auto [before, inside, visible] = RangesOf(i, begin, end);
    std::fill_n(row, before - begin, weights[0]);
    if (inside > before)
      std::copy_n(weights + (before - i - first), inside - before,
                  row + (before - begin));
    std::fill_n(row + (inside - begin), visible - inside,
                weights[columns() - 1]);
    std::fill_n(row + (visible - begin), end - visible, T{0});
  }

  // Adjoint of FillRow: adds the gradients of a query's scores for keys begin
  // .. end-1 to those of its weights.
  template <typename T>
  void FoldRow(const T* row, int64_t query, int64_t begin, int64_t end,
               T* weights) const {
    const int64_t i = seen.first() + query;
    const auto [before, inside, visible] = RangesOf(i, begin, end);
    weights[0] += Total(row, before - begin);
    for (int64_t j = before; j < inside; ++j)
      weights[j - i - first] += row[j - begin];
    weights[columns() - 1] += Total(row + (inside - begin), visible - inside);
  }

  int64_t n_q, n_k, r;
  SeenKeys seen;
  bool causal;
  int64_t keys;  // of the current head
  int64_t block, reach;
  int64_t first, last;

 private:
  template <typename T>
  static T Total(const T* numbers, int64_t count) {
    T sum = 0;
    for (int64_t j = 0; j < count; ++j) sum += numbers[j];
    return sum;
  }
};

// Sums of the values [n_k, e] before and after the tile of every block.
template <typename T>
class TailSums {
 public:
  static constexpr int64_t kRun = 64;

  TailSums(Layout& layout, const ClippedWindow& window, int64_t e)
      : window_(window),
        e_(e),
        after_count_(AfterCount(window)),
        before_(layout, window.blocks() * e),
        after_(layout, after_count_ * e) {}

  void Run(ThreadPool& pool, int64_t head, const T* v) {
    window_.BeginHead(head);
    const int64_t blocks = window_.blocks();
    pool.For(blocks + after_count_, [&](int64_t piece, int) {
      if (piece < blocks)
        Sum(v, piece ? window_.Begin(piece - 1) : 0, window_.Begin(piece),
            before_.data() + piece * e_);
      else
        Sum(v, End(piece - blocks), End(piece - blocks + 1),
            after_.data() + (piece - blocks) * e_);
    });
    AddUp(before_.data(), e_, blocks);
    AddUp(after_.data() + (after_count_ - 1) * e_, -e_, after_count_);
  }

  // Counts the additions of one run.
  double Flops() const {
    return static_cast<double>(e_) * (window_.causal ? 1 : 2) *
           static_cast<double>(window_.n_k);
  }

  // The sums on either side of the tile of block b; null if there are no keys.
  const T* Before(int64_t b) const {
    return window_.Begin(b) > 0 ? before_.data() + b * e_ : nullptr;
  }
  const T* After(int64_t b) const {
    return b < after_count_ ? after_.data() + b * e_ : nullptr;
  }

 private:
  // Returns the number of blocks with keys after their tile, including blocks
  // that would follow the last one.
  static int64_t AfterCount(const ClippedWindow& window) {
    if (window.causal) return 0;
    const int64_t keys = window.n_k - window.seen.first() - window.reach + 1;
    return std::max<int64_t>(0, (keys + window.block - 1) / window.block - 1);
  }
  int64_t End(int64_t b) const {
    return std::min(
        window_.keys,
        window_.seen.first() + (b + 1) * window_.block + window_.reach - 1);
  }

  // Computes sums[b] += sums[b-1] + .. + sums[0], for rows of e values `step`
  // apart.
  void AddUp(T* sums, int64_t step, int64_t count) const {
    for (int64_t run = 0; run < count; run += kRun) {
      const int64_t end = std::min(run + kRun, count);
      for (int64_t b = run + 1; b < end; ++b)
        Add(sums + (b - 1) * step, sums + b * step);
      if (run == 0) continue;
      for (int64_t b = run; b < end; ++b)
        Add(sums + (run - 1) * step, sums + b * step);
    }
  }
  void Add(const T* row, T* sum) const {
    for (int64_t x = 0; x < e_; ++x) sum[x] += row[x];
  }

  void Sum(const T* v, int64_t begin, int64_t end, T* sum) const {
    std::fill_n(sum, e_, T{0});
    for (int64_t j = begin; j < end; ++j) Add(v + j * e_, sum);
  }

  ClippedWindow window_;
  const int64_t e_, after_count_;
  Buffer<T> before_, after_;
};

}  // namespace subquad
