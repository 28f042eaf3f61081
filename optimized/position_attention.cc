// position_attention: softmax attention with positions by one of seven schemes
// (Transformers II eq. 5-13; the list is in the reference)
//
//   dense   all scores in memory by GEMMs; relative embeddings in the naive
//           order, those of a query's offsets read (deberta: projected) for
//           every query: O(n^2 d), deberta O(n^2 D d) time, O(n^2) memory.
//   shift   positions and offsets projected once, GEMMs for a block of queries
//           against all offsets that it needs, and a shift: O(n^2 d) time for
//           every scheme, O(n) memory.
//
// The shift needs no gather. A block of B rows against B + n - 1 offsets is a
// tile whose row i is needed from column B-1-i on: the same memory, read with a
// row stride that is smaller by one, is the tile of scores.
#include <algorithm>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/contract/seen_keys.h"
#include "reference/contract/softmax_scale.h"
#include "reference/softmax/position_scheme.h"

namespace subquad {
namespace {

struct Sizes {
  explicit Sizes(const Problem& problem)
      : scheme(PositionSchemeOf(problem.params)),
        n(problem.Dim("n")),
        D(problem.Dim("D")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        heads(problem.heads),
        released(TakesReleasedOrder(problem.params)),
        seen(problem) {}

  bool Is(PositionScheme other) const { return scheme == other; }
  bool relative() const {
    return Is(PositionScheme::kShaw) || Is(PositionScheme::kDeberta);
  }
  bool has_bias() const {
    return Is(PositionScheme::kBias) || Is(PositionScheme::kMultiplicative);
  }
  // Queries and keys of `untied` are [x w, pos u].
  int64_t key_width() const { return Is(PositionScheme::kUntied) ? 2 * d : d; }
  int64_t offsets() const { return 2 * n - 1; }
  // Counts the pairs of a query and a key that are computed, in all heads.
  double Pairs() const;

  PositionScheme scheme;
  int64_t n, D, d, e, heads;
  bool released;
  SeenKeys seen;
};

constexpr int64_t kBlock = 64;       // queries whose scores are computed
                                     // together
constexpr int64_t kProjected = 128;  // rows that one task projects

double Sizes::Pairs() const {
  double pairs = 0;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t first = 0; first < n; first += kBlock) {
      const int64_t end = std::min(first + kBlock, n);
      pairs += static_cast<double>(end - first) *
               static_cast<double>(seen.Before(h, end));
    }
  return pairs;
}

// The steps that both algorithms share: queries, keys and values, and from
// scores to rows of the output.
template <typename T>
class WithPositions : public Prepared {
 public:
  WithPositions(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        q_(layout, sizes_.n * sizes_.key_width()),
        k_(layout, sizes_.n * sizes_.key_width()),
        v_(layout, sizes_.n * sizes_.e),
        tokens_(layout, kProjected * sizes_.D) {}

  void Run() override {
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      ProjectTokens(h);
      ProjectOffsets(h);
      pool_.ForRows(sizes_.n, kBlock,
                    [&](int64_t first, int64_t rows, int worker) {
                      const int64_t keys = sizes_.seen.Before(h, first + rows);
                      T* const scores = ScoreMemory(first, worker);
                      AddBias(h, first, rows, keys, scores);
                      AddRelative(h, first, rows, keys, worker, scores);
                      Finish(h, first, rows, keys, scores);
                    });
    }
  }

  double Flops() const override {
    const double n = static_cast<double>(sizes_.n);
    const double key = static_cast<double>(sizes_.key_width());
    const double e = static_cast<double>(sizes_.e);
    return static_cast<double>(sizes_.heads) * 2 * n *
               static_cast<double>(sizes_.D) * (2 * key + e) +
           2 * sizes_.Pairs() * (key + e) + RelativeFlops();
  }

 protected:
  // Counts the flops of the relative terms.
  virtual double RelativeFlops() const = 0;
  virtual void ProjectOffsets(int64_t h) = 0;
  // Returns the memory for the scores [rows, n] of a block.
  virtual T* ScoreMemory(int64_t first, int worker) = 0;
  // Adds the relative terms of the first `keys` keys.
  virtual void AddRelative(int64_t h, int64_t first, int64_t rows, int64_t keys,
                           int worker, T* scores) = 0;

  const T* In(const char* name, int64_t h) const {
    return arrays_.In<T>(name).Head(h);
  }

  // Computes out = (x + pos) w, [rows, width], rows `stride` apart; pos may be
  // null.
  void Project(const T* x, const T* pos, int64_t rows, const T* w,
               int64_t width, T* out, int64_t stride) {
    const int64_t D = sizes_.D;
    pool_.ForRows(
        rows, kProjected, [&](int64_t first, int64_t count, int worker) {
          const T* from = x + first * D;
          if (pos) {
            T* sums = tokens_[worker];
            for (int64_t y = 0; y < count * D; ++y)
              sums[y] = from[y] + pos[first * D + y];
            from = sums;
          }
          Multiply(T{1}, RowsOf(from, count, D), RowsOf(w, D, width),
                   RowsOf(out + first * stride, count, width, stride));
        });
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> q_, k_, v_;

 private:
  void ProjectTokens(int64_t h) {
    const int64_t n = sizes_.n, d = sizes_.d, width = sizes_.key_width();
    const bool in_values = sizes_.Is(PositionScheme::kAbsolute);
    const bool in_scores =
        in_values || sizes_.Is(PositionScheme::kAbsoluteScores);
    const T* x = In("x", h);
    const T* pos = in_scores ? In("pos", h) : nullptr;
    Project(x, pos, n, In("w_q", h), d, q_.data(), width);
    Project(x, pos, n, In("w_k", h), d, k_.data(), width);
    Project(x, in_values ? pos : nullptr, n, In("w_v", h), sizes_.e, v_.data(),
            sizes_.e);
    if (!sizes_.Is(PositionScheme::kUntied)) return;
    const T* own = In("pos", h);
    Project(own, nullptr, n, In("u_q", h), d, q_.data() + d, width);
    Project(own, nullptr, n, In("u_k", h), d, k_.data() + d, width);
  }

  // Computes scores = q k^T, plus or times a bias by offset.
  void AddBias(int64_t h, int64_t first, int64_t rows, int64_t keys,
               T* scores) {
    const int64_t n = sizes_.n, width = sizes_.key_width();
    Multiply(
        T{1},
        RowsOf(static_cast<const T*>(q_.data()) + first * width, rows, width),
        RowsOf(static_cast<const T*>(k_.data()), keys, width).transpose(),
        RowsOf(scores, rows, keys, n));
    if (!sizes_.has_bias()) return;
    const bool added = sizes_.Is(PositionScheme::kBias);
    for (int64_t i = 0; i < rows; ++i) {
      T* const row = scores + i * n;
      const T* bias = In("bias", h) + n - 1 - (first + i);
      if (added)
        for (int64_t j = 0; j < keys; ++j) row[j] += bias[j];
      else
        for (int64_t j = 0; j < keys; ++j) row[j] *= bias[j];
    }
  }

  void Finish(int64_t h, int64_t first, int64_t rows, int64_t keys, T* scores) {
    const int64_t n = sizes_.n, e = sizes_.e;
    T sums[kBlock];
    for (int64_t i = 0; i < rows; ++i) {
      T* const row = scores + i * n;
      const int64_t visible = sizes_.seen.By(h, first + i);
      for (int64_t j = 0; j < visible; ++j) row[j] *= scale_;
      sums[i] = ExponentiateRow<T>(row, visible, nullptr);
      std::fill(row + visible, row + keys, T{0});
    }
    // Values whose signs alternate along the sequence cancel term by term; a
    // GEMM that adds even and odd terms separately loses digits that the plain
    // program keeps.
    T* const out = arrays_.Out<T>("out").Head(h) + first * e;
    MultiplyInOrder<T>(scores, n, rows, keys, v_.data(), e, out);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t c = 0; c < e; ++c) out[i * e + c] /= sums[i];
  }

  PerThread<T> tokens_;  // x + pos
};

template <typename T>
class DensePositions : public WithPositions<T> {
 public:
  DensePositions(const Problem& problem, const Arrays& arrays, Layout& layout)
      : WithPositions<T>(problem, arrays, layout),
        scores_(layout, sizes_.n * sizes_.n),
        projected_(layout, sizes_.Is(PositionScheme::kDeberta)
                               ? sizes_.n * sizes_.d
                               : 0) {}

 private:
  using WithPositions<T>::sizes_, WithPositions<T>::pool_, WithPositions<T>::q_,
      WithPositions<T>::k_;

  double RelativeFlops() const override {
    const double pairs = sizes_.Pairs();
    const double d = static_cast<double>(sizes_.d);
    if (sizes_.Is(PositionScheme::kDeberta))
      return 4 * pairs * d * (static_cast<double>(sizes_.D) + 1);
    return sizes_.relative() ? 2 * pairs * d : 0;
  }

  void ProjectOffsets(int64_t) override {}
  T* ScoreMemory(int64_t first, int) override {
    return scores_.data() + first * sizes_.n;
  }

  void AddRelative(int64_t h, int64_t first, int64_t rows, int64_t keys,
                   int worker, T* scores) override {
    if (!sizes_.relative()) return;
    const int64_t n = sizes_.n, d = sizes_.d, D = sizes_.D;
    const T* rel = this->In("rel", h);
    T* const memory = projected_[worker];
    for (int64_t i = first; i < first + rows; ++i) {
      Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>> row(
          scores + (i - first) * n, keys);
      const Eigen::Map<const Eigen::Matrix<T, Eigen::Dynamic, 1>> query(
          q_.data() + i * d, d);
      if (sizes_.Is(PositionScheme::kShaw)) {
        row.noalias() += RowsOf(rel + (n - 1 - i) * d, keys, d) * query;
        continue;
      }
      // Reads rel(j - i) for j = 0 .. keys-1.
      const T* after = rel + (n - 1 - i) * D;
      auto projected = RowsOf(memory, keys, d, d);
      Multiply(T{1}, RowsOf(after, keys, D), RowsOf(this->In("u_k", h), D, d),
               projected);
      row.noalias() += projected * query;
      // The rows n-1+i .. n-keys+i hold rel(i - j) for j = 0 .. keys-1.
      const T* from = sizes_.released ? after : rel + (n - keys + i) * D;
      Multiply(T{1}, RowsOf(from, keys, D), RowsOf(this->In("u_q", h), D, d),
               projected);
      for (int64_t j = 0; j < keys; ++j)
        row(j) +=
            projected.row(sizes_.released ? j : keys - 1 - j)
                .dot(RowsOf(static_cast<const T*>(k_.data()) + j * d, 1, d)
                         .row(0));
    }
  }

  Buffer<T> scores_;
  PerThread<T> projected_;
};

template <typename T>
class ShiftPositions : public WithPositions<T> {
 public:
  ShiftPositions(const Problem& problem, const Arrays& arrays, Layout& layout)
      : WithPositions<T>(problem, arrays, layout),
        offsets_q_(layout, Projected()),
        offsets_k_(layout, Projected()),
        scores_(layout, kBlock * sizes_.n),
        shifted_(layout,
                 sizes_.relative()
                     ? kBlock * (std::max(sizes_.n, kBlock) + kBlock - 1)
                     : 0) {}

 private:
  using WithPositions<T>::sizes_, WithPositions<T>::pool_, WithPositions<T>::q_,
      WithPositions<T>::k_;

  int64_t Projected() const {
    return sizes_.Is(PositionScheme::kDeberta) ? sizes_.offsets() * sizes_.d
                                               : 0;
  }

  double RelativeFlops() const override {
    const double pairs = sizes_.Pairs();
    const double rows = static_cast<double>(sizes_.heads * sizes_.n);
    const double d = static_cast<double>(sizes_.d);
    double flops = sizes_.relative() ? 2 * (pairs + rows * kBlock) * d : 0;
    if (sizes_.Is(PositionScheme::kDeberta))
      flops += 4 * pairs * d + 8 * rows * d * static_cast<double>(sizes_.D);
    return flops;
  }

  void ProjectOffsets(int64_t h) override {
    if (!sizes_.Is(PositionScheme::kDeberta)) return;
    const T* rel = this->In("rel", h);
    this->Project(rel, nullptr, sizes_.offsets(), this->In("u_q", h), sizes_.d,
                  offsets_q_.data(), sizes_.d);
    this->Project(rel, nullptr, sizes_.offsets(), this->In("u_k", h), sizes_.d,
                  offsets_k_.data(), sizes_.d);
  }

  T* ScoreMemory(int64_t, int worker) override { return scores_[worker]; }

  void AddRelative(int64_t h, int64_t first, int64_t rows, int64_t keys,
                   int worker, T* scores) override {
    if (!sizes_.relative()) return;
    const int64_t n = sizes_.n, d = sizes_.d;
    T* const tile = shifted_[worker];
    // Computes q_i . rel(j-i) for offsets -(first+rows-1) .. keys-1-first.
    const T* rel = sizes_.Is(PositionScheme::kShaw) ? this->In("rel", h)
                                                    : offsets_k_.data();
    const int64_t width = keys + rows - 1;
    Multiply(T{1},
             RowsOf(static_cast<const T*>(q_.data()) + first * d, rows, d),
             RowsOf(rel + (n - first - rows) * d, width, d).transpose(),
             RowsOf(tile, rows, width, width));
    RowsOf(scores, rows, keys, n) += ShiftedView(tile, rows, keys, width);
    if (!sizes_.Is(PositionScheme::kDeberta)) return;
    // Computes rel(i-j) . k_j, or rel(j-i) . k_j, with the roles of keys and
    // queries exchanged, a square at a time.
    for (int64_t j = 0; j < keys; j += kBlock) {
      const int64_t count = std::min(kBlock, keys - j);
      const int64_t span = rows + count - 1;
      const int64_t lowest =
          sizes_.released ? j - first - rows + 1 : first - j - count + 1;
      const T* from = offsets_q_.data() + (n - 1 + lowest) * d;
      Multiply(T{1}, RowsOf(static_cast<const T*>(k_.data()) + j * d, count, d),
               RowsOf(from, span, d).transpose(),
               RowsOf(tile, count, span, span));
      if (sizes_.released)
        RowsOf(scores + j, rows, count, n) +=
            RisingView(tile, count, rows, span).rowwise().reverse().transpose();
      else
        RowsOf(scores + j, rows, count, n) +=
            ShiftedView(tile, count, rows, span).transpose();
    }
  }

  // Views row i from column rows-1-i on.
  static ConstMatrixMap<T> ShiftedView(const T* tile, int64_t rows,
                                       int64_t columns, int64_t stride) {
    return RowsOf(tile + rows - 1, rows, columns, stride - 1);
  }

  // Views row i from column i on.
  static ConstMatrixMap<T> RisingView(const T* tile, int64_t rows,
                                      int64_t columns, int64_t stride) {
    return RowsOf(tile, rows, columns, stride + 1);
  }

  Buffer<T> offsets_q_, offsets_k_;
  PerThread<T> scores_, shifted_;
};

}  // namespace

std::vector<Implementation> PositionAttentionImplementations() {
  return CpuTable(
      "position_attention",
      {{.id = "dense",
        .what =
            "scores in memory, offsets projected again for each query (GEMMs)",
        .sums = DirectSums,
        .prepare = PrepareFor<DensePositions>},
       {.id = "shift",
        .what = "positions projected once, GEMMs and shifts by blocks",
        .memory = {"O(n (d + e + B)), B = 64", "n"},
        .sums = DirectSums,
        .prepare = PrepareFor<ShiftPositions>}});
}

}  // namespace subquad
