// clipped_rpe_product: out = S v, S_ij = q_i . rpe[clip(j-i, -r, r) + r] (LRPE
// section III)
//
//   dense     Q rpe^T by GEMM, spread out to the matrix S in memory, S times v
//             by GEMM: O(n (r d + n e)) time, O(n^2) memory.
//   windowed  per block of queries one sum of values for each tail and a GEMM
//             for the window between them: O(n r (d + e)) time, O(n) memory
//             with a small constant; see optimized/kernelized/clipped_window.h.
//
// Both have a backward pass. Summing dS_ij = <grad[i], v[j]> over the keys that
// share a weight gives W [n_q, 2r+1], from which grad_q = W rpe and grad_rpe =
// W^T Q. windowed sums dS within its tiles. All keys on one side of a tile
// share a weight, so that W gets the product of the gradient with the sum of
// their values, and each of these keys gets one sum over the block's queries:
// O(n r (d + e)) time, O(n r) memory.
#include <algorithm>
#include <memory>
#include <optional>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/kernelized/clipped_window.h"
#include "optimized/toeplitz/gradient_sums.h"
#include "optimized/toeplitz/materialized.h"

namespace subquad {
namespace {

constexpr int64_t kDenseBlock = 256;

// Computes the products of every query with the embeddings that occur, [n_q,
// columns], and their adjoints.
template <typename T>
class OffsetScores {
 public:
  OffsetScores(const Problem& problem, const Arrays& arrays,
               const ClippedWindow& window)
      : d_(problem.Dim("d")),
        columns_(window.columns()),
        first_row_(window.first_row()),
        rows_(2 * problem.Dim("r") + 1),
        arrays_(arrays) {}

  int64_t columns() const { return columns_; }
  int64_t d() const { return d_; }

  // Computes the scores of `rows` queries.
  void Run(int64_t h, int64_t first, int64_t rows, T* scores) const {
    Multiply(T{1}, Queries(h, first, rows), Embeddings(h).transpose(),
             RowsOf(scores, rows, columns_));
  }

  // Computes grad_q of `rows` queries from the gradients of their scores.
  void QueryGradient(int64_t h, int64_t rows, const T* scores,
                     T* grad_q) const {
    Multiply(T{1}, Scores(scores, rows), Embeddings(h),
             RowsOf(grad_q, rows, d_));
  }

  // Adds the queries' part of the gradient of the embeddings that occur.
  void AddEmbeddingGradient(int64_t h, int64_t first, int64_t rows,
                            const T* scores, T* sum) const {
    AddProduct(Scores(scores, rows).transpose(), Queries(h, first, rows),
               RowsOf(sum, columns_, d_));
  }

  // Adds to the gradient of all embeddings, over the heads that share them.
  void WriteEmbeddingGradient(int64_t h, const T* sum) const {
    const auto out = arrays_.Out<T>("grad_rpe");
    if (out.slices.IsFirst(h)) std::fill_n(out.Head(h), rows_ * d_, T{0});
    T* const to = out.Head(h) + first_row_ * d_;
    for (int64_t x = 0; x < columns_ * d_; ++x) to[x] += sum[x];
  }

  double Flops(int64_t n_q) const {
    return 2.0 * static_cast<double>(n_q) * static_cast<double>(columns_ * d_);
  }

 private:
  ConstMatrixMap<T> Queries(int64_t h, int64_t first, int64_t rows) const {
    return RowsOf(arrays_.In<T>("q").Head(h) + first * d_, rows, d_);
  }
  ConstMatrixMap<T> Embeddings(int64_t h) const {
    return RowsOf(arrays_.In<T>("rpe").Head(h) + first_row_ * d_, columns_, d_);
  }
  ConstMatrixMap<T> Scores(const T* scores, int64_t rows) const {
    return RowsOf(scores, rows, columns_);
  }

  const int64_t d_, columns_, first_row_, rows_;
  const Arrays arrays_;
};

template <typename T>
class DenseClipped : public Prepared {
 public:
  DenseClipped(const Problem& problem, const Arrays& arrays, Layout& layout)
      : window_(problem, kDenseBlock),
        scores_(problem, arrays, window_),
        backward_(problem.backward),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        arrays_(arrays),
        pool_(layout),
        weights_(layout, window_.n_q * window_.columns()),
        product_(layout, window_.n_q, window_.n_k, e_),
        sums_(layout, scores_.columns() * scores_.d(), backward_) {
    if (!backward_) return;
    grad_q_.emplace(layout, arrays, "grad_q", heads_);
    grad_v_.emplace(layout, arrays, "grad_v", heads_);
  }

  void Run() override {
    for (int64_t h = 0; h < heads_; ++h) {
      window_.BeginHead(h);
      ForBlocks([&](int64_t, int64_t first, int64_t rows) {
        scores_.Run(h, first, rows, Weights(first));
      });
      backward_ ? RunBackward(h) : RunForward(h);
    }
    if (!backward_) return;
    grad_q_->AddUp(pool_);
    grad_v_->AddUp(pool_);
  }

  double Flops() const override {
    return static_cast<double>(heads_) *
           ((backward_ ? 3 : 1) * scores_.Flops(window_.n_q) +
            (backward_ ? 2 : 1) * product_.Flops());
  }

 private:
  T* Weights(int64_t i) const {
    return weights_.data() + i * window_.columns();
  }
  auto FillRow() const {
    return [this](int64_t i, T* row) {
      window_.FillRow(Weights(i), i, 0, window_.n_k, row);
    };
  }

  template <typename Use>
  void ForBlocks(const Use& use) {
    pool_.For(window_.blocks(), [&](int64_t b, int) {
      const int64_t first = b * kDenseBlock;
      use(b, first, std::min(kDenseBlock, window_.n_q - first));
    });
  }

  void RunForward(int64_t h) {
    product_.Run(pool_, FillRow(), arrays_.In<T>("v").Head(h),
                 arrays_.Out<T>("out").Head(h));
  }

  void RunBackward(int64_t h) {
    const T* grad = arrays_.In<T>("grad").Head(h);
    product_.RunTransposed(pool_, FillRow(), grad, grad_v_->Head(h));
    const T* pairs = product_.RunOuter(pool_, grad, arrays_.In<T>("v").Head(h));
    T* const grad_q = grad_q_->Head(h);
    ForBlocks([&](int64_t, int64_t first, int64_t rows) {
      std::fill_n(Weights(first), rows * window_.columns(), T{0});
      for (int64_t i = first; i < first + rows; ++i)
        window_.FoldRow(pairs + i * window_.n_k, i, 0, window_.n_k, Weights(i));
      scores_.QueryGradient(h, rows, Weights(first),
                            grad_q + first * scores_.d());
    });
    const auto add = [&](int64_t b, T* sum, int) {
      const int64_t first = b * kDenseBlock;
      scores_.AddEmbeddingGradient(h, first,
                                   std::min(kDenseBlock, window_.n_q - first),
                                   Weights(first), sum);
    };
    scores_.WriteEmbeddingGradient(h, sums_.Run(pool_, window_.blocks(), add));
  }

  ClippedWindow window_;
  const OffsetScores<T> scores_;
  const bool backward_;
  const int64_t e_, heads_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> weights_;
  MaterializedProduct<T> product_;
  GradientSums<T> sums_;
  std::optional<SharedGradient<T>> grad_q_, grad_v_;
};

template <typename T>
class Windowed : public Prepared {
 public:
  Windowed(const Problem& problem, const Arrays& arrays, Layout& layout)
      : window_(problem, ClippedWindow::BlockFor(problem)),
        scores_(problem, arrays, window_),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        arrays_(arrays),
        pool_(layout),
        tails_(layout, window_, e_),
        weights_(layout, window_.block * window_.columns()),
        tiles_(layout, window_.block * window_.widest()) {}

  void Run() override {
    for (int64_t h = 0; h < heads_; ++h) {
      window_.BeginHead(h);
      tails_.Run(pool_, h, arrays_.In<T>("v").Head(h));
      pool_.For(window_.blocks(),
                [&](int64_t b, int worker) { RunBlock(h, b, worker); });
    }
  }

  double Flops() const override {
    const double n_q = static_cast<double>(window_.n_q);
    const double e = static_cast<double>(e_);
    return static_cast<double>(heads_) *
           (scores_.Flops(window_.n_q) +
            2 * n_q * static_cast<double>(window_.widest() * e_) + 4 * n_q * e +
            tails_.Flops());
  }

 private:
  void RunBlock(int64_t h, int64_t b, int worker) {
    const int64_t columns = window_.columns();
    const int64_t first = b * window_.block;
    const int64_t rows = std::min(window_.block, window_.n_q - first);
    T* const weights = weights_[worker];
    scores_.Run(h, first, rows, weights);

    T* const out = arrays_.Out<T>("out").Head(h) + first * e_;
    const int64_t begin = window_.Begin(b), width = window_.End(b) - begin;
    const T* before = tails_.Before(b);
    const T* after = tails_.After(b);
    for (int64_t i = 0; i < rows; ++i) {
      const T* row = weights + i * columns;
      std::fill_n(out + i * e_, e_, T{0});
      if (before) AddScaled(row[0], before, out + i * e_);
      if (after) AddScaled(row[columns - 1], after, out + i * e_);
    }
    if (width == 0) return;
    T* const tile = tiles_[worker];
    for (int64_t i = 0; i < rows; ++i)
      window_.FillRow(weights + i * columns, first + i, begin, begin + width,
                      tile + i * width);
    AddProduct(RowsOf(tile, rows, width),
               RowsOf(arrays_.In<T>("v").Head(h) + begin * e_, width, e_),
               RowsOf(out, rows, e_));
  }

  void AddScaled(T factor, const T* sum, T* row) const {
    for (int64_t x = 0; x < e_; ++x) row[x] += factor * sum[x];
  }

  ClippedWindow window_;
  const OffsetScores<T> scores_;
  const int64_t e_, heads_;
  const Arrays arrays_;
  ThreadPool pool_;
  TailSums<T> tails_;
  PerThread<T> weights_, tiles_;
};

template <typename T>
class WindowedGradient : public Prepared {
 public:
  WindowedGradient(const Problem& problem, const Arrays& arrays, Layout& layout)
      : window_(problem, ClippedWindow::BlockFor(problem)),
        scores_(problem, arrays, window_),
        e_(problem.Dim("e")),
        heads_(problem.heads),
        arrays_(arrays),
        pool_(layout),
        tails_(layout, window_, e_),
        weights_(layout, window_.n_q * window_.columns()),
        before_(layout, window_.blocks() * e_),
        after_(layout, window_.blocks() * e_),
        folded_(layout, window_.block * window_.columns()),
        tiles_(layout, window_.block * window_.widest()),
        sums_(layout, scores_.columns() * scores_.d(), true),
        grad_q_(layout, arrays, "grad_q", heads_),
        grad_v_(layout, arrays, "grad_v", heads_) {}

  void Run() override {
    for (int64_t h = 0; h < heads_; ++h) {
      window_.BeginHead(h);
      tails_.Run(pool_, h, arrays_.In<T>("v").Head(h));
      const auto add = [&](int64_t b, T* sum, int worker) {
        SumQueries(h, b);
        FoldBlock(h, b, sum, worker);
      };
      scores_.WriteEmbeddingGradient(h,
                                     sums_.Run(pool_, window_.blocks(), add));
      AddUpTails();
      const int64_t pieces = (window_.n_k + window_.block - 1) / window_.block;
      pool_.For(pieces, [&](int64_t piece, int worker) {
        ValueGradient(h, piece * window_.block, worker);
      });
    }
    grad_q_.AddUp(pool_);
    grad_v_.AddUp(pool_);
  }

  double Flops() const override {
    const auto n_q = static_cast<double>(window_.n_q);
    return static_cast<double>(heads_) *
           (3 * scores_.Flops(window_.n_q) +
            4 * n_q * static_cast<double>(window_.widest() * e_) +
            8 * n_q * static_cast<double>(e_) + tails_.Flops());
  }

 private:
  T* Weights(int64_t i) const {
    return weights_.data() + i * window_.columns();
  }
  const T* Grad(int64_t h, int64_t i) const {
    return arrays_.In<T>("grad").Head(h) + i * e_;
  }
  int64_t Rows(int64_t b) const {
    return std::min(window_.block, window_.n_q - b * window_.block);
  }

  // Computes the weights of a block's queries, and the sums of their gradients
  // for keys before the tile and for keys after it.
  void SumQueries(int64_t h, int64_t b) const {
    const int64_t first = b * window_.block, columns = window_.columns();
    scores_.Run(h, first, Rows(b), Weights(first));
    T* const before = before_.data() + b * e_;
    T* const after = after_.data() + b * e_;
    std::fill_n(before, e_, T{0});
    std::fill_n(after, e_, T{0});
    for (int64_t i = first; i < first + Rows(b); ++i) {
      const T* const g = Grad(h, i);
      const T low = Weights(i)[0], high = Weights(i)[columns - 1];
      for (int64_t x = 0; x < e_; ++x) {
        before[x] += low * g[x];
        after[x] += high * g[x];
      }
    }
  }

  // Folds the gradients of a block's scores into those of its weights, and
  // computes the gradients of q and rpe from them.
  void FoldBlock(int64_t h, int64_t b, T* sum, int worker) const {
    const int64_t first = b * window_.block, rows = Rows(b);
    const int64_t columns = window_.columns();
    const int64_t begin = window_.Begin(b), width = window_.End(b) - begin;
    T* const folded = folded_[worker];
    T* const tile = tiles_[worker];
    if (width > 0)
      Multiply(T{1}, RowsOf(Grad(h, first), rows, e_),
               RowsOf(arrays_.In<T>("v").Head(h) + begin * e_, width, e_)
                   .transpose(),
               RowsOf(tile, rows, width));
    std::fill_n(folded, rows * columns, T{0});
    for (int64_t i = 0; i < rows; ++i) {
      T* const row = folded + i * columns;
      window_.FoldRow(tile + i * width, first + i, begin, begin + width, row);
      const T* const g = Grad(h, first + i);
      if (const T* before = tails_.Before(b)) row[0] += Dot(g, before);
      if (const T* after = tails_.After(b)) row[columns - 1] += Dot(g, after);
    }
    scores_.QueryGradient(h, rows, folded,
                          grad_q_.Head(h) + first * scores_.d());
    scores_.AddEmbeddingGradient(h, first, rows, folded, sum);
  }

  // Makes before_[b] the sum over blocks b and later, and after_[b] the sum
  // over blocks up to b.
  void AddUpTails() const {
    for (int64_t b = 1; b < window_.blocks(); ++b) {
      const int64_t back = window_.blocks() - 1 - b;
      for (int64_t x = 0; x < e_; ++x) {
        before_.data()[back * e_ + x] += before_.data()[(back + 1) * e_ + x];
        after_.data()[b * e_ + x] += after_.data()[(b - 1) * e_ + x];
      }
    }
  }

  // Computes grad_v of a block of keys, starting at `key`: one sum for queries
  // whose tiles begin later, one for those whose tiles end earlier, and
  // products with the tiles.
  void ValueGradient(int64_t h, int64_t key, int worker) const {
    const int64_t count = std::min(window_.block, window_.n_k - key);
    const int64_t end = std::min(key + count, window_.keys);
    T* const out = grad_v_.Head(h) + key * e_;
    std::fill_n(out, count * e_, T{0});
    int64_t later = 0, earlier = 0;  // first block that begins later ..
    for (int64_t j = key; j < end; ++j) {
      while (later < window_.blocks() && window_.Begin(later) <= j) ++later;
      while (earlier < window_.blocks() && window_.End(earlier) <= j) ++earlier;
      T* const row = out + (j - key) * e_;
      if (later < window_.blocks()) Add(before_.data() + later * e_, row);
      if (earlier > 0 && !window_.causal)
        Add(after_.data() + (earlier - 1) * e_, row);
    }
    for (int64_t b = 0; b < window_.blocks(); ++b) {
      const int64_t first = std::max(key, window_.Begin(b));
      const int64_t width = std::min(end, window_.End(b)) - first;
      if (width <= 0) continue;
      const int64_t rows = Rows(b);
      T* const tile = tiles_[worker];
      for (int64_t i = 0; i < rows; ++i)
        window_.FillRow(Weights(b * window_.block + i), b * window_.block + i,
                        first, first + width, tile + i * width);
      AddProduct(RowsOf(tile, rows, width).transpose(),
                 RowsOf(Grad(h, b * window_.block), rows, e_),
                 RowsOf(out + (first - key) * e_, width, e_));
    }
  }

  T Dot(const T* x, const T* y) const {
    T sum = 0;
    for (int64_t c = 0; c < e_; ++c) sum += x[c] * y[c];
    return sum;
  }
  void Add(const T* from, T* to) const {
    for (int64_t x = 0; x < e_; ++x) to[x] += from[x];
  }

  ClippedWindow window_;
  const OffsetScores<T> scores_;
  const int64_t e_, heads_;
  const Arrays arrays_;
  ThreadPool pool_;
  TailSums<T> tails_;
  Buffer<T> weights_;         // [n_q, columns]
  Buffer<T> before_, after_;  // [blocks, e]
  PerThread<T> folded_, tiles_;
  GradientSums<T> sums_;
  SharedGradient<T> grad_q_, grad_v_;
};

std::unique_ptr<Prepared> PrepareWindowed(const Problem& problem,
                                          const Arrays& arrays,
                                          Layout& layout) {
  return problem.backward
             ? PrepareFor<WindowedGradient>(problem, arrays, layout)
             : PrepareFor<Windowed>(problem, arrays, layout);
}

}  // namespace

std::vector<Implementation> ClippedRpeProductImplementations() {
  return CpuTable(
      "clipped_rpe_product",
      {{.id = "dense",
        .what = "scores of all offsets, expanded to a matrix, times v (GEMMs)",
        .sums = DirectSums,
        .backward = true,
        .prepare = PrepareFor<DenseClipped>},
       {.id = "windowed",
        .what = "a sum for each tail, a GEMM for the window, by query blocks",
        .memory = {"O(n e / B + B r), B = 32..128", "n"},
        .sums = DirectSums,
        .backward = true,
        .prepare = PrepareWindowed}});
}

}  // namespace subquad
