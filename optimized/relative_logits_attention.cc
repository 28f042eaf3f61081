// relative_logits_attention: s_ij = scale q_i.k_j + r_i.table[:, a] for the
// distances a = i + query_offset - j in [0, E), out = softmax(s) v
//
//   dense   scores in memory by a GEMM; the logits of each query's distances
//           by a separate product, added in reverse: O(n^2 (d+e) + n E p)
//           time, O(n^2) memory.
//   shift   the n_q x E logits of a head by one GEMM, then a block of scores
//           at a time, to which a row of logits is added shifted: the same
//           operations, O(n E) memory.
//   tiled   online softmax over tiles of keys (softmax_tiles.h): O(n) memory.
//           A tile of 64 keys computes its logits in its scores. With the
//           queries i in the lanes, those of key j are
//           sum_x r[x][i] table[x][i + query_offset - j]: adjacent lanes
//           read adjacent entries, so that the shift only changes where
//           a row of the table is read from. The table is padded by zeros,
//           a tile's width on each side, and tiles beyond the band skip it.
#include <algorithm>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/dense_gradient.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/contract/seen_keys.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

struct Sizes {
  explicit Sizes(const Problem& problem)
      : n_q(problem.Dim("n_q")),
        n_k(problem.Dim("n_k")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        p(problem.Dim("p")),
        E(problem.Dim("E")),
        heads(problem.heads),
        seen(problem) {}

  // Keys [begin, end) that some query in [first, last) sees at a distance
  // within the band.
  struct Keys {
    int64_t begin, end;
    int64_t count() const { return std::max<int64_t>(0, end - begin); }
  };
  Keys InBand(int64_t h, int64_t first, int64_t last) const {
    return {std::max<int64_t>(0, first + seen.first() - E + 1),
            std::min(last + seen.first(), seen.Before(h, last))};
  }

  // Counts the flops of the pairs that are computed if this many queries
  // process their keys together, plus `logits` products of p for each query and
  // head.
  double Flops(int64_t block, double logits) const {
    double pairs = 0;
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t first = 0; first < n_q; first += block) {
        const int64_t end = std::min(first + block, n_q);
        pairs += static_cast<double>(end - first) *
                 static_cast<double>(seen.Before(h, end));
      }
    return 2 * pairs * static_cast<double>(d + e) +
           2 * logits * static_cast<double>(p);
  }

  int64_t n_q, n_k, d, e, p, E, heads;
  SeenKeys seen;
};

// The steps that the algorithms with scores in memory share.
template <typename T>
class WithScores : public Prepared {
 public:
  WithScores(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout) {}

 protected:
  // Queries whose scores one task fills, weighs and multiplies.
  static constexpr int64_t kBlock = 64;
  int64_t Blocks() const { return (sizes_.n_q + kBlock - 1) / kBlock; }

  const T* In(const char* name, int64_t h) const {
    return arrays_.In<T>(name).Head(h);
  }

  // `logits(i, keys)` points to the logit of query i and the first of the keys;
  // the logits of later keys precede it.
  template <typename Logits>
  void RunBlock(int64_t h, int64_t first, T* scores, int64_t stride,
                const Logits& logits) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const int64_t rows = std::min(kBlock, sizes_.n_q - first);
    const int64_t keys = sizes_.seen.Before(h, first + rows);
    auto block = RowsOf(scores, rows, keys, stride);
    Multiply(scale_, RowsOf(In("q", h) + first * d, rows, d),
             RowsOf(In("k", h), keys, d).transpose(), block);
    T sums[kBlock];
    for (int64_t i = 0; i < rows; ++i) {
      T* const row = scores + i * stride;
      const auto band = sizes_.InBand(h, first + i, first + i + 1);
      if (band.count() > 0) {
        const T* logit = logits(first + i, band);
        T* const from = row + band.begin;
        for (int64_t x = 0; x < band.count(); ++x) from[x] += logit[-x];
      }
      const int64_t visible = sizes_.seen.By(h, first + i);
      sums[i] = ExponentiateRow<T>(row, visible, nullptr);
      std::fill(row + visible, row + keys, T{0});
    }
    auto out = RowsOf(arrays_.Out<T>("out").Head(h) + first * e, rows, e);
    Multiply(T{1}, block, RowsOf(In("v", h), keys, e), out);
    for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
  }

  // Returns the distance from query i to the first of these keys.
  int64_t Farthest(int64_t i, const Sizes::Keys& keys) const {
    return i + sizes_.seen.first() - keys.begin;
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
};

template <typename T>
class DenseLogits : public WithScores<T> {
 public:
  DenseLogits(const Problem& problem, const Arrays& arrays, Layout& layout)
      : WithScores<T>(problem, arrays, layout),
        scores_(layout, sizes_.n_q * sizes_.n_k),
        logits_(layout, sizes_.E) {}

  void Run() override {
    const int64_t p = sizes_.p, E = sizes_.E;
    for (int64_t h = 0; h < sizes_.heads; ++h)
      pool_.For(this->Blocks(), [&](int64_t b, int worker) {
        const int64_t first = b * kBlock;
        this->RunBlock(
            h, first, scores_.data() + first * sizes_.n_k, sizes_.n_k,
            [&](int64_t i, const Sizes::Keys& keys) -> const T* {
              T* const own = logits_[worker];
              const int64_t nearest =
                  this->Farthest(i, keys) - keys.count() + 1;
              Eigen::Map<Eigen::Matrix<T, 1, Eigen::Dynamic>>(own, keys.count())
                  .noalias() =
                  RowsOf(this->In("r", h) + i * p, 1, p) *
                  RowsOf(this->In("table", h) + nearest, p, keys.count(), E);
              return own + keys.count() - 1;
            });
      });
  }

  double Flops() const override {
    double logits = 0;
    for (int64_t h = 0; h < sizes_.heads; ++h)
      for (int64_t i = 0; i < sizes_.n_q; ++i)
        logits += static_cast<double>(sizes_.InBand(h, i, i + 1).count());
    return sizes_.Flops(kBlock, logits);
  }

 private:
  using WithScores<T>::sizes_, WithScores<T>::pool_, WithScores<T>::kBlock;

  Buffer<T> scores_;
  PerThread<T> logits_;
};

template <typename T>
class ShiftLogits : public WithScores<T> {
 public:
  ShiftLogits(const Problem& problem, const Arrays& arrays, Layout& layout)
      : WithScores<T>(problem, arrays, layout),
        logits_(layout, sizes_.n_q * sizes_.E),
        scores_(layout, kBlock * sizes_.n_k) {}

  void Run() override {
    const int64_t p = sizes_.p, E = sizes_.E;
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      pool_.For(this->Blocks(), [&](int64_t b, int) {
        const int64_t first = b * kBlock;
        const int64_t rows = std::min(kBlock, sizes_.n_q - first);
        Multiply(T{1}, RowsOf(this->In("r", h) + first * p, rows, p),
                 RowsOf(this->In("table", h), p, E),
                 RowsOf(logits_.data() + first * E, rows, E));
      });
      // Starts with the longest rows, so that threads finish together.
      pool_.For(this->Blocks(), [&](int64_t b, int worker) {
        this->RunBlock(
            h, (this->Blocks() - 1 - b) * kBlock, scores_[worker], sizes_.n_k,
            [&](int64_t i, const Sizes::Keys& keys) -> const T* {
              return logits_.data() + i * E + this->Farthest(i, keys);
            });
      });
    }
  }

  double Flops() const override {
    return sizes_.Flops(kBlock, static_cast<double>(sizes_.heads * sizes_.n_q) *
                                    static_cast<double>(sizes_.E));
  }

 private:
  using WithScores<T>::sizes_, WithScores<T>::pool_, WithScores<T>::kBlock;

  Buffer<T> logits_;
  PerThread<T> scores_;
};

template <typename T>
class TiledLogits : public Prepared {
 public:
  TiledLogits(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        tables_(problem.SlicesOf("table")),
        table_(layout, tables_.count() * sizes_.p * Padded()),
        together_(Together(sizes_, layout.threads())) {
    for (int64_t block = 0; block < layout.threads() * together_; ++block)
      blocks_.emplace_back(layout, sizes_.d, sizes_.e, sizes_.p);
  }

  void Run() override {
    PadTables();
    const int64_t rows = together_ * kBlockQueries<T>;
    const int64_t tasks = (sizes_.n_q + rows - 1) / rows;
    // Starts with the longest rows of a causal problem, so that threads finish
    // together.
    pool_.For(sizes_.heads * tasks, [&](int64_t index, int worker) {
      RunBlocks(index / tasks, (tasks - 1 - index % tasks) * rows,
                blocks_.data() + worker * together_);
    });
  }

  double Flops() const override {
    double logits = 0;
    for (int64_t h = 0; h < sizes_.heads; ++h)
      for (int64_t row = 0; row < sizes_.n_q; row += kBlockQueries<T>) {
        const int64_t rows = std::min(kBlockQueries<T>, sizes_.n_q - row);
        auto keys = sizes_.InBand(h, row, row + rows);
        keys.begin = keys.begin / kTileKeys * kTileKeys;  // whole tiles
        logits += static_cast<double>(rows) * static_cast<double>(keys.count());
      }
    return sizes_.Flops(kBlockQueries<T>, logits);
  }

 private:
  // Zeros before and after a row of the table, as many as a tile reads whose
  // last pair is the first of the band, or vice versa.
  static constexpr int64_t kPad = kBlockQueries<T> + kTileKeys;
  int64_t Padded() const { return sizes_.E + 2 * kPad; }

  // Blocks of queries that use a tile of keys while it is in cache: up to four,
  // as long as every thread has four tasks. No bit of a result depends on it.
  static int64_t Together(const Sizes& sizes, int threads) {
    const int64_t blocks =
        sizes.heads * ((sizes.n_q - 1) / kBlockQueries<T> + 1);
    return std::clamp<int64_t>(blocks / (4 * threads), 1, 4);
  }

  void PadTables() {
    const int64_t p = sizes_.p, E = sizes_.E;
    std::fill_n(table_.data(), tables_.count() * p * Padded(), T{0});
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      if (!tables_.IsFirst(h)) continue;
      const T* table = arrays_.In<T>("table").Head(h);
      T* const padded = table_.data() + tables_.Of(h) * p * Padded() + kPad;
      for (int64_t x = 0; x < p; ++x)
        std::copy_n(table + x * E, E, padded + x * Padded());
    }
  }

  void RunBlocks(int64_t h, int64_t first, SoftmaxBlock<T>* blocks) {
    const int64_t d = sizes_.d, e = sizes_.e, p = sizes_.p;
    const T* q = arrays_.In<T>("q").Head(h);
    const T* k = arrays_.In<T>("k").Head(h);
    const T* v = arrays_.In<T>("v").Head(h);
    const T* r = arrays_.In<T>("r").Head(h);
    const T* table =
        table_.data() + tables_.Of(h) * p * Padded() + kPad;  // distance 0
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
      block.BeginBand(r + row * p, p);
    });
    for (int64_t j = 0; j < sizes_.seen.Before(h, last); j += kTileKeys)
      for_blocks([&](int64_t row, int64_t rows, SoftmaxBlock<T>& block) {
        const int64_t visible = sizes_.seen.Before(h, row + rows);
        if (j >= visible) return;
        const int64_t keys = std::min(kTileKeys, visible - j);
        block.Scores(k + j * d, d, keys);
        const auto band = sizes_.InBand(h, row, row + rows);
        const int64_t distance = row + sizes_.seen.first() - j;
        if (j < band.end && j + keys > band.begin)
          block.AddBand(table + distance, Padded());
        if (sizes_.seen.causal()) block.HideAfter(distance);
        block.Accumulate(v + j * e, e);
      });
    for_blocks([&](int64_t row, int64_t, SoftmaxBlock<T>& block) {
      block.End(out + row * e, e);
    });
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  const Slices tables_;
  Buffer<T> table_;
  const int64_t together_;
  std::vector<SoftmaxBlock<T>> blocks_;
};

// The adjoint of dense: the gradients of a head's scores are in memory; those
// of its logits by distance are read from them shifted.
template <typename T>
class DenseLogitsGradient : public WithScores<T> {
 public:
  DenseLogitsGradient(const Problem& problem, const Arrays& arrays,
                      Layout& layout)
      : WithScores<T>(problem, arrays, layout),
        gradient_(layout, sizes_.n_q, sizes_.n_k, sizes_.e),
        logits_(layout, sizes_.n_q * sizes_.E),
        grad_q_(layout, arrays, "grad_q", sizes_.heads),
        grad_k_(layout, arrays, "grad_k", sizes_.heads),
        grad_v_(layout, arrays, "grad_v", sizes_.heads),
        grad_r_(layout, arrays, "grad_r", sizes_.heads),
        grad_table_(layout, arrays, "grad_table", sizes_.heads) {}

  void Run() override {
    const int64_t key_blocks = (sizes_.n_k + kBlock - 1) / kBlock;
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      pool_.For(this->Blocks(),
                [&](int64_t block, int) { RunQueries(h, block * kBlock); });
      pool_.For(key_blocks,
                [&](int64_t block, int) { RunKeys(h, block * kBlock); });
      auto grad_table = RowsOf(grad_table_.Head(h), sizes_.p, sizes_.E);
      Multiply(T{1}, RowsOf(this->In("r", h), sizes_.n_q, sizes_.p).transpose(),
               RowsOf(logits_.data(), sizes_.n_q, sizes_.E), grad_table);
    }
    for (const auto* shared :
         {&grad_q_, &grad_k_, &grad_v_, &grad_r_, &grad_table_})
      shared->AddUp(pool_);
  }

  // Counts five products for the pairs and three for the logits.
  double Flops() const override {
    const double d = static_cast<double>(sizes_.d);
    const double e = static_cast<double>(sizes_.e);
    const double logits = static_cast<double>(sizes_.heads) *
                          static_cast<double>(sizes_.n_q * sizes_.E);
    return sizes_.Flops(kBlock, 0) * (3 * d + 2 * e) / (d + e) +
           6 * logits * static_cast<double>(sizes_.p);
  }

 private:
  using WithScores<T>::sizes_, WithScores<T>::pool_, WithScores<T>::scale_,
      WithScores<T>::kBlock;

  void RunQueries(int64_t h, int64_t first) {
    const auto& [n_q, n_k, d, e, p, E, heads, seen] = sizes_;
    const int64_t rows = std::min(kBlock, n_q - first);
    const int64_t keys = seen.Before(h, first + rows);
    const auto k = RowsOf(this->In("k", h), keys, d);
    const auto table = RowsOf(this->In("table", h), p, E);
    auto scores = RowsOf(gradient_.Weights(first), rows, keys, n_k);
    auto logits = RowsOf(logits_.data() + first * E, rows, E);
    Multiply(scale_, RowsOf(this->In("q", h) + first * d, rows, d),
             k.transpose(), scores);
    Multiply(T{1}, RowsOf(this->In("r", h) + first * p, rows, p), table,
             logits);
    for (int64_t i = first; i < first + rows; ++i) {
      const auto band = sizes_.InBand(h, i, i + 1);
      T* const row = gradient_.Weights(i) + band.begin;
      const T* const logit = logits_.data() + i * E + this->Farthest(i, band);
      for (int64_t x = 0; x < band.count(); ++x) row[x] += logit[-x];
      gradient_.Exponentiate(i, 0, seen.By(h, i), nullptr);
    }
    gradient_.Scores(first, rows, keys, this->In("grad", h), this->In("v", h));
    const auto score_rows = gradient_.ScoreRows(first, rows, keys);
    logits.setZero();
    for (int64_t i = first; i < first + rows; ++i) {
      const auto band = sizes_.InBand(h, i, i + 1);
      for (int64_t x = 0; x < band.count(); ++x)
        logits(i - first, this->Farthest(i, band) - x) =
            score_rows(i - first, band.begin + x);
    }
    auto grad_q = RowsOf(grad_q_.Head(h) + first * d, rows, d);
    Multiply(scale_, score_rows, k, grad_q);
    auto grad_r = RowsOf(grad_r_.Head(h) + first * p, rows, p);
    Multiply(T{1}, logits, table.transpose(), grad_r);
  }

  void RunKeys(int64_t h, int64_t key) {
    const int64_t n_q = sizes_.n_q, d = sizes_.d;
    const int64_t keys = std::min(kBlock, sizes_.n_k - key);
    int64_t first = 0;  // first block of queries that sees the first key
    while (first < n_q &&
           sizes_.seen.Before(h, std::min(first + kBlock, n_q)) <= key)
      first += kBlock;
    first = std::min(first, n_q);
    gradient_.Values(key, keys, first, this->In("grad", h), grad_v_.Head(h));
    auto grad_k = RowsOf(grad_k_.Head(h) + key * d, keys, d);
    Multiply(scale_, gradient_.ScoreColumns(first, key, keys).transpose(),
             RowsOf(this->In("q", h) + first * d, n_q - first, d), grad_k);
  }

  DenseGradient<T> gradient_;
  Buffer<T> logits_;  // logits of a head, then their gradients
  SharedGradient<T> grad_q_, grad_k_, grad_v_, grad_r_, grad_table_;
};

}  // namespace

std::vector<Implementation> RelativeLogitsAttentionImplementations() {
  return CpuTable(
      "relative_logits_attention",
      {{.id = "dense",
        .what = "scores in memory (GEMMs), the logits of each query computed "
                "separately",
        .source = "definition",
        .time = {"O(n^2 (d+e) + n E p)", "n^2"},
        .memory = {"O(n^2)", "n^2"},
        .sums = DirectSums,
        .backward = true,
        .prepare = PrepareForEither<DenseLogits, DenseLogitsGradient>},
       {.id = "shift",
        .what = "the logits of all distances by one GEMM, added shifted",
        .source = "Transformer-XL appendix B, for a band",
        .time = {"O(n^2 (d+e) + n E p)", "n^2"},
        .memory = {"O(n E)", "n"},
        .sums = DirectSums,
        .prepare = PrepareFor<ShiftLogits>},
       {.id = "tiled",
        .what = "online softmax over tiles of keys, logits made in the tile",
        .memory = {"O(p E), O(d+e+p) per thread", "1"},
        .sums = DirectSums,
        .prepare = PrepareFor<TiledLogits>}});
}

}  // namespace subquad
