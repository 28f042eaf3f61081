// softmax_attention: out_i = softmax_j(scale q_i.k_j + bias(j-i)) v (FastRPB
// eq. 1; NPRF eq. 1 and 6; Transformers II eq. 1 and 11)
//
//   dense   two GEMMs with the scores in memory, 256 queries at a time, and a
//           vectorised softmax of the rows between them: O(n^2 (d+e)) time,
//           O(n^2) memory. The usual algorithm, at the speed of a good GEMM.
//   tiled   exact, without the scores: a block of queries in the SIMD lanes
//           against tiles of keys that stay in the cache, sums rescaled as the
//           largest score grows (softmax_tiles.h). Same operations, O(n)
//           memory, faster than dense at every size; the baseline to beat.
//
// With `causal` both skip tiles that are wholly above the diagonal.
//
// Backward, `dense` stores the weights and the gradients of the scores of a
// head (dense_gradient.h: five GEMMs); `tiled` processes its tiles twice,
// forward for the sums of the weights and backward with the scores recomputed
// (gradient_tiles.h: seven products a tile), in O(n) memory.
#include <algorithm>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/dense_gradient.h"
#include "optimized/softmax/gradient_tiles.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/contract/kernelized.h"
#include "reference/contract/seen_keys.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

struct Sizes {
  explicit Sizes(const Problem& problem)
      : n_q(problem.queries),
        n_k(problem.keys),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        heads(problem.heads),
        has_bias(problem.HasInput("bias")),
        seen(problem),
        positions{problem.params.Has("width") ? problem.Dim("width") : 0} {}

  bool is_image() const { return positions.image_width > 0; }
  // Returns the bias of a head for query i and the key at position 0.
  template <typename T>
  const T* BiasOf(const T* bias, int64_t i) const {
    return bias + positions.Of(n_q - 1) - positions.Of(i);
  }

  // Counts the flops of the pairs that are computed if this many queries
  // process their keys together.
  double Flops(int64_t block) const {
    double pairs = 0;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t first = 0; first < n_q; first += block) {
        const int64_t end = std::min(first + block, n_q);
        pairs += static_cast<double>(end - first) *
                 static_cast<double>(seen.Before(h, end));
      }
    return 2 * pairs * static_cast<double>(d + e);
  }

  // Returns the first query, rounded down to a whole `block`, that sees key j
  // or a later one.
  int64_t FirstToSee(int64_t h, int64_t j, int64_t block) const {
    int64_t first = 0;
    while (first < n_q && seen.Before(h, std::min(first + block, n_q)) <= j)
      first += block;
    return std::min(first, n_q);
  }

  int64_t n_q, n_k, d, e, heads;
  bool has_bias;
  SeenKeys seen;
  TokenPositions positions;
};

// Rows of the scores that one task fills, weighs and multiplies.
constexpr int64_t kRowBlock = 256;

template <typename T>
class DenseSoftmax : public Prepared {
 public:
  DenseSoftmax(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        scores_(layout, sizes_.n_q * sizes_.n_k) {}

  void Run() override {
    for (int64_t h = 0; h < sizes_.heads; ++h)
      pool_.For((sizes_.n_q + kRowBlock - 1) / kRowBlock,
                [&](int64_t block, int) { RunBlock(h, block * kRowBlock); });
  }

  double Flops() const override { return sizes_.Flops(kRowBlock); }

 private:
  void RunBlock(int64_t h, int64_t first) {
    const auto& [n_q, n_k, d, e, heads, has_bias, seen, positions] = sizes_;
    const int64_t rows = std::min(kRowBlock, n_q - first);
    const int64_t keys = seen.Before(h, first + rows);
    const auto q = RowsOf(arrays_.In<T>("q").Head(h) + first * d, rows, d);
    const auto k = RowsOf(arrays_.In<T>("k").Head(h), keys, d);
    const auto v = RowsOf(arrays_.In<T>("v").Head(h), keys, e);
    auto scores = RowsOf(scores_.data() + first * n_k, rows, keys, n_k);
    auto out = RowsOf(arrays_.Out<T>("out").Head(h) + first * e, rows, e);
    Multiply(scale_, q, k.transpose(), scores);
    T sums[kRowBlock];
    for (int64_t i = 0; i < rows; ++i) {
      T* row = scores_.data() + (first + i) * n_k;
      const int64_t visible = seen.By(h, first + i);
      const T* bias =
          has_bias ? sizes_.BiasOf(arrays_.In<T>("bias").Head(h), first + i)
                   : nullptr;
      if (bias && sizes_.is_image()) {
        for (int64_t j = 0; j < visible; ++j) row[j] += bias[positions.Of(j)];
        bias = nullptr;
      }
      sums[i] = ExponentiateRow(row, visible, bias);
      std::fill(row + visible, row + keys, T{0});
    }
    Multiply(T{1}, scores, v, out);
    for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> scores_;
};

// The backward pass of `dense`: its two GEMMs and five more, with the weights
// and the gradients of the scores of one head in memory.
template <typename T>
class DenseSoftmaxGradient : public Prepared {
 public:
  DenseSoftmaxGradient(const Problem& problem, const Arrays& arrays,
                       Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        gradient_(layout, sizes_.n_q, sizes_.n_k, sizes_.e),
        grad_q_(layout, arrays, "grad_q", sizes_.heads),
        grad_k_(layout, arrays, "grad_k", sizes_.heads),
        grad_v_(layout, arrays, "grad_v", sizes_.heads) {
    if (sizes_.has_bias)
      grad_bias_.emplace(layout, arrays, "grad_bias", sizes_.heads);
  }

  void Run() override {
    const auto blocks = [](int64_t count) {
      return (count + kRowBlock - 1) / kRowBlock;
    };
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      pool_.For(blocks(sizes_.n_q),
                [&](int64_t block, int) { RunQueries(h, block * kRowBlock); });
      pool_.For(blocks(sizes_.n_k),
                [&](int64_t block, int) { RunKeys(h, block * kRowBlock); });
      if (grad_bias_) AddBiasGradient(h);
    }
    grad_q_.AddUp(pool_);
    grad_k_.AddUp(pool_);
    grad_v_.AddUp(pool_);
    if (grad_bias_) grad_bias_->AddUp(pool_);
  }

  // Counts scores, grad_q and grad_k of width d; g.v and grad_v of width e.
  double Flops() const override {
    const double d = static_cast<double>(sizes_.d);
    const double e = static_cast<double>(sizes_.e);
    return sizes_.Flops(kRowBlock) * (3 * d + 2 * e) / (d + e);
  }

 private:
  void RunQueries(int64_t h, int64_t first) {
    const auto& [n_q, n_k, d, e, heads, has_bias, seen, positions] = sizes_;
    const int64_t rows = std::min(kRowBlock, n_q - first);
    const int64_t keys = seen.Before(h, first + rows);
    const auto q = RowsOf(arrays_.In<T>("q").Head(h) + first * d, rows, d);
    const auto k = RowsOf(arrays_.In<T>("k").Head(h), keys, d);
    auto scores = RowsOf(gradient_.Weights(first), rows, keys, n_k);
    Multiply(scale_, q, k.transpose(), scores);
    for (int64_t i = first; i < first + rows; ++i) {
      const T* bias =
          has_bias ? sizes_.BiasOf(arrays_.In<T>("bias").Head(h), i) : nullptr;
      if (bias && sizes_.is_image()) {
        T* const own = gradient_.Weights(i);
        for (int64_t j = 0; j < seen.By(h, i); ++j)
          own[j] += bias[positions.Of(j)];
        bias = nullptr;
      }
      gradient_.Exponentiate(i, seen.By(h, i), bias);
    }
    gradient_.Scores(first, rows, keys, arrays_.In<T>("grad").Head(h),
                     arrays_.In<T>("v").Head(h));
    auto grad_q = RowsOf(grad_q_.Head(h) + first * d, rows, d);
    Multiply(scale_, gradient_.ScoreRows(first, rows, keys), k, grad_q);
  }

  void AddBiasGradient(int64_t h) {
    T* const out = grad_bias_->Head(h);
    if (!sizes_.is_image()) return gradient_.Diagonals(pool_, out);
    const TokenPositions& positions = sizes_.positions;
    std::fill_n(out, 2 * positions.Of(sizes_.n_q - 1) + 1, T{0});
    const auto scores = gradient_.ScoreRows(0, sizes_.n_q, sizes_.n_k);
    for (int64_t i = 0; i < sizes_.n_q; ++i) {
      T* const to = out + positions.Of(sizes_.n_q - 1) - positions.Of(i);
      for (int64_t j = 0; j < sizes_.n_k; ++j)
        to[positions.Of(j)] += scores(i, j);
    }
  }

  void RunKeys(int64_t h, int64_t key) {
    const int64_t n_q = sizes_.n_q, d = sizes_.d;
    const int64_t keys = std::min(kRowBlock, sizes_.n_k - key);
    const int64_t first = sizes_.FirstToSee(h, key, kRowBlock);
    gradient_.Values(key, keys, first, arrays_.In<T>("grad").Head(h),
                     grad_v_.Head(h));
    const auto q =
        RowsOf(arrays_.In<T>("q").Head(h) + first * d, n_q - first, d);
    auto grad_k = RowsOf(grad_k_.Head(h) + key * d, keys, d);
    Multiply(scale_, gradient_.ScoreColumns(first, key, keys).transpose(), q,
             grad_k);
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  DenseGradient<T> gradient_;
  SharedGradient<T> grad_q_, grad_k_, grad_v_;
  std::optional<SharedGradient<T>> grad_bias_;
};

template <typename T>
class TiledSoftmax : public Prepared {
 public:
  TiledSoftmax(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        together_(Together(sizes_, layout.threads())) {
    for (int64_t block = 0; block < layout.threads() * together_; ++block)
      blocks_.emplace_back(layout, sizes_.d, sizes_.e);
  }

  void Run() override {
    const int64_t rows = together_ * kBlockQueries<T>;
    const int64_t tasks = (sizes_.n_q + rows - 1) / rows;
    // Starts with the longest rows of a causal problem, so that threads finish
    // together.
    pool_.For(sizes_.heads * tasks, [&](int64_t index, int worker) {
      RunBlocks(index / tasks, (tasks - 1 - index % tasks) * rows,
                blocks_.data() + worker * together_);
    });
  }

  double Flops() const override { return sizes_.Flops(kBlockQueries<T>); }

 private:
  // Blocks of queries that use a tile of keys while it is in cache: up to four,
  // as long as every thread has four tasks. No bit of a result depends on it.
  static int64_t Together(const Sizes& sizes, int threads) {
    const int64_t blocks =
        sizes.heads * ((sizes.n_q - 1) / kBlockQueries<T> + 1);
    return std::clamp<int64_t>(blocks / (4 * threads), 1, 4);
  }

  void RunBlocks(int64_t h, int64_t first, SoftmaxBlock<T>* blocks) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const T* q = arrays_.In<T>("q").Head(h);
    const T* k = arrays_.In<T>("k").Head(h);
    const T* v = arrays_.In<T>("v").Head(h);
    T* const out = arrays_.Out<T>("out").Head(h);
    const int64_t last =
        std::min(first + together_ * kBlockQueries<T>, sizes_.n_q);
    const auto for_blocks = [&](const auto& work) {
      for (int64_t row = first; row < last; row += kBlockQueries<T>)
        work(row, std::min(kBlockQueries<T>, last - row),
             blocks[(row - first) / kBlockQueries<T>]);
    };
    for_blocks([&](int64_t row, int64_t rows, SoftmaxBlock<T>& block) {
      block.Begin(q + row * d, d, rows, scale_);
    });
    for (int64_t j = 0; j < sizes_.seen.Before(h, last); j += kTileKeys)
      for_blocks([&](int64_t row, int64_t rows, SoftmaxBlock<T>& block) {
        const int64_t visible = sizes_.seen.Before(h, row + rows);
        if (j >= visible) return;
        block.Scores(k + j * d, d, std::min(kTileKeys, visible - j));
        if (sizes_.has_bias && sizes_.is_image())
          AddImageBias(h, row, rows, j, std::min(kTileKeys, visible - j),
                       block);
        else if (sizes_.has_bias)  // bias of query `row` and key j first
          block.AddBias(sizes_.BiasOf(arrays_.In<T>("bias").Head(h), row) + j);
        if (sizes_.seen.causal())
          block.HideAfter(row + sizes_.seen.first() - j);
        block.Accumulate(v + j * e, e);
      });
    for_blocks([&](int64_t row, int64_t, SoftmaxBlock<T>& block) {
      block.End(out + row * e, e);
    });
  }

  // The queries of a block may be in several rows of the image.
  void AddImageBias(int64_t h, int64_t row, int64_t rows, int64_t key,
                    int64_t keys, SoftmaxBlock<T>& block) const {
    const T* bias = sizes_.BiasOf(arrays_.In<T>("bias").Head(h), row);
    int64_t back[kBlockQueries<T>];  // from query `row` to each
    for (int64_t i = 0; i < rows; ++i)
      back[i] = sizes_.positions.Of(row + i) - sizes_.positions.Of(row);
    for (int64_t j = 0; j < keys; ++j) {
      const T* at = bias + sizes_.positions.Of(key + j);
      T* scores = &block.Score(0, j);
      for (int64_t i = 0; i < rows; ++i) scores[i] += at[-back[i]];
    }
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  const int64_t together_;
  std::vector<SoftmaxBlock<T>> blocks_;
};

// Processes one block of queries after another, forward and backward
// (gradient_tiles.h). The blocks of a head are assigned to a fixed number of
// parts, each with its own sums over queries, so that threads change no bit.
template <typename T>
class TiledSoftmaxGradient : public Prepared {
 public:
  TiledSoftmaxGradient(const Problem& problem, const Arrays& arrays,
                       Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        parts_(Parts(sizes_)),
        offsets_(sizes_.has_bias ? sizes_.n_q + sizes_.n_k - 1 : 0),
        part_size_(WholeLines<T>(sizes_.n_k * (sizes_.d + sizes_.e) +
                                 (offsets_ > 0 ? offsets_ + 2 * kMargin : 0))),
        sums_(layout, sizes_.heads * parts_ * part_size_),
        blocks_(PartPerThread<GradientBlock<T>>(layout, sizes_.d, sizes_.e)),
        grad_q_(layout, arrays, "grad_q", sizes_.heads),
        grad_k_(layout, arrays, "grad_k", sizes_.heads),
        grad_v_(layout, arrays, "grad_v", sizes_.heads) {
    if (sizes_.has_bias)
      grad_bias_.emplace(layout, arrays, "grad_bias", sizes_.heads);
  }

  void Run() override {
    pool_.For(sizes_.heads * parts_, [&](int64_t index, int worker) {
      RunPart(index / parts_, index % parts_, blocks_[worker]);
    });
    pool_.For(sizes_.heads, [&](int64_t h, int) { AddParts(h); });
    grad_q_.AddUp(pool_);
    grad_k_.AddUp(pool_);
    grad_v_.AddUp(pool_);
    if (grad_bias_) grad_bias_->AddUp(pool_);
  }

  // Counts the forward pass; the scores again, grad_q and grad_k of width d;
  // g.v and grad_v of width e.
  double Flops() const override {
    const double d = static_cast<double>(sizes_.d);
    const double e = static_cast<double>(sizes_.e);
    return sizes_.Flops(kBlockQueries<T>) * (4 * d + 3 * e) / (d + e);
  }

 private:
  static constexpr int64_t kMargin = GradientBlock<T>::kMargin;

  // Uses as many parts as keep 16 threads busy, and no more than there are
  // blocks.
  static int64_t Parts(const Sizes& sizes) {
    const int64_t blocks = (sizes.n_q - 1) / kBlockQueries<T> + 1;
    return std::min(std::clamp<int64_t>(16 / sizes.heads, 1, 8), blocks);
  }

  struct Sums {
    T *grad_k, *grad_v, *grad_bias;
  };
  Sums SumsOf(int64_t h, int64_t part) const {
    T* const first = sums_.data() + (h * parts_ + part) * part_size_;
    T* const values = first + sizes_.n_k * sizes_.d;
    return {first, values, values + sizes_.n_k * sizes_.e + kMargin};
  }

  void RunPart(int64_t h, int64_t part, GradientBlock<T>& block) {
    const int64_t d = sizes_.d, e = sizes_.e, n_q = sizes_.n_q;
    const Sums sums = SumsOf(h, part);
    std::fill_n(sums.grad_k, part_size_, T{0});
    const T* const k = arrays_.In<T>("k").Head(h);
    const T* const v = arrays_.In<T>("v").Head(h);
    const T* const bias =
        sizes_.has_bias ? arrays_.In<T>("bias").Head(h) + n_q - 1 : nullptr;
    for (int64_t row = part * kBlockQueries<T>; row < n_q;
         row += parts_ * kBlockQueries<T>) {
      const int64_t rows = std::min(kBlockQueries<T>, n_q - row);
      const int64_t visible = sizes_.seen.Before(h, row + rows);
      const auto for_tiles = [&](const auto& use) {
        for (int64_t j = 0; j < visible; j += kTileKeys) {
          block.scores().Scores(k + j * d, d, std::min(kTileKeys, visible - j));
          if (bias) block.scores().AddBias(bias - row + j);
          if (sizes_.seen.causal())
            block.scores().HideAfter(row + sizes_.seen.first() - j);
          use(j);
        }
      };
      block.Begin(arrays_.In<T>("q").Head(h) + row * d, rows, scale_,
                  arrays_.In<T>("grad").Head(h) + row * e);
      for_tiles([&](int64_t j) { block.scores().Accumulate(v + j * e, e); });
      block.Turn();
      for_tiles([&](int64_t j) {
        block.Accumulate(k + j * d, v + j * e, sums.grad_k + j * d,
                         sums.grad_v + j * e,
                         bias ? sums.grad_bias + n_q - 1 - row + j : nullptr);
      });
      block.End(grad_q_.Head(h) + row * d, scale_);
    }
  }

  // Adds the parts in order.
  void AddParts(int64_t h) {
    const auto add = [&](T* to, int64_t count, T* Sums::*from) {
      std::copy_n(SumsOf(h, 0).*from, count, to);
      for (int64_t part = 1; part < parts_; ++part) {
        const T* const more = SumsOf(h, part).*from;
        for (int64_t x = 0; x < count; ++x) to[x] += more[x];
      }
    };
    add(grad_k_.Head(h), sizes_.n_k * sizes_.d, &Sums::grad_k);
    add(grad_v_.Head(h), sizes_.n_k * sizes_.e, &Sums::grad_v);
    if (grad_bias_) add(grad_bias_->Head(h), offsets_, &Sums::grad_bias);
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  const int64_t parts_, offsets_, part_size_;
  Buffer<T> sums_;  // over the queries of each part
  std::vector<GradientBlock<T>> blocks_;
  SharedGradient<T> grad_q_, grad_k_, grad_v_;
  std::optional<SharedGradient<T>> grad_bias_;
};

std::string NoImageBiasBackward(const Problem& problem) {
  return problem.backward && problem.HasInput("bias") &&
                 problem.params.Has("height")
             ? "the gradient of an image's bias is not implemented"
             : "";
}

}  // namespace

std::vector<Implementation> SoftmaxAttentionImplementations() {
  return CpuTable(
      "softmax_attention",
      {{.id = "dense",
        .what = "two GEMMs (Eigen) with the scores in memory",
        .sums = DirectSums,
        .backward = true,
        .prepare = PrepareForEither<DenseSoftmax, DenseSoftmaxGradient>},
       {.id = "tiled",
        .what = "online softmax over tiles of keys, queries in the SIMD lanes",
        .memory = {"O(d+e) per thread", "1"},
        .sums = DirectSums,
        .backward = true,
        .why_not = NoImageBiasBackward,
        .prepare = PrepareForEither<TiledSoftmax, TiledSoftmaxGradient>}});
}

}  // namespace subquad
