// synthesizer_attention: out = softmax(B) (x phi_v), B computed from each
// token, given, or a product of factors (Transformers II, fig. 12b and 13a; Tay
// et al. 2020)
//
//   dense  the scores [n, n] in memory, two GEMMs.
//   tiled  blocks of rows against tiles of columns, no scores stored
//          (softmax_tiles.h): the hidden values of tokens, or one factor, are
//          its queries, and the columns of phi_2, or the other factor, its
//          keys. Given scores are read in place.
//
// Both take O(n^2) time, as every pair of tokens has a score. Hidden values and
// values are summed in order (softmax_tiles.h says why).
#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/base/transpose.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"

namespace subquad {
namespace {

enum class Scores { kOfTokens, kGiven, kOfFactors };

// The source of the scores: rows of `width` elements for tokens as queries and
// as keys or, if the width is zero, the scores themselves.
struct SynthesizerSizes {
  explicit SynthesizerSizes(const Problem& problem)
      : scores(problem.HasInput("phi_1")    ? Scores::kOfTokens
               : problem.HasInput("logits") ? Scores::kGiven
                                            : Scores::kOfFactors),
        heads(problem.heads),
        n(problem.Dim("n")),
        token(problem.Dim("D")),
        e(problem.Dim("e")),
        width(scores == Scores::kOfTokens ? problem.Dim("m")
              : scores == Scores::kGiven  ? 0
                                          : problem.Dim("r")),
        columns(scores == Scores::kOfTokens ? n + problem.Dim("extra") : 0),
        causal(problem.params.Flag("causal")) {}

  // Returns the number of tokens that row i sees.
  int64_t Seen(int64_t i) const { return causal ? i + 1 : n; }

  // Counts hidden values, scores and output.
  double Flops() const {
    const double products = static_cast<double>(n * token) *
                            static_cast<double>(e + (columns > 0 ? width : 0));
    const double pairs = static_cast<double>(n) * static_cast<double>(n) *
                         static_cast<double>(width + e);
    return 2 * static_cast<double>(heads) * (products + pairs);
  }

  Scores scores;
  int64_t heads, n, token, e, width, columns;
  bool causal;
};

constexpr int64_t kRowBlock = 128;

// Computes the values, and the rows that scores are made of, for both
// algorithms.
template <typename T>
class Synthesizer : public Prepared {
 public:
  Synthesizer(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        arrays_(arrays),
        pool_(layout),
        values_(layout, sizes_.n * sizes_.e),
        hidden_(layout, sizes_.columns > 0 ? sizes_.n * sizes_.width : 0) {}

  double Flops() const override { return sizes_.Flops(); }

 protected:
  void MakeRows(int64_t head) {
    const T* x = arrays_.In<T>("x").Head(head);
    const T* phi_v = arrays_.In<T>("phi_v").Head(head);
    const T* phi_1 =
        sizes_.columns > 0 ? arrays_.In<T>("phi_1").Head(head) : nullptr;
    pool_.ForRows(sizes_.n, kRowBlock, [&](int64_t first, int64_t rows, int) {
      const int64_t token = sizes_.token;
      MultiplyInOrder(x + first * token, token, rows, token, phi_v, sizes_.e,
                      values_.data() + first * sizes_.e);
      if (!phi_1) return;
      T* hidden = hidden_.data() + first * sizes_.width;
      MultiplyInOrder(x + first * token, token, rows, token, phi_1,
                      sizes_.width, hidden);
      for (int64_t i = 0; i < rows * sizes_.width; ++i)
        hidden[i] = std::max(hidden[i], T{0});
    });
  }

  // Returns rows of the n tokens: hidden values or the first factor.
  const T* Queries(int64_t head) const {
    return sizes_.columns > 0 ? hidden_.data()
                              : arrays_.In<T>("factor_q").Head(head);
  }

  const SynthesizerSizes sizes_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> values_, hidden_;
};

template <typename T>
class Dense : public Synthesizer<T> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Synthesizer<T>(problem, arrays, layout),
        scores_(layout, this->sizes_.n * this->sizes_.n) {}

  void Run() override {
    const SynthesizerSizes& s = this->sizes_;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->MakeRows(h);
      this->pool_.ForRows(
          this->sizes_.n, kRowBlock, [&](int64_t first, int64_t rows, int) {
            auto scores = RowsOf(scores_.data() + first * s.n, rows, s.n);
            auto out = RowsOf(
                this->arrays_.template Out<T>("out").Head(h) + first * s.e,
                rows, s.e);
            Score(h, first, rows, scores);
            T sums[kRowBlock];
            for (int64_t i = 0; i < rows; ++i) {
              T* row = scores.row(i).data();
              const int64_t seen = s.Seen(first + i);
              std::fill(row + seen, row + s.n,
                        -std::numeric_limits<T>::infinity());
              sums[i] = ExponentiateRow<T>(row, s.n, nullptr);
            }
            Multiply(T{1}, scores,
                     RowsOf<const T>(this->values_.data(), s.n, s.e), out);
            for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
          });
    }
  }

 private:
  void Score(int64_t head, int64_t first, int64_t rows,
             MatrixMap<T>& scores) const {
    const SynthesizerSizes& s = this->sizes_;
    const auto in = [&](const char* name) {
      return this->arrays_.template In<T>(name).Head(head);
    };
    if (s.scores == Scores::kGiven) {
      std::copy_n(in("logits") + first * s.n, rows * s.n, scores.data());
      return;
    }
    const auto queries =
        RowsOf(this->Queries(head) + first * s.width, rows, s.width);
    if (s.scores == Scores::kOfTokens)
      Multiply(T{1}, queries, RowsOf(in("phi_2"), s.width, s.n, s.columns),
               scores);
    else
      Multiply(T{1}, queries, RowsOf(in("factor_k"), s.n, s.width).transpose(),
               scores);
  }

  Buffer<T> scores_;
};

template <typename T>
class Tiled : public Synthesizer<T> {
 public:
  Tiled(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Synthesizer<T>(problem, arrays, layout),
        columns_(layout, this->sizes_.columns > 0
                             ? this->sizes_.n * this->sizes_.width
                             : 0),
        blocks_(PartPerThread<SoftmaxBlock<T>>(
            layout, std::max<int64_t>(1, this->sizes_.width), this->sizes_.e)) {
  }

  void Run() override {
    const SynthesizerSizes& s = this->sizes_;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->MakeRows(h);
      if (s.columns > 0) TransposeColumns(h);
      this->pool_.ForRows(this->sizes_.n, kBlockQueries<T>,
                          [&](int64_t first, int64_t rows, int worker) {
                            Attend(h, first, rows,
                                   blocks_[static_cast<size_t>(worker)]);
                          });
    }
  }

 private:
  // Writes the columns of phi_2 as rows.
  void TransposeColumns(int64_t head) {
    const SynthesizerSizes& s = this->sizes_;
    const T* phi_2 = this->arrays_.template In<T>("phi_2").Head(head);
    this->pool_.ForRows(
        this->sizes_.n, kRowBlock, [&](int64_t first, int64_t rows, int) {
          CopyTransposed(phi_2 + first, s.columns, s.width, rows, T{1},
                         columns_.data() + first * s.width, s.width);
        });
  }

  void Attend(int64_t head, int64_t first, int64_t rows,
              SoftmaxBlock<T>& block) {
    const SynthesizerSizes& s = this->sizes_;
    const bool are_given = s.scores == Scores::kGiven;
    const auto in = [&](const char* name) {
      return this->arrays_.template In<T>(name).Head(head);
    };
    const T* logits = are_given ? in("logits") + first * s.n : nullptr;
    const T* keys = s.columns > 0 ? columns_.data()
                    : are_given   ? nullptr
                                  : in("factor_k");
    const T zero = 0;
    if (are_given)
      block.Begin(&zero, 0, rows, T{1});
    else
      block.Begin(this->Queries(head) + first * s.width, s.width, rows, T{1});
    const int64_t end = s.causal ? first + rows : s.n;
    for (int64_t j = 0; j < end; j += kTileKeys) {
      const int64_t count = std::min(kTileKeys, end - j);
      if (are_given) {
        block.Scores(&zero, 0, count);
        for (int64_t i = 0; i < rows; ++i)
          for (int64_t x = 0; x < count; ++x)
            block.Score(i, x) = logits[i * s.n + j + x];
      } else {
        block.Scores(keys + j * s.width, s.width, count);
      }
      if (s.causal) block.HideAfter(first - j);
      block.Accumulate(this->values_.data() + j * s.e, s.e);
    }
    block.End(this->arrays_.template Out<T>("out").Head(head) + first * s.e,
              s.e);
  }

  Buffer<T> columns_;
  std::vector<SoftmaxBlock<T>> blocks_;
};

}  // namespace

std::vector<Implementation> SynthesizerAttentionImplementations() {
  return CpuTable("synthesizer_attention",
                  {{.id = "dense",
                    .what = "two GEMMs (Eigen), scores in memory",
                    .source = "Transformers II",
                    .time = {"O(n^2 (m + e))", "n^2"},
                    .memory = {"O(n^2)", "n^2"},
                    .sums = DirectSums,
                    .prepare = PrepareFor<Dense>},
                   {.id = "tiled",
                    .what = "online softmax over tiles, no scores kept",
                    .source = "Transformers II; Dao et al. 2022",
                    .time = {"O(n^2 (m + e))", "n^2"},
                    .memory = {"O(n (m + e))", "n"},
                    .sums = DirectSums,
                    .prepare = PrepareFor<Tiled>}});
}

}  // namespace subquad
