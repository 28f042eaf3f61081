// sparse_attention: softmax over the keys that a pattern shows to a query
// (Transformers II, "Making the attention matrix sparse")
//
//   dense     two GEMMs with all scores in memory and the hidden ones left out
//             of the softmax: O(n^2 (d+e)). The method of frameworks without
//             sparse kernels, and the baseline.
//   gathered  query by query over its own keys, which are a few arithmetic
//             progressions in every pattern: O(pairs (d+e)) time and a row of
//             scores per thread. Works for all patterns, at the speed of
//             matrix times vector: each key is read for one query only.
//   blocked   groups of up to 64 queries that see nearly the same keys, against
//             tiles of these keys: O(pairs (d+e)) at nearly the speed
//             of a GEMM (softmax/blocked_sparse_attention.h). Strided patterns
//             have no such groups: neighbours share near keys, but no far
//             keys.
//
// All of them read a block mask in place, once for each query or group, and
// skip hidden blocks. Values of an input are unknown when work is counted: it
// is that of a mask that shows every block.
//
// The global tokens of etc are additional queries and keys, with tensors of
// their own.
#include "reference/contract/sparse_attention.h"

#include <algorithm>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/blocked_sparse_attention.h"
#include "optimized/softmax/softmax_tiles.h"
#include "optimized/softmax/sparse_parts.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

// The number of rows per task of dense or gathered.
constexpr int64_t kRowBlock = 256;
constexpr int64_t kRowGroup = 32;

// The workspace of one thread in both row-wise algorithms.
template <typename T>
struct RowWorker {
  RowWorker(Layout& layout, const SparseKeys& keys, int64_t most, int64_t d)
      : scores(layout, most), query(layout, d) {
    runs.reserve(static_cast<size_t>(keys.MaxRuns()));
  }
  Buffer<T> scores, query;
  std::vector<KeyRun> runs;
};

// Adds the bias of query i and key x of the run to scores[x]. Global tokens
// have no bias.
template <typename T>
void AddBias(const SparseHead<T>& head, int64_t i, const KeyRun& run,
             T* scores) {
  if (!head.bias || i >= head.n_q || run.first >= head.n_k) return;
  const T* bias = head.bias + run.first - i;
  for (int64_t x = 0; x < run.count; ++x) scores[x] += bias[x * run.step];
}

template <typename T>
class MaskedSparse : public Prepared {
 public:
  MaskedSparse(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        keys_(problem),
        arrays_(arrays),
        pool_(layout),
        scores_(layout, keys_.all_queries() * keys_.all_keys()),
        workers_(PartPerThread<RowWorker<T>>(layout, keys_,
                                             keys_.Count().max_keys, 0)) {
    layout.Add(keys_.ListBytes() + layout.threads() * keys_.RunBytes());
  }

  void Run() override {
    const int64_t blocks = Blocks(sizes_.n_q);
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      const SparseHead<T> head(arrays_, sizes_, h);
      pool_.For(blocks + Blocks(sizes_.apart), [&](int64_t block, int worker) {
        RowWorker<T>& own = workers_[static_cast<size_t>(worker)];
        if (block < blocks)
          RunBlock(head, head.positions, block * kRowBlock, sizes_.n_q, 0, own);
        else
          RunBlock(head, head.apart, (block - blocks) * kRowBlock, sizes_.apart,
                   sizes_.n_q, own);
      });
    }
  }

  double Flops() const override {
    double pairs = static_cast<double>(sizes_.apart) *
                   static_cast<double>(keys_.all_keys());
    for (int64_t first = 0; first < sizes_.n_q; first += kRowBlock) {
      const int64_t end = std::min(first + kRowBlock, sizes_.n_q);
      pairs += static_cast<double>(end - first) *
               static_cast<double>(sizes_.apart + KeysBefore(end));
    }
    return sizes_.Flops(pairs);
  }

 private:
  static int64_t Blocks(int64_t rows) {
    return (rows + kRowBlock - 1) / kRowBlock;
  }

  // Returns the number of keys that may be seen by queries before `end`.
  int64_t KeysBefore(int64_t end) const {
    return keys_.causal()
               ? std::clamp<int64_t>(keys_.Position(end), 0, sizes_.n_k)
               : sizes_.n_k;
  }

  // Processes `queries` from `first` on, `count` in all, which are numbered
  // from `origin` on.
  void RunBlock(const SparseHead<T>& head, const SparseRows<T>& queries,
                int64_t first, int64_t count, int64_t origin,
                RowWorker<T>& worker) {
    const int64_t apart = sizes_.apart, total = keys_.all_keys();
    const int64_t d = sizes_.d, e = sizes_.e;
    const int64_t rows = std::min(kRowBlock, count - first);
    const int64_t keys = origin == 0 ? KeysBefore(first + rows) : sizes_.n_k;
    const auto rows_of = [](const T* matrix, int64_t row_count, int64_t width) {
      return RowsOf(matrix, row_count, width);
    };
    const auto q = rows_of(queries.q + first * d, rows, d);
    T* const memory = scores_.data() + (origin + first) * total;
    auto scores = RowsOf(memory, rows, keys, total);
    auto beside = RowsOf(memory + sizes_.n_k, rows, apart, total);
    Multiply(scale_, q, rows_of(head.positions.k, keys, d).transpose(), scores);
    if (apart > 0)
      Multiply(scale_, q, rows_of(head.apart.k, apart, d).transpose(), beside);
    T sums[kRowBlock];
    for (int64_t i = 0; i < rows; ++i) {
      const int64_t query = origin + first + i;
      T* row = memory + i * total;
      keys_.Runs(query, head.block_mask, worker.runs);
      // Copies the visible scores out of the row and back into it.
      T* visible = worker.scores.data();
      for (const KeyRun& run : worker.runs) {
        T* const begin = visible;
        for (int64_t x = 0; x < run.count; ++x)
          *visible++ = row[run.first + x * run.step];
        AddBias(head, query, run, begin);
      }
      sums[i] = ExponentiateRow<T>(worker.scores.data(),
                                   visible - worker.scores.data(), nullptr);
      std::fill_n(row, keys, T{0});
      visible = worker.scores.data();
      for (const KeyRun& run : worker.runs)
        for (int64_t x = 0; x < run.count; ++x)
          row[run.first + x * run.step] = *visible++;
    }
    auto out = RowsOf(queries.out + first * e, rows, e);
    Multiply(T{1}, scores, rows_of(head.positions.v, keys, e), out);
    if (apart > 0) AddProduct(beside, rows_of(head.apart.v, apart, e), out);
    for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
  }

  const SparseSizes sizes_;
  const T scale_;
  const SparseKeys keys_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> scores_;
  std::vector<RowWorker<T>> workers_;
};

template <typename T>
class GatheredSparse : public Prepared {
 public:
  GatheredSparse(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        keys_(problem),
        arrays_(arrays),
        pool_(layout),
        totals_(keys_.Count()),
        workers_(PartPerThread<RowWorker<T>>(layout, keys_, totals_.max_keys,
                                             sizes_.d)) {
    layout.Add(keys_.ListBytes() + layout.threads() * keys_.RunBytes());
  }

  void Run() override {
    const int64_t total = keys_.all_queries();
    const int64_t groups = (total + kRowGroup - 1) / kRowGroup;
    pool_.For(sizes_.heads * groups, [&](int64_t index, int worker) {
      const SparseHead<T> head(arrays_, sizes_, index / groups);
      const int64_t first = index % groups * kRowGroup;
      for (int64_t i = first; i < std::min(total, first + kRowGroup); ++i)
        RunRow(head, i, workers_[static_cast<size_t>(worker)]);
    });
  }

  double Flops() const override { return sizes_.Flops(totals_.pairs); }

 private:
  using Column = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;

  // Returns the rows of a run without copying them.
  ConstMatrixMap<T> RunRows(const T* positions, const T* apart,
                            const KeyRun& run, int64_t width) const {
    const T* first = run.first < sizes_.n_k
                         ? positions + run.first * width
                         : apart + (run.first - sizes_.n_k) * width;
    return RowsOf(first, run.count, width, run.step * width);
  }

  void RunRow(const SparseHead<T>& head, int64_t i, RowWorker<T>& worker) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const bool is_apart = i >= sizes_.n_q;
    const SparseRows<T>& queries = is_apart ? head.apart : head.positions;
    const int64_t at = is_apart ? i - sizes_.n_q : i;
    T* scores = worker.scores.data();
    Column query(worker.query.data(), d);
    for (int64_t a = 0; a < d; ++a) query[a] = scale_ * queries.q[at * d + a];
    keys_.Runs(i, head.block_mask, worker.runs);
    int64_t visible = 0;
    for (const KeyRun& run : worker.runs) {
      Column(scores + visible, run.count).noalias() =
          RunRows(head.positions.k, head.apart.k, run, d) * query;
      AddBias(head, i, run, scores + visible);
      visible += run.count;
    }
    const T sum = ExponentiateRow<T>(scores, visible, nullptr);
    Column out(queries.out + at * e, e);
    out.setZero();
    visible = 0;
    for (const KeyRun& run : worker.runs) {
      out.noalias() +=
          RunRows(head.positions.v, head.apart.v, run, e).transpose() *
          Column(scores + visible, run.count);
      visible += run.count;
    }
    out /= sum;
  }

  const SparseSizes sizes_;
  const T scale_;
  const SparseKeys keys_;
  const Arrays arrays_;
  ThreadPool pool_;
  const SparseKeys::Totals totals_;
  std::vector<RowWorker<T>> workers_;
};

}  // namespace

std::vector<Implementation> SparseAttentionImplementations() {
  return CpuTable(
      "sparse_attention",
      {{.id = "dense",
        .what = "two GEMMs (Eigen) over all pairs, masked scores left out",
        .sums = DirectSums,
        .prepare = PrepareFor<MaskedSparse>},
       {.id = "gathered",
        .what = "each query over its own keys, as progressions of rows",
        .memory = {"O(n) per thread", "n"},
        .sums = DirectSums,
        .prepare = PrepareFor<GatheredSparse>},
       {.id = "blocked",
        .what = "groups of queries against tiles of the keys they share",
        .memory = {"O(d+e) per thread, O(n) for the groups", "n"},
        .sums = DirectSums,
        .prepare = PrepareBlockedSparse}});
}

}  // namespace subquad
