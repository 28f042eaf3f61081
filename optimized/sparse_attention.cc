// sparse_attention: softmax over the keys that a pattern shows to a query
// (Transformers II, "Making the attention matrix sparse")
//
//   dense     two GEMMs with all scores in memory and the hidden ones left out
//             of the softmax: O(n^2 (d+e)). What a framework without sparse
//             kernels does, and the baseline.
//   gathered  query by query over its own keys, which are a few arithmetic
//             progressions in every pattern: O(pairs (d+e)) time and a row of
//             scores per thread. Works for all patterns, at the speed of
//             matrix times vector: each key is read for one query only.
//   blocked   groups of up to 64 queries that see nearly the same keys, against
//             tiles of these (softmax_tiles.h), edges masked: O(pairs (d+e))
//             at nearly the speed of a GEMM. A dilated window is one dense band
//             for each residue of positions modulo the dilation; global keys
//             are packed, and global queries go through all keys at the end.
//             Strided patterns have no such groups: neighbours share their
//             near keys and no far ones.
#include "algorithms/sparse_attention.h"

#include <algorithm>
#include <limits>
#include <memory>
#include <vector>

#include "optimized/base/matrix.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {
namespace {

// Rows that one task of dense or gathered takes.
constexpr int64_t kRowBlock = 256;
constexpr int64_t kRowGroup = 32;

struct Sizes {
  explicit Sizes(const Problem& problem)
      : n(problem.Dim("n")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        heads(problem.heads) {}
  // Of this many pairs of a query and a key in each head.
  double Flops(double pairs) const {
    return 2 * static_cast<double>(heads) * pairs * static_cast<double>(d + e);
  }
  int64_t n, d, e, heads;
};

// What both row-wise programs keep for one thread.
template <typename T>
struct RowWorker {
  RowWorker(Layout& layout, const SparseKeys& keys, int64_t most, int64_t d)
      : scores(layout, most), query(layout, d) {
    runs.reserve(static_cast<size_t>(keys.MaxRuns()));
  }
  Buffer<T> scores, query;
  std::vector<KeyRun> runs;
};

template <typename T>
class MaskedSparse : public Prepared {
 public:
  MaskedSparse(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(SoftmaxScale<T>(problem)),
        keys_(problem),
        arrays_(arrays),
        pool_(layout),
        scores_(layout, sizes_.n * sizes_.n),
        workers_(PartPerThread<RowWorker<T>>(layout, keys_,
                                             keys_.Count().max_keys, 0)) {
    layout.Add(keys_.ListBytes());
  }

  void Run() override {
    const int64_t blocks = (sizes_.n + kRowBlock - 1) / kRowBlock;
    for (int64_t h = 0; h < sizes_.heads; ++h)
      pool_.For(blocks, [&](int64_t block, int worker) {
        RunBlock(h, block * kRowBlock, workers_[static_cast<size_t>(worker)]);
      });
  }

  double Flops() const override {
    double pairs = 0;
    for (int64_t first = 0; first < sizes_.n; first += kRowBlock) {
      const int64_t end = std::min(first + kRowBlock, sizes_.n);
      pairs += static_cast<double>(end - first) *
               static_cast<double>(keys_.causal() ? end : sizes_.n);
    }
    return sizes_.Flops(pairs);
  }

 private:
  void RunBlock(int64_t h, int64_t first, RowWorker<T>& worker) {
    const int64_t n = sizes_.n, d = sizes_.d, e = sizes_.e;
    const int64_t rows = std::min(kRowBlock, n - first);
    const int64_t keys = keys_.causal() ? first + rows : n;
    const ConstMatrixMap<T> q(arrays_.In<T>("q").Head(h) + first * d, rows, d,
                              Eigen::OuterStride<>(d));
    const ConstMatrixMap<T> k(arrays_.In<T>("k").Head(h), keys, d,
                              Eigen::OuterStride<>(d));
    const ConstMatrixMap<T> v(arrays_.In<T>("v").Head(h), keys, e,
                              Eigen::OuterStride<>(e));
    MatrixMap<T> scores(scores_.data() + first * n, rows, keys,
                        Eigen::OuterStride<>(n));
    MatrixMap<T> out(arrays_.Out<T>("out").Head(h) + first * e, rows, e,
                     Eigen::OuterStride<>(e));
    scores.noalias() = scale_ * q * k.transpose();
    T sums[kRowBlock];
    for (int64_t i = 0; i < rows; ++i) {
      T* row = scores_.data() + (first + i) * n;
      keys_.Runs(first + i, worker.runs);
      // The visible scores, out of the row and back into it.
      T* visible = worker.scores.data();
      for (const KeyRun& run : worker.runs)
        for (int64_t x = 0; x < run.count; ++x)
          *visible++ = row[run.first + x * run.step];
      sums[i] = ExponentiateRow<T>(worker.scores.data(),
                                   visible - worker.scores.data(), nullptr);
      std::fill_n(row, keys, T{0});
      visible = worker.scores.data();
      for (const KeyRun& run : worker.runs)
        for (int64_t x = 0; x < run.count; ++x)
          row[run.first + x * run.step] = *visible++;
    }
    out.noalias() = scores * v;
    for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
  }

  const Sizes sizes_;
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
        scale_(SoftmaxScale<T>(problem)),
        keys_(problem),
        arrays_(arrays),
        pool_(layout),
        totals_(keys_.Count()),
        workers_(PartPerThread<RowWorker<T>>(layout, keys_, totals_.max_keys,
                                             sizes_.d)) {
    layout.Add(keys_.ListBytes() +
               static_cast<double>(layout.threads() * keys_.MaxRuns()) *
                   sizeof(KeyRun));
  }

  void Run() override {
    const int64_t groups = (sizes_.n + kRowGroup - 1) / kRowGroup;
    pool_.For(sizes_.heads * groups, [&](int64_t index, int worker) {
      const int64_t first = index % groups * kRowGroup;
      for (int64_t i = first; i < std::min(sizes_.n, first + kRowGroup); ++i)
        RunRow(index / groups, i, workers_[static_cast<size_t>(worker)]);
    });
  }

  double Flops() const override { return sizes_.Flops(totals_.pairs); }

 private:
  using Column = Eigen::Map<Eigen::Matrix<T, Eigen::Dynamic, 1>>;

  // The rows of a run, with no copy of them.
  static ConstMatrixMap<T> RowsOf(const T* matrix, const KeyRun& run,
                                  int64_t width) {
    return {matrix + run.first * width, run.count, width,
            Eigen::OuterStride<>(run.step * width)};
  }

  void RunRow(int64_t h, int64_t i, RowWorker<T>& worker) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const T* k = arrays_.In<T>("k").Head(h);
    const T* v = arrays_.In<T>("v").Head(h);
    const T* row = arrays_.In<T>("q").Head(h) + i * d;
    T* scores = worker.scores.data();
    Column query(worker.query.data(), d);
    for (int64_t a = 0; a < d; ++a) query[a] = scale_ * row[a];
    keys_.Runs(i, worker.runs);
    int64_t visible = 0;
    for (const KeyRun& run : worker.runs) {
      Column(scores + visible, run.count).noalias() = RowsOf(k, run, d) * query;
      visible += run.count;
    }
    const T sum = ExponentiateRow<T>(scores, visible, nullptr);
    Column out(arrays_.Out<T>("out").Head(h) + i * e, e);
    out.setZero();
    visible = 0;
    for (const KeyRun& run : worker.runs) {
      out.noalias() +=
          RowsOf(v, run, e).transpose() * Column(scores + visible, run.count);
      visible += run.count;
    }
    out /= sum;
  }

  const Sizes sizes_;
  const T scale_;
  const SparseKeys keys_;
  const Arrays arrays_;
  ThreadPool pool_;
  const SparseKeys::Totals totals_;
  std::vector<RowWorker<T>> workers_;
};

// Queries first, first + stride, .. that go through their keys together.
struct QueryGroup {
  int64_t first, stride, rows;
  int64_t last() const { return first + (rows - 1) * stride; }
};

// Queries of a block, or neighbours in a residue class, `most` at a time.
std::vector<QueryGroup> GroupQueries(const SparseKeys& keys, int64_t most) {
  std::vector<QueryGroup> groups;
  const int64_t n = keys.n();
  if (keys.name() == "local" || keys.name() == "bigbird") {
    for (int64_t block = 0; block < n; block += keys.block())
      for (int64_t first = block; first < std::min(n, block + keys.block());
           first += most)
        groups.push_back(
            {first, 1,
             std::min({most, block + keys.block() - first, n - first})});
    return groups;
  }
  const int64_t step = keys.dilation();
  for (int64_t residue = 0; residue < std::min(step, n); ++residue) {
    const int64_t members = (n - 1 - residue) / step + 1;
    for (int64_t member = 0; member < members; member += most)
      groups.push_back(
          {residue + member * step, step, std::min(most, members - member)});
  }
  return groups;
}

// Members [begin, end) of its residue class that a group of a window sees.
struct Band {
  Band(const SparseKeys& keys, const QueryGroup& group)
      : residue(group.first % group.stride),
        member(group.first / group.stride),
        after(keys.causal() ? 0 : keys.window()),
        begin(std::max<int64_t>(0, member - keys.window())),
        end(std::min((keys.n() - 1 - residue) / group.stride + 1,
                     member + group.rows + after)) {}
  int64_t residue, member, after, begin, end;
};

template <typename T>
class BlockedSparse : public Prepared {
 public:
  BlockedSparse(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(SoftmaxScale<T>(problem)),
        keys_(problem),
        groups_(GroupQueries(keys_, kBlockQueries<T>)),
        arrays_(arrays),
        pool_(layout),
        blocks_(PartPerThread<SoftmaxBlock<T>>(layout, sizes_.d, sizes_.e)) {
    layout.Add(keys_.ListBytes() +
               static_cast<double>(groups_.size() * sizeof(QueryGroup)));
    for (int worker = 0; worker < layout.threads(); ++worker)
      runs_.emplace_back().reserve(static_cast<size_t>(keys_.MaxRuns()));
    if (Globals() == 0) return;
    global_q_ = Buffer<T>(layout, Globals() * sizes_.d);
    global_k_ = Buffer<T>(layout, Globals() * sizes_.d);
    global_v_ = Buffer<T>(layout, Globals() * sizes_.e);
    global_out_ = Buffer<T>(layout, Globals() * sizes_.e);
  }

  void Run() override {
    const int64_t groups = static_cast<int64_t>(groups_.size());
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      PackGlobals(h);
      pool_.For(groups, [&](int64_t index, int worker) {
        const QueryGroup& group = groups_[static_cast<size_t>(index)];
        SoftmaxBlock<T>& block = blocks_[static_cast<size_t>(worker)];
        const int64_t d = sizes_.d, e = sizes_.e;
        block.Begin(arrays_.In<T>("q").Head(h) + group.first * d,
                    group.stride * d, group.rows, scale_);
        if (Banded()) {
          AddBand(h, group, block);
          AddGlobalKeys(group, block);
        } else {
          AddBlocks(h, group, runs_[static_cast<size_t>(worker)], block);
        }
        block.End(arrays_.Out<T>("out").Head(h) + group.first * e,
                  group.stride * e);
      });
      RunGlobalQueries(h);
    }
  }

  double Flops() const override {
    const double globals = static_cast<double>(Globals());
    double pairs =
        globals * static_cast<double>(sizes_.n) / (keys_.causal() + 1);
    std::vector<KeyRun> runs;
    for (const QueryGroup& group : groups_) {
      double visible = globals;
      if (Banded()) {
        const Band band(keys_, group);
        visible += static_cast<double>(band.end - band.begin);
      } else {
        keys_.AllRuns(group.first, runs);
        for (const KeyRun& run : runs)
          visible += static_cast<double>(
              std::max<int64_t>(0, EndOf(run, group) - run.first));
      }
      pairs += visible * static_cast<double>(group.rows);
    }
    return sizes_.Flops(pairs);
  }

 private:
  bool Banded() const {
    return keys_.name() == "sliding" || keys_.name() == "longformer";
  }
  // Of the keys of a run that some query of the group sees.
  int64_t EndOf(const KeyRun& run, const QueryGroup& group) const {
    const int64_t end = run.first + run.count;
    return keys_.causal() ? std::min(end, group.last() + 1) : end;
  }
  int64_t Globals() const {
    return static_cast<int64_t>(keys_.globals().size());
  }

  void AddBlocks(int64_t h, const QueryGroup& group, std::vector<KeyRun>& runs,
                 SoftmaxBlock<T>& block) {
    const int64_t d = sizes_.d, e = sizes_.e;
    keys_.AllRuns(group.first, runs);
    for (const KeyRun& run : runs) {
      const int64_t end = EndOf(run, group);
      for (int64_t j = run.first; j < end; j += kTileKeys) {
        block.Scores(arrays_.In<T>("k").Head(h) + j * d, d,
                     std::min(kTileKeys, end - j));
        if (keys_.causal()) block.HideAfter(group.first - j);
        block.Accumulate(arrays_.In<T>("v").Head(h) + j * e, e);
      }
    }
  }

  void AddBand(int64_t h, const QueryGroup& group, SoftmaxBlock<T>& block) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const Band band(keys_, group);
    for (int64_t b = band.begin; b < band.end; b += kTileKeys) {
      const int64_t j = band.residue + b * group.stride;
      block.Scores(arrays_.In<T>("k").Head(h) + j * d, group.stride * d,
                   std::min(kTileKeys, band.end - b));
      block.HideAfter(band.member - b + band.after);
      block.HideBefore(band.member - b - keys_.window());
      block.Accumulate(arrays_.In<T>("v").Head(h) + j * e, group.stride * e);
    }
  }

  // Those that the window did not show already.
  void AddGlobalKeys(const QueryGroup& group, SoftmaxBlock<T>& block) {
    const auto hide = [&](int64_t key, int64_t from, int64_t to) {
      from = std::max<int64_t>(0, from);
      to = std::min(group.rows, to);
      if (from < to)
        std::fill_n(&block.Score(from, key), to - from,
                    -std::numeric_limits<T>::infinity());
    };
    for (int64_t g = 0; g < Globals(); g += kTileKeys) {
      const int64_t count = std::min(kTileKeys, Globals() - g);
      block.Scores(global_k_.data() + g * sizes_.d, sizes_.d, count);
      for (int64_t x = 0; x < count; ++x) {
        const int64_t gap =
            keys_.globals()[static_cast<size_t>(g + x)] - group.first;
        if (keys_.causal() && gap > 0)
          hide(x, 0, (gap + group.stride - 1) / group.stride);
        if (gap % group.stride == 0)
          hide(x, gap / group.stride - keys_.window(),
               gap / group.stride + keys_.window() + 1);
      }
      block.Accumulate(global_v_.data() + g * sizes_.e, sizes_.e);
    }
  }

  void PackGlobals(int64_t h) {
    const int64_t d = sizes_.d, e = sizes_.e;
    for (int64_t g = 0; g < Globals(); ++g) {
      const int64_t at = keys_.globals()[static_cast<size_t>(g)];
      std::copy_n(arrays_.In<T>("q").Head(h) + at * d, d,
                  global_q_.data() + g * d);
      std::copy_n(arrays_.In<T>("k").Head(h) + at * d, d,
                  global_k_.data() + g * d);
      std::copy_n(arrays_.In<T>("v").Head(h) + at * e, e,
                  global_v_.data() + g * e);
    }
  }

  // Over what the groups wrote for these queries.
  void RunGlobalQueries(int64_t h) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const IntegerList& globals = keys_.globals();
    pool_.For((Globals() + kBlockQueries<T> - 1) / kBlockQueries<T>,
              [&](int64_t index, int worker) {
                SoftmaxBlock<T>& block = blocks_[static_cast<size_t>(worker)];
                const int64_t g = index * kBlockQueries<T>;
                const int64_t rows = std::min(kBlockQueries<T>, Globals() - g);
                const int64_t* at = globals.data() + g;  // in ascending order
                const int64_t end =
                    keys_.causal() ? at[rows - 1] + 1 : sizes_.n;
                block.Begin(global_q_.data() + g * d, d, rows, scale_);
                for (int64_t j = 0; j < end; j += kTileKeys) {
                  const int64_t keys = std::min(kTileKeys, end - j);
                  block.Scores(arrays_.In<T>("k").Head(h) + j * d, d, keys);
                  for (int64_t x = 0; keys_.causal() && x < keys; ++x)
                    std::fill_n(&block.Score(0, x),
                                std::lower_bound(at, at + rows, j + x) - at,
                                -std::numeric_limits<T>::infinity());
                  block.Accumulate(arrays_.In<T>("v").Head(h) + j * e, e);
                }
                T* out = global_out_.data() + g * e;
                block.End(out, e);
                for (int64_t i = 0; i < rows; ++i)
                  std::copy_n(out + i * e, e,
                              arrays_.Out<T>("out").Head(h) + at[i] * e);
              });
  }

  const Sizes sizes_;
  const T scale_;
  const SparseKeys keys_;
  const std::vector<QueryGroup> groups_;
  const Arrays arrays_;
  ThreadPool pool_;
  std::vector<SoftmaxBlock<T>> blocks_;
  std::vector<std::vector<KeyRun>> runs_;
  Buffer<T> global_q_, global_k_, global_v_, global_out_;
};

}  // namespace

std::vector<Implementation> SparseAttentionImplementations() {
  return CpuTable(
      "sparse_attention",
      {{.id = "dense",
        .what = "two GEMMs (Eigen) over all pairs, hidden scores left out",
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
        .prepare = PrepareFor<BlockedSparse>}});
}

}  // namespace subquad
