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
// With `causal` or a window both skip tiles in which no query sees a key.
//
// Backward, `dense` stores the weights and the gradients of the scores of a
// head (dense_gradient.h: five GEMMs); `tiled` processes its tiles twice,
// forward for the sums of the weights and backward with the scores recomputed
// (gradient_tiles.h: seven products a tile), in O(n) memory.
#include <algorithm>
#include <cstdlib>
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
        has_sinks(problem.HasInput("sinks")),
        has_lse(IndexOf(problem.outputs, "lse") >= 0),
        has_grad_lse(problem.HasInput("grad_lse")),
        softcap(problem.params.Has("softcap") ? problem.params.Number("softcap")
                                              : 0),
        seen(problem),
        positions{problem.params.Has("width") ? problem.Dim("width") : 0} {}

  bool is_image() const { return positions.image_width > 0; }
  // Returns the bias of a head for query i and the key at position 0.
  template <typename T>
  const T* BiasOf(const T* bias, int64_t i) const {
    return bias + positions.Of(n_q - 1) - positions.Of(i);
  }

  // Hides the keys of a tile, from key j on, that its queries, from `row` on,
  // do not see. Padding is not part of a tile.
  template <typename T>
  void Hide(int64_t row, int64_t j, SoftmaxBlock<T>& block) const {
    if (seen.LimitsAhead()) block.HideAfter(row + seen.LastOfZero() - j);
    if (seen.LimitsBehind()) block.HideBefore(row + seen.FirstOfZero() - j);
  }

  // Counts the flops of the pairs that are computed if this many queries
  // process their keys together.
  double Flops(int64_t block) const {
    double pairs = 0;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t first = 0; first < n_q; first += block) {
        const int64_t end = std::min(first + block, n_q);
        pairs += static_cast<double>(end - first) *
                 static_cast<double>(seen.Before(h, end) - seen.From(h, first));
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
  bool has_bias, has_sinks, has_lse, has_grad_lse;
  double softcap;  // 0: none
  SeenKeys seen;
  TokenPositions positions;
};

// The bias of each head by offset: entry t belongs to j - i = t - (n_q - 1). It
// is an input, or made of slopes.
template <typename T>
class OffsetBias {
 public:
  OffsetBias(const Problem& problem, const Arrays& arrays, Layout& layout)
      : arrays_(arrays),
        has_bias_(problem.HasInput("bias")),
        slices_(problem.HasInput("slopes") ? problem.SlicesOf("slopes")
                                           : Slices()),
        has_slopes_(problem.HasInput("slopes")),
        count_(problem.queries + problem.keys - 1),
        middle_(problem.queries - 1 + SeenKeys(problem).first()),
        of_slopes_(layout, has_slopes_ ? slices_.count() * count_ : 0) {}

  // Makes the biases of slopes, at the beginning of every run.
  void Compute() const {
    if (!has_slopes_) return;
    for (int64_t slice = 0; slice < slices_.count(); ++slice) {
      const T slope = *arrays_.In<T>("slopes").Slice(slice);
      T* const to = of_slopes_.data() + slice * count_;
      for (int64_t t = 0; t < count_; ++t) to[t] = -slope * Distance(t);
    }
  }

  // Returns null if there is no bias.
  const T* Head(int64_t head) const {
    if (has_slopes_) return of_slopes_.data() + slices_.Of(head) * count_;
    return has_bias_ ? arrays_.In<T>("bias").Head(head) : nullptr;
  }

  bool has_slopes() const { return has_slopes_; }

  // Returns the gradient of the slope, given that of each entry.
  T SlopeGradient(const T* gradient) const {
    T sum = 0;
    for (int64_t t = 0; t < count_; ++t) sum -= gradient[t] * Distance(t);
    return sum;
  }

 private:
  // Returns the distance of query and key.
  T Distance(int64_t t) const { return static_cast<T>(std::abs(t - middle_)); }

  const Arrays arrays_;
  const bool has_bias_;
  const Slices slices_;  // of the slopes
  const bool has_slopes_;
  const int64_t count_, middle_;
  Buffer<T> of_slopes_;
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
        bias_(problem, arrays, layout),
        pool_(layout),
        scores_(layout, sizes_.n_q * sizes_.n_k) {}

  void Run() override {
    bias_.Compute();
    for (int64_t h = 0; h < sizes_.heads; ++h)
      pool_.For((sizes_.n_q + kRowBlock - 1) / kRowBlock,
                [&](int64_t block, int) { RunBlock(h, block * kRowBlock); });
  }

  double Flops() const override { return sizes_.Flops(kRowBlock); }

 private:
  void RunBlock(int64_t h, int64_t first) {
    const int64_t n_k = sizes_.n_k, d = sizes_.d, e = sizes_.e;
    const SeenKeys& seen = sizes_.seen;
    const int64_t rows = std::min(kRowBlock, sizes_.n_q - first);
    // Column 0 is the first key that one of these queries sees.
    const int64_t begin = seen.From(h, first);
    const int64_t keys = seen.Before(h, first + rows) - begin;
    const auto q = RowsOf(arrays_.In<T>("q").Head(h) + first * d, rows, d);
    const auto k = RowsOf(arrays_.In<T>("k").Head(h) + begin * d, keys, d);
    const auto v = RowsOf(arrays_.In<T>("v").Head(h) + begin * e, keys, e);
    auto scores = RowsOf(scores_.data() + first * n_k, rows, keys, n_k);
    auto out = RowsOf(arrays_.Out<T>("out").Head(h) + first * e, rows, e);
    Multiply(scale_, q, k.transpose(), scores);
    T sums[kRowBlock];
    for (int64_t i = 0; i < rows; ++i) {
      T* row = scores_.data() + (first + i) * n_k;
      const int64_t from = seen.From(h, first + i) - begin;
      const int64_t visible = seen.By(h, first + i) - begin;
      if (sizes_.softcap > 0)
        CapRow<T>(row + from, visible - from, static_cast<T>(sizes_.softcap),
                  nullptr);
      const T* bias = bias_.Head(h);
      if (bias) bias = sizes_.BiasOf(bias, first + i);
      if (bias && sizes_.is_image()) {
        for (int64_t j = from; j < visible; ++j)
          row[j] += bias[sizes_.positions.Of(begin + j)];
        bias = nullptr;
      }
      T sink = sizes_.has_sinks ? *arrays_.In<T>("sinks").Head(h) : T{0};
      sums[i] = ExponentiateRow(
          row + from, visible - from, bias ? bias + begin + from : nullptr,
          sizes_.has_sinks ? &sink : nullptr,
          sizes_.has_lse ? arrays_.Out<T>("lse").Head(h) + first + i : nullptr);
      std::fill(row, row + from, T{0});
      std::fill(row + visible, row + keys, T{0});
    }
    Multiply(T{1}, scores, v, out);
    for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  const OffsetBias<T> bias_;
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
        bias_(problem, arrays, layout),
        pool_(layout),
        gradient_(layout, sizes_.n_q, sizes_.n_k, sizes_.e),
        slopes_(layout, sizes_.softcap > 0 ? sizes_.n_q * sizes_.n_k : 0),
        sink_weights_(layout, sizes_.has_sinks ? sizes_.n_q : 0),
        diagonals_(layout,
                   bias_.has_slopes() ? sizes_.n_q + sizes_.n_k - 1 : 0),
        grad_q_(layout, arrays, "grad_q", sizes_.heads),
        grad_k_(layout, arrays, "grad_k", sizes_.heads),
        grad_v_(layout, arrays, "grad_v", sizes_.heads) {
    if (sizes_.has_bias)
      grad_bias_.emplace(layout, arrays, "grad_bias", sizes_.heads);
    if (sizes_.has_sinks)
      grad_sinks_.emplace(layout, arrays, "grad_sinks", sizes_.heads);
    if (bias_.has_slopes())
      grad_slopes_.emplace(layout, arrays, "grad_slopes", sizes_.heads);
  }

  void Run() override {
    bias_.Compute();
    const auto blocks = [](int64_t count) {
      return (count + kRowBlock - 1) / kRowBlock;
    };
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      pool_.For(blocks(sizes_.n_q),
                [&](int64_t block, int) { RunScores(h, block * kRowBlock); });
      if (grad_bias_) AddBiasGradient(h);
      if (grad_sinks_) AddSinkGradient(h);
      if (grad_slopes_) {
        gradient_.Diagonals(pool_, diagonals_.data());
        *grad_slopes_->Head(h) = bias_.SlopeGradient(diagonals_.data());
      }
      pool_.For(blocks(sizes_.n_q),
                [&](int64_t block, int) { RunQueries(h, block * kRowBlock); });
      pool_.For(blocks(sizes_.n_k),
                [&](int64_t block, int) { RunKeys(h, block * kRowBlock); });
    }
    grad_q_.AddUp(pool_);
    grad_k_.AddUp(pool_);
    grad_v_.AddUp(pool_);
    if (grad_bias_) grad_bias_->AddUp(pool_);
    if (grad_sinks_) grad_sinks_->AddUp(pool_);
    if (grad_slopes_) grad_slopes_->AddUp(pool_);
  }

  // Counts scores, grad_q and grad_k of width d; g.v and grad_v of width e.
  double Flops() const override {
    const double d = static_cast<double>(sizes_.d);
    const double e = static_cast<double>(sizes_.e);
    return sizes_.Flops(kRowBlock) * (3 * d + 2 * e) / (d + e);
  }

 private:
  // Computes the weights of these queries, and the gradients of their scores.
  void RunScores(int64_t h, int64_t first) {
    const int64_t n_k = sizes_.n_k, d = sizes_.d;
    const SeenKeys& seen = sizes_.seen;
    const int64_t rows = std::min(kRowBlock, sizes_.n_q - first);
    const int64_t keys = seen.Before(h, first + rows);
    const auto q = RowsOf(arrays_.In<T>("q").Head(h) + first * d, rows, d);
    const auto k = RowsOf(arrays_.In<T>("k").Head(h), keys, d);
    auto scores = RowsOf(gradient_.Weights(first), rows, keys, n_k);
    Multiply(scale_, q, k.transpose(), scores);
    for (int64_t i = first; i < first + rows; ++i) {
      const int64_t from = seen.From(h, i), visible = seen.By(h, i);
      T* const own = gradient_.Weights(i);
      if (sizes_.softcap > 0)
        CapRow(own, keys, static_cast<T>(sizes_.softcap),
               slopes_.data() + i * n_k);
      const T* bias = bias_.Head(h);
      if (bias) bias = sizes_.BiasOf(bias, i);
      if (bias && sizes_.is_image()) {
        for (int64_t j = from; j < visible; ++j)
          own[j] += bias[sizes_.positions.Of(j)];
        bias = nullptr;
      }
      if (sizes_.has_sinks) sink_weights_[i] = *arrays_.In<T>("sinks").Head(h);
      gradient_.Exponentiate(i, from, visible, bias,
                             sizes_.has_sinks ? &sink_weights_[i] : nullptr);
    }
    gradient_.Scores(
        first, rows, keys, arrays_.In<T>("grad").Head(h),
        arrays_.In<T>("v").Head(h),
        sizes_.has_grad_lse ? arrays_.In<T>("grad_lse").Head(h) : nullptr);
  }

  // Computes grad_q, once the gradient of the bias is there: a softcap's
  // derivatives are factors of the gradients of the scaled products only.
  void RunQueries(int64_t h, int64_t first) {
    const int64_t d = sizes_.d;
    const int64_t rows = std::min(kRowBlock, sizes_.n_q - first);
    const int64_t keys = sizes_.seen.Before(h, first + rows);
    const auto k = RowsOf(arrays_.In<T>("k").Head(h), keys, d);
    auto scores = gradient_.ScoreRows(first, rows, keys);
    if (sizes_.softcap > 0)
      scores.array() *=
          RowsOf(slopes_.data() + first * sizes_.n_k, rows, keys, sizes_.n_k)
              .array();
    auto grad_q = RowsOf(grad_q_.Head(h) + first * d, rows, d);
    Multiply(scale_, scores, k, grad_q);
  }

  void AddSinkGradient(int64_t h) {
    T sum = 0;
    for (int64_t i = 0; i < sizes_.n_q; ++i)
      sum -= sink_weights_[i] * gradient_.Dot(i);
    *grad_sinks_->Head(h) = sum;
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
  const OffsetBias<T> bias_;
  ThreadPool pool_;
  DenseGradient<T> gradient_;
  Buffer<T> slopes_;        // of the softcap, [n_q, n_k]
  Buffer<T> sink_weights_;  // [n_q]
  Buffer<T> diagonals_;     // gradients by offset, of one head
  SharedGradient<T> grad_q_, grad_k_, grad_v_;
  std::optional<SharedGradient<T>> grad_bias_, grad_sinks_, grad_slopes_;
};

template <typename T>
class TiledSoftmax : public Prepared {
 public:
  TiledSoftmax(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        bias_(problem, arrays, layout),
        pool_(layout),
        together_(Together(sizes_, layout.threads())) {
    for (int64_t block = 0; block < layout.threads() * together_; ++block)
      blocks_.emplace_back(layout, sizes_.d, sizes_.e);
  }

  void Run() override {
    bias_.Compute();
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
    const SeenKeys& seen = sizes_.seen;
    const T* const bias = bias_.Head(h);
    const T* const sink =
        sizes_.has_sinks ? arrays_.In<T>("sinks").Head(h) : nullptr;
    for_blocks([&](int64_t row, int64_t rows, SoftmaxBlock<T>& block) {
      block.Begin(q + row * d, d, rows, scale_, sink);
    });
    for (int64_t j = seen.From(h, first) / kTileKeys * kTileKeys;
         j < seen.Before(h, last); j += kTileKeys)
      for_blocks([&](int64_t row, int64_t rows, SoftmaxBlock<T>& block) {
        const int64_t visible = seen.Before(h, row + rows);
        if (j >= visible || j + kTileKeys <= seen.From(h, row)) return;
        block.Scores(k + j * d, d, std::min(kTileKeys, visible - j));
        if (sizes_.softcap > 0) block.Cap(static_cast<T>(sizes_.softcap));
        if (bias && sizes_.is_image())
          AddImageBias(bias, row, rows, j, std::min(kTileKeys, visible - j),
                       block);
        else if (bias)  // bias of query `row` and key j first
          block.AddBias(sizes_.BiasOf(bias, row) + j);
        sizes_.Hide(row, j, block);
        block.Accumulate(v + j * e, e);
      });
    T* const lse = sizes_.has_lse ? arrays_.Out<T>("lse").Head(h) : nullptr;
    for_blocks([&](int64_t row, int64_t, SoftmaxBlock<T>& block) {
      if (lse) block.LogSums(lse + row);
      block.End(out + row * e, e);
    });
  }

  // The queries of a block may be in several rows of the image.
  void AddImageBias(const T* of_head, int64_t row, int64_t rows, int64_t key,
                    int64_t keys, SoftmaxBlock<T>& block) const {
    const T* bias = sizes_.BiasOf(of_head, row);
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
  const OffsetBias<T> bias_;
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
        bias_(problem, arrays, layout),
        pool_(layout),
        parts_(Parts(sizes_)),
        offsets_(sizes_.has_bias || bias_.has_slopes()
                     ? sizes_.n_q + sizes_.n_k - 1
                     : 0),
        part_size_(WholeLines<T>(sizes_.n_k * (sizes_.d + sizes_.e) + 1 +
                                 (offsets_ > 0 ? offsets_ + 2 * kMargin : 0))),
        sums_(layout, sizes_.heads * parts_ * part_size_),
        blocks_(PartPerThread<GradientBlock<T>>(layout, sizes_.d, sizes_.e,
                                                sizes_.softcap > 0)),
        grad_q_(layout, arrays, "grad_q", sizes_.heads),
        grad_k_(layout, arrays, "grad_k", sizes_.heads),
        grad_v_(layout, arrays, "grad_v", sizes_.heads) {
    if (sizes_.has_bias)
      grad_bias_.emplace(layout, arrays, "grad_bias", sizes_.heads);
    if (sizes_.has_sinks)
      grad_sinks_.emplace(layout, arrays, "grad_sinks", sizes_.heads);
    if (bias_.has_slopes())
      grad_slopes_.emplace(layout, arrays, "grad_slopes", sizes_.heads);
  }

  void Run() override {
    bias_.Compute();
    pool_.For(sizes_.heads * parts_, [&](int64_t index, int worker) {
      RunPart(index / parts_, index % parts_, blocks_[worker]);
    });
    pool_.For(sizes_.heads, [&](int64_t h, int) { AddParts(h); });
    grad_q_.AddUp(pool_);
    grad_k_.AddUp(pool_);
    grad_v_.AddUp(pool_);
    if (grad_bias_) grad_bias_->AddUp(pool_);
    if (grad_sinks_) grad_sinks_->AddUp(pool_);
    if (grad_slopes_) grad_slopes_->AddUp(pool_);
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
    T *grad_k, *grad_v, *grad_sink, *grad_bias;
  };
  Sums SumsOf(int64_t h, int64_t part) const {
    T* const first = sums_.data() + (h * parts_ + part) * part_size_;
    T* const values = first + sizes_.n_k * sizes_.d;
    T* const sink = values + sizes_.n_k * sizes_.e;
    return {first, values, sink, sink + 1 + kMargin};
  }

  void RunPart(int64_t h, int64_t part, GradientBlock<T>& block) {
    const int64_t d = sizes_.d, e = sizes_.e, n_q = sizes_.n_q;
    const Sums sums = SumsOf(h, part);
    std::fill_n(sums.grad_k, part_size_, T{0});
    const T* const k = arrays_.In<T>("k").Head(h);
    const T* const v = arrays_.In<T>("v").Head(h);
    const T* bias = bias_.Head(h);
    if (bias) bias += n_q - 1;
    const T* const sink =
        sizes_.has_sinks ? arrays_.In<T>("sinks").Head(h) : nullptr;
    const T* const grad_lse =
        sizes_.has_grad_lse ? arrays_.In<T>("grad_lse").Head(h) : nullptr;
    for (int64_t row = part * kBlockQueries<T>; row < n_q;
         row += parts_ * kBlockQueries<T>) {
      const int64_t rows = std::min(kBlockQueries<T>, n_q - row);
      const int64_t visible = sizes_.seen.Before(h, row + rows);
      const int64_t begin = sizes_.seen.From(h, row) / kTileKeys * kTileKeys;
      const auto for_tiles = [&](const auto& use) {
        for (int64_t j = begin; j < visible; j += kTileKeys) {
          block.scores().Scores(k + j * d, d, std::min(kTileKeys, visible - j));
          if (sizes_.softcap > 0) block.Cap(static_cast<T>(sizes_.softcap));
          if (bias) block.scores().AddBias(bias - row + j);
          sizes_.Hide(row, j, block.scores());
          use(j);
        }
      };
      block.Begin(arrays_.In<T>("q").Head(h) + row * d, rows, scale_,
                  arrays_.In<T>("grad").Head(h) + row * e, sink,
                  grad_lse ? grad_lse + row : nullptr);
      for_tiles([&](int64_t j) { block.scores().Accumulate(v + j * e, e); });
      block.Turn();
      if (sink) *sums.grad_sink += block.SinkGradient(*sink);
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
      const T* const first = SumsOf(h, 0).*from;
      if (to != first) std::copy_n(first, count, to);
      for (int64_t part = 1; part < parts_; ++part) {
        const T* const more = SumsOf(h, part).*from;
        for (int64_t x = 0; x < count; ++x) to[x] += more[x];
      }
    };
    add(grad_k_.Head(h), sizes_.n_k * sizes_.d, &Sums::grad_k);
    add(grad_v_.Head(h), sizes_.n_k * sizes_.e, &Sums::grad_v);
    if (grad_bias_) add(grad_bias_->Head(h), offsets_, &Sums::grad_bias);
    if (grad_sinks_) add(grad_sinks_->Head(h), 1, &Sums::grad_sink);
    if (!grad_slopes_) return;
    T* const diagonals = SumsOf(h, 0).grad_bias;
    add(diagonals, offsets_, &Sums::grad_bias);
    *grad_slopes_->Head(h) = bias_.SlopeGradient(diagonals);
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  const OffsetBias<T> bias_;
  ThreadPool pool_;
  const int64_t parts_, offsets_, part_size_;
  Buffer<T> sums_;  // over the queries of each part
  std::vector<GradientBlock<T>> blocks_;
  SharedGradient<T> grad_q_, grad_k_, grad_v_;
  std::optional<SharedGradient<T>> grad_bias_, grad_sinks_, grad_slopes_;
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
