// softmax_attention: out_i = softmax_j(scale q_i.k_j + bias(j-i)) v
// (FastRPB eq. 1; NPRF eq. 1 and 6; Transformers II eq. 1 and 11)
//
//   dense   two GEMMs with the scores in memory, 256 queries at a time, and a
//           vectorised softmax of the rows between them: O(n^2 (d+e)) time,
//           O(n^2) memory. The usual program, as fast as a good GEMM makes it.
//   tiled   exact, without the scores: a block of queries in the SIMD lanes
//           against tiles of keys that stay in the cache, sums rescaled as the
//           largest score grows (softmax_tiles.h). Same operations, O(n)
//           memory, faster than dense at every size; the baseline to beat.
//
// With `causal` both leave out what lies wholly above the diagonal.
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "algorithms/kernelized.h"
#include "algorithms/seen_keys.h"
#include "optimized/base/matrix.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/softmax/softmax_scale.h"

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
  // The bias of a head for query i and the key at position 0 of it.
  template <typename T>
  const T* BiasOf(const T* bias, int64_t i) const {
    return bias + positions.Of(n_q - 1) - positions.Of(i);
  }

  // Of the pairs of a query and a key that are computed when this many queries
  // go through their keys together.
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
        scale_(SoftmaxScale<T>(problem)),
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
    const ConstMatrixMap<T> q(arrays_.In<T>("q").Head(h) + first * d, rows, d,
                              Eigen::OuterStride<>(d));
    const ConstMatrixMap<T> k(arrays_.In<T>("k").Head(h), keys, d,
                              Eigen::OuterStride<>(d));
    const ConstMatrixMap<T> v(arrays_.In<T>("v").Head(h), keys, e,
                              Eigen::OuterStride<>(e));
    MatrixMap<T> scores(scores_.data() + first * n_k, rows, keys,
                        Eigen::OuterStride<>(n_k));
    MatrixMap<T> out(arrays_.Out<T>("out").Head(h) + first * e, rows, e,
                     Eigen::OuterStride<>(e));
    scores.noalias() = scale_ * q * k.transpose();
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
    out.noalias() = scores * v;
    for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> scores_;
};

template <typename T>
class TiledSoftmax : public Prepared {
 public:
  TiledSoftmax(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(SoftmaxScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        together_(Together(sizes_, layout.threads())) {
    for (int64_t block = 0; block < layout.threads() * together_; ++block)
      blocks_.emplace_back(layout, sizes_.d, sizes_.e);
  }

  void Run() override {
    const int64_t rows = together_ * kBlockQueries<T>;
    const int64_t tasks = (sizes_.n_q + rows - 1) / rows;
    // The longest rows of a causal problem first, for an even finish.
    pool_.For(sizes_.heads * tasks, [&](int64_t index, int worker) {
      RunBlocks(index / tasks, (tasks - 1 - index % tasks) * rows,
                blocks_.data() + worker * together_);
    });
  }

  double Flops() const override { return sizes_.Flops(kBlockQueries<T>); }

 private:
  // Blocks of queries that meet a tile of keys while it is in cache: up to
  // four, as long as every thread has four tasks. No bit of a result depends on
  // it.
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
        else if (sizes_.has_bias)  // of query `row` and key j first
          block.AddBias(sizes_.BiasOf(arrays_.In<T>("bias").Head(h), row) + j);
        if (sizes_.seen.causal())
          block.HideAfter(row + sizes_.seen.first() - j);
        block.Accumulate(v + j * e, e);
      });
    for_blocks([&](int64_t row, int64_t, SoftmaxBlock<T>& block) {
      block.End(out + row * e, e);
    });
  }

  // Queries of a block lie in one or several rows of the image.
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

}  // namespace

std::vector<Implementation> SoftmaxAttentionImplementations() {
  return CpuTable(
      "softmax_attention",
      {{.id = "dense",
        .what = "two GEMMs (Eigen) with the scores in memory",
        .sums = DirectSums,
        .prepare = PrepareFor<DenseSoftmax>},
       {.id = "tiled",
        .what = "online softmax over tiles of keys, queries in the SIMD lanes",
        .memory = {"O(d+e) per thread", "1"},
        .sums = DirectSums,
        .prepare = PrepareFor<TiledSoftmax>}});
}

}  // namespace subquad
