// transformer_xl_attention: s_ij = (q_i+u).k_j + (q_i+t).(w_kr r[M+i-j]), out =
// softmax(scale s) v (Transformer-XL appendix B)
//
//   dense   the naive order in batch: for every query the embeddings of all its
//           distances through w_kr by a GEMM, the scores in memory. L (M+L)
//           products w_kr r: O(L (M+L) d p) time, O(L (M+L)) memory.
//   shift   w_kr r once for each of the M+L distances, then two GEMMs per block
//           of queries, one for each term, and the left shift between them:
//           O((M+L) d p + L (M+L) (d + e)) time; a block of scores at a time,
//           so O(M+L) memory.
//
// With `causal` false there are M+2L-1 distances, including negative ones.
//
// Term (d) of the paper, t.(w_kr r), needs no separate product: t is added to
// q_i.
#include <algorithm>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

// Queries whose scores are computed together.
constexpr int64_t kBlock = 64;

struct Sizes {
  explicit Sizes(const Problem& problem)
      : n_q(problem.Dim("L")),
        memory(problem.Dim("M")),
        n_k(n_q + memory),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        p(problem.Dim("p")),
        heads(problem.heads),
        causal(problem.params.Flag("causal")) {}

  // Returns how many keys query i sees: the first ones.
  int64_t Seen(int64_t i) const { return causal ? memory + i + 1 : n_k; }
  // The number of rows of r, and of those with distances below zero.
  int64_t distances() const { return n_k + before(); }
  int64_t before() const { return causal ? 0 : n_q - 1; }

  // Counts the pairs of a query and a key that are computed, in one head.
  double Pairs() const {
    double pairs = 0;
    for (int64_t first = 0; first < n_q; first += kBlock) {
      const int64_t end = std::min(first + kBlock, n_q);
      pairs +=
          static_cast<double>(end - first) * static_cast<double>(Seen(end - 1));
    }
    return pairs;
  }

  int64_t n_q, memory, n_k, d, e, p, heads;
  bool causal;
};

int64_t Blocks(const Sizes& sizes) { return (sizes.n_q + kBlock - 1) / kBlock; }

// The steps that both algorithms share: q + u and q + t of a block, and from
// scores to rows of the output.
template <typename T>
class TransformerXl : public Prepared {
 public:
  TransformerXl(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        queries_(layout, 2 * kBlock * sizes_.d) {}

 protected:
  // Counts two terms of the scores, their product with the values, and this
  // many products w_kr r.
  double FlopsWith(double projections) const {
    const double d = static_cast<double>(sizes_.d);
    return static_cast<double>(sizes_.heads) *
           (2 * projections * d * static_cast<double>(sizes_.p) +
            2 * sizes_.Pairs() * (2 * d + static_cast<double>(sizes_.e)));
  }

  // Computes scale (q + u) and scale (q + t), [rows, d] each, one after the
  // other.
  T* Queries(int64_t h, int64_t first, int64_t rows, int worker) {
    T* const both = queries_[worker];
    const T* q = arrays_.In<T>("q").Head(h) + first * sizes_.d;
    const T* u = arrays_.In<T>("u").Head(h);
    const T* t = arrays_.In<T>("t").Head(h);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t a = 0; a < sizes_.d; ++a) {
        const T x = q[i * sizes_.d + a];
        both[i * sizes_.d + a] = scale_ * (x + u[a]);
        both[(rows + i) * sizes_.d + a] = scale_ * (x + t[a]);
      }
    return both;
  }

  // Turns rows of scores, `stride` apart, for keys 0 .. keys-1 into the output.
  void Finish(int64_t h, int64_t first, int64_t rows, int64_t keys, T* scores,
              int64_t stride) {
    T sums[kBlock];
    for (int64_t i = 0; i < rows; ++i) {
      T* const row = scores + i * stride;
      const int64_t visible = sizes_.Seen(first + i);
      sums[i] = ExponentiateRow<T>(row, visible, nullptr);
      std::fill(row + visible, row + keys, T{0});
    }
    auto out = RowsOf(arrays_.Out<T>("out").Head(h) + first * sizes_.e, rows,
                      sizes_.e);
    Multiply(T{1}, RowsOf(scores, rows, keys, stride),
             RowsOf(arrays_.In<T>("v").Head(h), keys, sizes_.e), out);
    for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  PerThread<T> queries_;
};

template <typename T>
class DenseXl : public TransformerXl<T> {
 public:
  DenseXl(const Problem& problem, const Arrays& arrays, Layout& layout)
      : TransformerXl<T>(problem, arrays, layout),
        scores_(layout, sizes_.n_q * sizes_.n_k),
        projected_(layout, sizes_.n_k * sizes_.d) {}

  void Run() override {
    for (int64_t h = 0; h < sizes_.heads; ++h)
      pool_.For(Blocks(sizes_), [&](int64_t b, int worker) {
        RunBlock(h, b * kBlock, worker);
      });
  }

  // Counts w_kr r for every pair: L (M + (L+1)/2) times, or L (M + L).
  double Flops() const override {
    const double n_q = static_cast<double>(sizes_.n_q);
    if (!sizes_.causal)
      return this->FlopsWith(n_q * static_cast<double>(sizes_.n_k));
    return this->FlopsWith(n_q *
                           (static_cast<double>(sizes_.n_k) - (n_q - 1) / 2));
  }

 private:
  using TransformerXl<T>::sizes_, TransformerXl<T>::arrays_,
      TransformerXl<T>::pool_;

  void RunBlock(int64_t h, int64_t first, int worker) {
    const int64_t d = sizes_.d, p = sizes_.p, n_k = sizes_.n_k;
    const int64_t rows = std::min(kBlock, sizes_.n_q - first);
    const int64_t keys = sizes_.Seen(first + rows - 1);
    const T* queries = this->Queries(h, first, rows, worker);
    T* const scores = scores_.data() + first * n_k;
    Multiply(T{1}, RowsOf(queries, rows, d),
             RowsOf(arrays_.template In<T>("k").Head(h), keys, d).transpose(),
             RowsOf(scores, rows, keys, n_k));
    const auto w_kr = RowsOf(arrays_.template In<T>("w_kr").Head(h), d, p);
    const T* r = arrays_.template In<T>("r").Head(h);
    for (int64_t i = 0; i < rows; ++i) {
      // Keys 0, 1 .. are at distances M+i, M+i-1 ..: the rows of r in reverse
      // order.
      const int64_t visible = sizes_.Seen(first + i);
      const int64_t nearest =
          sizes_.before() + sizes_.memory + first + i + 1 - visible;
      auto projected = RowsOf(projected_[worker], visible, d);
      Multiply(T{1}, RowsOf(r + nearest * p, visible, p), w_kr.transpose(),
               projected);
      Eigen::Map<Eigen::Matrix<T, 1, Eigen::Dynamic>>(scores + i * n_k,
                                                      visible) +=
          (projected * RowsOf(queries + (rows + i) * d, 1, d).transpose())
              .reverse()
              .transpose();
    }
    this->Finish(h, first, rows, keys, scores, n_k);
  }

  Buffer<T> scores_;
  PerThread<T> projected_;
};

template <typename T>
class ShiftXl : public TransformerXl<T> {
 public:
  ShiftXl(const Problem& problem, const Arrays& arrays, Layout& layout)
      : TransformerXl<T>(problem, arrays, layout),
        projected_(layout, sizes_.distances() * sizes_.d),
        scores_(layout, kBlock * sizes_.n_k),
        shifted_(layout, kBlock * Columns(kBlock, sizes_.n_k)) {}

  void Run() override {
    const int64_t d = sizes_.d, p = sizes_.p, count = sizes_.distances();
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      const T* r = arrays_.template In<T>("r").Head(h);
      const auto w_kr = RowsOf(arrays_.template In<T>("w_kr").Head(h), d, p);
      // The paper's Q: row x is w_kr r of the distance M+L-1-x.
      pool_.ForRows(
          count, kBlock, [&](int64_t first, int64_t rows, int worker) {
            auto some = RowsOf(this->queries_[worker], rows, d);
            Multiply(T{1}, RowsOf(r + first * p, rows, p), w_kr.transpose(),
                     some);
            RowsOf(projected_.data() + (count - first - rows) * d, rows, d) =
                some.colwise().reverse();
          });
      // Starts with the longest rows, so that threads finish together.
      pool_.For(Blocks(sizes_), [&](int64_t b, int worker) {
        RunBlock(h, (Blocks(sizes_) - 1 - b) * kBlock, worker);
      });
    }
  }

  // Counts w_kr r once for every distance: M + L times, or M + 2 L - 1.
  double Flops() const override {
    return this->FlopsWith(static_cast<double>(sizes_.distances()));
  }

 private:
  using TransformerXl<T>::sizes_, TransformerXl<T>::arrays_,
      TransformerXl<T>::pool_;

  // Returns the number of distances that a block needs with this many keys. A
  // causal block skips distances that only hidden pairs would need.
  int64_t Columns(int64_t rows, int64_t keys) const {
    return sizes_.causal ? keys : keys + rows - 1;
  }

  void RunBlock(int64_t h, int64_t first, int worker) {
    const int64_t d = sizes_.d;
    const int64_t rows = std::min(kBlock, sizes_.n_q - first);
    const int64_t keys = sizes_.Seen(first + rows - 1);
    const int64_t columns = Columns(rows, keys);
    const T* queries = this->Queries(h, first, rows, worker);
    T* const scores = scores_[worker];
    T* const shifted = shifted_[worker];
    Multiply(T{1}, RowsOf(queries, rows, d),
             RowsOf(arrays_.template In<T>("k").Head(h), keys, d).transpose(),
             RowsOf(scores, rows, keys));
    // The columns of the paper's B~. Row i is shifted to the left by L-1-i; the
    // block's columns begin at L - first - rows.
    Multiply(T{1}, RowsOf(queries + rows * d, rows, d),
             RowsOf(static_cast<const T*>(projected_.data()) +
                        (sizes_.n_q - first - rows) * d,
                    columns, d)
                 .transpose(),
             RowsOf(shifted, rows, columns));
    for (int64_t i = 0; i < rows; ++i) {
      T* const row = scores + i * keys;
      const T* left = shifted + i * columns + (rows - 1 - i);
      const int64_t visible = sizes_.Seen(first + i);
      for (int64_t j = 0; j < visible; ++j) row[j] += left[j];
    }
    this->Finish(h, first, rows, keys, scores, keys);
  }

  Buffer<T> projected_;
  PerThread<T> scores_, shifted_;
};

}  // namespace

std::vector<Implementation> TransformerXlAttentionImplementations() {
  return CpuTable(
      "transformer_xl_attention",
      {{.id = "dense",
        .what = "w_kr r for every pair (a GEMM per query), scores in memory",
        .sums = DirectSums,
        .prepare = PrepareFor<DenseXl>},
       {.id = "shift",
        .what = "w_kr r once per distance, GEMMs and left shifts by blocks",
        .memory = {"O((M+L) (d+B)), B = 64", "n"},
        .sums = DirectSums,
        .prepare = PrepareFor<ShiftXl>}});
}

}  // namespace subquad
