// sinkhorn_attention: softmax attention within blocks, and to a mixture of all
// blocks for each block (Transformers II, learned sparsity; Tay et al. 2020)
//
//   dense    every query against all keys and all mixed keys, those of other
//            blocks hidden, two GEMMs: O(n^2 (d + e)).
//   blocked  a block's queries against the 2 block keys that they see
//            (softmax_tiles.h): O(n block (d + e)), plus the mixing.
//
// Both compute P from f and g as the definition does (P_BC = exp(logits_BC +
// f_B + g_C)), in O(iterations (n/block)^2), and mix keys and values by GEMMs:
// O(n^2 (d + e) / block). So everything here is at least quadratic for a fixed
// block; with blocks of about sqrt(n) it is O(n^1.5).
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "optimized/base/elementwise.h"
#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/base/transpose.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

struct SinkhornSizes {
  explicit SinkhornSizes(const Problem& problem)
      : heads(problem.heads),
        n(problem.Dim("n")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        block(problem.Dim("block")),
        blocks(n / block),
        iterations(problem.params.Integer("iterations")) {}
  int64_t heads, n, d, e, block, blocks, iterations;
};

// Computes the mixed keys and values of a head, for both algorithms.
template <typename T>
class Sinkhorn : public Prepared {
 public:
  Sinkhorn(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        keys_(layout, sizes_.n * sizes_.d),
        values_(layout, sizes_.n * sizes_.e),
        matrix_(layout, sizes_.blocks * sizes_.blocks),
        transposed_(layout, sizes_.blocks * sizes_.blocks),
        row_terms_(layout, sizes_.blocks),
        column_terms_(layout, sizes_.blocks),
        exponents_(layout, WholeLines<T>(sizes_.blocks)) {}

 protected:
  const T* Input(const char* name, int64_t head) const {
    return arrays_.In<T>(name).Head(head);
  }
  T* Out(int64_t head) const { return arrays_.Out<T>("out").Head(head); }

  double FlopsOfMixing() const {
    const auto blocks = static_cast<double>(sizes_.blocks);
    return static_cast<double>(sizes_.heads) *
           (blocks * blocks * 4 * static_cast<double>(sizes_.iterations) +
            2 * blocks * static_cast<double>(sizes_.n) *
                static_cast<double>(sizes_.d + sizes_.e));
  }

  void Mix(int64_t head) {
    const auto& s = sizes_;
    MakeMatrix(Input("logits", head));
    MixRows(Input("k", head), s.block * s.d, keys_.data());
    MixRows(Input("v", head), s.block * s.e, values_.data());
  }

  const SinkhornSizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> keys_, values_;  // mixed

 private:
  void MakeMatrix(const T* logits) {
    const int64_t blocks = sizes_.blocks;
    CopyTransposed(logits, blocks, blocks, blocks, T{1}, transposed_.data(),
                   blocks);
    std::fill_n(row_terms_.data(), blocks, T{0});
    std::fill_n(column_terms_.data(), blocks, T{0});
    for (int64_t t = 0; t < sizes_.iterations; ++t) {
      Normalise(logits, column_terms_.data(), row_terms_.data());
      Normalise(transposed_.data(), row_terms_.data(), column_terms_.data());
    }
    pool_.For(blocks, [&](int64_t row, int) {
      T* to = matrix_.data() + row * blocks;
      AddTerms(logits + row * blocks, column_terms_.data(), row_terms_[row],
               to);
      Elementwise(to, blocks, to, [](const auto& x) { return x.exp(); });
    });
  }

  void AddTerms(const T* logits, const T* terms, T own, T* to) const {
    for (int64_t y = 0; y < sizes_.blocks; ++y)
      to[y] = logits[y] + own + terms[y];
  }

  // Computes own[x] = -log sum_y exp(logits[x][y] + others[y]).
  void Normalise(const T* logits, const T* others, T* own) {
    const int64_t blocks = sizes_.blocks;
    pool_.For(blocks, [&](int64_t x, int worker) {
      T* exponents = exponents_[worker];
      AddTerms(logits + x * blocks, others, 0, exponents);
      const T top = *std::max_element(exponents, exponents + blocks);
      own[x] =
          -(top + std::log(ExponentiateRow<T>(exponents, blocks, nullptr)));
    });
  }

  // Treats each block of rows as one long row: [blocks, width] = P [blocks,
  // width].
  void MixRows(const T* rows, int64_t width, T* mixed) {
    constexpr int64_t kTask = 32;
    const int64_t blocks = sizes_.blocks;
    pool_.ForRows(blocks, kTask, [&](int64_t first, int64_t count, int) {
      Multiply(T{1},
               RowsOf<const T>(matrix_.data() + first * blocks, count, blocks),
               RowsOf(rows, blocks, width),
               RowsOf(mixed + first * width, count, width));
    });
  }

  Buffer<T> matrix_, transposed_;       // P; the logits, transposed
  Buffer<T> row_terms_, column_terms_;  // f, g
  PerThread<T> exponents_;
};

template <typename T>
class Dense : public Sinkhorn<T> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Sinkhorn<T>(problem, arrays, layout),
        scores_(layout, 2 * this->sizes_.n * this->sizes_.n) {}

  void Run() override {
    const auto& s = this->sizes_;
    constexpr int64_t kRowBlock = 128;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->Mix(h);
      this->pool_.ForRows(
          s.n, kRowBlock,
          [&](int64_t first, int64_t rows, int) { Attend(h, first, rows); });
    }
  }

  double Flops() const override {
    const auto& s = this->sizes_;
    return this->FlopsOfMixing() +
           4 * static_cast<double>(s.heads * (s.d + s.e)) *
               static_cast<double>(s.n) * static_cast<double>(s.n);
  }

 private:
  // The scores of a row: first those of the n keys, then of the n mixed keys.
  void Attend(int64_t head, int64_t first, int64_t rows) {
    const auto& s = this->sizes_;
    const auto queries =
        RowsOf(this->Input("q", head) + first * s.d, rows, s.d);
    T* scores = scores_.data() + first * 2 * s.n;
    Multiply(this->scale_, queries,
             RowsOf(this->Input("k", head), s.n, s.d).transpose(),
             RowsOf(scores, rows, s.n, 2 * s.n));
    Multiply(this->scale_, queries,
             RowsOf<const T>(this->keys_.data(), s.n, s.d).transpose(),
             RowsOf(scores + s.n, rows, s.n, 2 * s.n));
    std::vector<T> sums(static_cast<size_t>(rows));
    for (int64_t r = 0; r < rows; ++r) {
      T* row = scores + r * 2 * s.n;
      const int64_t own = (first + r) / s.block * s.block;
      for (T* half : {row, row + s.n}) {
        constexpr T kHidden = -std::numeric_limits<T>::infinity();
        std::fill(half, half + own, kHidden);
        std::fill(half + own + s.block, half + s.n, kHidden);
      }
      sums[r] = ExponentiateRow<T>(row, 2 * s.n, nullptr);
    }
    T* out = this->Out(head) + first * s.e;
    auto to = RowsOf(out, rows, s.e);
    Multiply(T{1}, RowsOf<const T>(scores, rows, s.n, 2 * s.n),
             RowsOf(this->Input("v", head), s.n, s.e), to);
    AddProduct(RowsOf<const T>(scores + s.n, rows, s.n, 2 * s.n),
               RowsOf<const T>(this->values_.data(), s.n, s.e), to);
    for (int64_t r = 0; r < rows; ++r)
      for (int64_t c = 0; c < s.e; ++c) out[r * s.e + c] /= sums[r];
  }

  Buffer<T> scores_;
};

template <typename T>
class Blocked : public Sinkhorn<T> {
 public:
  Blocked(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Sinkhorn<T>(problem, arrays, layout),
        tiles_(PartPerThread<SoftmaxBlock<T>>(layout, this->sizes_.d,
                                              this->sizes_.e)) {}

  void Run() override {
    const auto& s = this->sizes_;
    const int64_t pieces = (s.block + kBlockQueries<T> - 1) / kBlockQueries<T>;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->Mix(h);
      this->pool_.For(s.blocks * pieces, [&](int64_t task, int worker) {
        const int64_t own = task / pieces * s.block;
        const int64_t skip = task % pieces * kBlockQueries<T>;
        Attend(h, own, own + skip, std::min(kBlockQueries<T>, s.block - skip),
               tiles_[static_cast<size_t>(worker)]);
      });
    }
  }

  double Flops() const override {
    const auto& s = this->sizes_;
    return this->FlopsOfMixing() +
           4 * static_cast<double>(s.heads * s.n * s.block) *
               static_cast<double>(s.d + s.e);
  }

 private:
  // Processes queries from `first` on, of the block whose tokens begin at
  // `own`.
  void Attend(int64_t head, int64_t own, int64_t first, int64_t rows,
              SoftmaxBlock<T>& tile) {
    const auto& s = this->sizes_;
    tile.Begin(this->Input("q", head) + first * s.d, s.d, rows, this->scale_);
    const auto see = [&](const T* keys, const T* values) {
      for (int64_t j = own; j < own + s.block; j += kTileKeys) {
        tile.Scores(keys + j * s.d, s.d,
                    std::min(kTileKeys, own + s.block - j));
        tile.Accumulate(values + j * s.e, s.e);
      }
    };
    see(this->Input("k", head), this->Input("v", head));
    see(this->keys_.data(), this->values_.data());
    tile.End(this->Out(head) + first * s.e, s.e);
  }

  std::vector<SoftmaxBlock<T>> tiles_;
};

}  // namespace

std::vector<Implementation> SinkhornAttentionImplementations() {
  return CpuTable(
      "sinkhorn_attention",
      {{.id = "dense",
        .what =
            "all keys and all mixed keys, other blocks masked, GEMMs (Eigen)",
        .source = "Transformers II",
        .time = {"O(n^2 (d + e))", "n^2"},
        .memory = {"O(n^2)", "n^2"},
        .sums = DirectSums,
        .prepare = PrepareFor<Dense>},
       {.id = "blocked",
        .what = "online softmax over the keys of a block and its mixed keys",
        .source = "Tay et al. 2020",
        .time = {"O(n (n / block + block) (d + e))", "n^2"},
        .memory = {"O(n (d + e) + (n / block)^2)", "n^2"},
        .sums = DirectSums,
        .prepare = PrepareFor<Blocked>}});
}

}  // namespace subquad
