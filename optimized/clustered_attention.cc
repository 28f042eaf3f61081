// clustered_attention: softmax attention to the keys of a query's own cluster
// (Transformers II, learned sparsity; Kitaev et al. 2020; Roy et al. 2021)
//
//   dense   all scores in memory, other clusters masked, two GEMMs.
//   sorted  queries and keys grouped by cluster in one counting pass each, and
//           blocks of queries against tiles of keys within a cluster
//           (softmax_tiles.h): O(sum of n_q n_k (d + e)) over the clusters,
//           n^2 / clusters where they are even.
//
// Both compute the sums that decide clusters in order (softmax_tiles.h says
// why): tokens between two clusters must not change sides more easily than in
// the plain program.
#include <algorithm>
#include <limits>
#include <numeric>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/base/transpose.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

constexpr int64_t kRowBlock = 128;

struct ClusterSizes {
  explicit ClusterSizes(const Problem& problem)
      : heads(problem.heads),
        n(problem.Dim("n")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        c(problem.Dim("c")),
        hash(problem.params.Text("kind") == "lsh"),
        causal(problem.params.Flag("causal")) {}
  int64_t clusters() const { return hash ? 2 * c : c; }
  int64_t heads, n, d, e, c;
  bool hash, causal;
};

// Computes the cluster of every query and key of a head, for both algorithms.
template <typename T>
class Clustered : public Prepared {
 public:
  Clustered(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        query_clusters_(layout, sizes_.n),
        key_clusters_(layout, sizes_.n),
        columns_(layout, sizes_.hash ? 0 : sizes_.d * sizes_.c),
        numbers_(layout, WholeLines<T>(kRowBlock * sizes_.c)) {}

 protected:
  const T* Input(const char* name, int64_t head) const {
    return arrays_.In<T>(name).Head(head);
  }
  T* Out(int64_t head) const { return arrays_.Out<T>("out").Head(head); }

  double FlopsOfClusters() const {
    return 4.0 * static_cast<double>(sizes_.heads * sizes_.n) *
           static_cast<double>(sizes_.d * sizes_.c);
  }

  void FindClusters(int64_t head) {
    const int64_t d = sizes_.d, c = sizes_.c;
    if (!sizes_.hash)
      CopyTransposed(Input("centroids", head), d, c, d, T{1}, columns_.data(),
                     c);
    const T* vectors = sizes_.hash ? Input("rotations", head) : columns_.data();
    pool_.ForRows(
        sizes_.n, kRowBlock, [&](int64_t first, int64_t rows, int worker) {
          T* numbers = numbers_[worker];
          for (const bool queries : {true, false}) {
            MultiplyInOrder(Input(queries ? "q" : "k", head) + first * d, d,
                            rows, d, vectors, c, numbers);
            int32_t* clusters =
                (queries ? query_clusters_ : key_clusters_).data() + first;
            for (int64_t i = 0; i < rows; ++i)
              clusters[i] = ClusterOf(numbers + i * c);
          }
        });
  }

  const ClusterSizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<int32_t> query_clusters_, key_clusters_;

 private:
  // Returns the index of the largest of c products, or of the products and
  // their negatives.
  int32_t ClusterOf(const T* numbers) const {
    const auto c = static_cast<int32_t>(sizes_.c);
    int32_t best = 0;
    for (int32_t x = 1; x < c; ++x)
      if (numbers[x] > numbers[best]) best = x;
    if (!sizes_.hash) return best;
    int32_t least = 0;
    for (int32_t x = 1; x < c; ++x)
      if (numbers[x] < numbers[least]) least = x;
    return -numbers[least] > numbers[best] ? c + least : best;
  }

  Buffer<T> columns_;  // centroids, transposed
  PerThread<T> numbers_;
};

template <typename T>
class Dense : public Clustered<T> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Clustered<T>(problem, arrays, layout),
        scores_(layout, this->sizes_.n * this->sizes_.n) {}

  void Run() override {
    const auto& s = this->sizes_;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->FindClusters(h);
      this->pool_.ForRows(
          this->sizes_.n, kRowBlock, [&](int64_t first, int64_t rows, int) {
            T* scores = scores_.data() + first * s.n;
            Multiply(this->scale_,
                     RowsOf(this->Input("q", h) + first * s.d, rows, s.d),
                     RowsOf(this->Input("k", h), s.n, s.d).transpose(),
                     RowsOf(scores, rows, s.n));
            T sums[kRowBlock];
            for (int64_t r = 0; r < rows; ++r) {
              Hide(first + r, scores + r * s.n);
              sums[r] = ExponentiateRow<T>(scores + r * s.n, s.n, nullptr);
            }
            T* out = this->Out(h) + first * s.e;
            Multiply(T{1}, RowsOf<const T>(scores, rows, s.n),
                     RowsOf(this->Input("v", h), s.n, s.e),
                     RowsOf(out, rows, s.e));
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < s.e; ++c) out[r * s.e + c] /= sums[r];
          });
    }
  }

  double Flops() const override {
    const auto& s = this->sizes_;
    return this->FlopsOfClusters() +
           2 * static_cast<double>(s.heads * (s.d + s.e)) *
               static_cast<double>(s.n) * static_cast<double>(s.n);
  }

 private:
  void Hide(int64_t i, T* row) const {
    const int64_t n = this->sizes_.n;
    const int32_t own = this->query_clusters_[i];
    for (int64_t j = 0; j < n; ++j)
      if (j != i &&
          (this->key_clusters_[j] != own || (this->sizes_.causal && j > i)))
        row[j] = -std::numeric_limits<T>::infinity();
  }

  Buffer<T> scores_;
};

// Groups tokens by cluster, ascending within each.
class Groups {
 public:
  Groups(Layout& layout, int64_t n, int64_t clusters)
      : n_(n), ends_(layout, clusters), tokens_(layout, n) {}

  void Build(const int32_t* clusters) {
    const int64_t count = ends_.size();
    std::fill_n(ends_.data(), count, 0);
    for (int64_t i = 0; i < n_; ++i) ++ends_[clusters[i]];
    std::exclusive_scan(ends_.data(), ends_.data() + count, ends_.data(), 0);
    for (int64_t i = 0; i < n_; ++i)
      tokens_[ends_[clusters[i]]++] = static_cast<int32_t>(i);
  }

  int64_t Begin(int64_t cluster) const {
    return cluster == 0 ? 0 : ends_[cluster - 1];
  }
  int64_t End(int64_t cluster) const { return ends_[cluster]; }
  const int32_t* tokens() const { return tokens_.data(); }

 private:
  const int64_t n_;
  Buffer<int32_t> ends_, tokens_;
};

// One worker's block of queries and output, and a tile of keys and values,
// gathered from their places.
template <typename T>
struct Gathered {
  Gathered(Layout& layout, int64_t d, int64_t e)
      : block(layout, d, e),
        queries(layout, kBlockQueries<T> * d),
        keys(layout, kTileKeys * d),
        values(layout, kTileKeys * e),
        rows(layout, kBlockQueries<T> * e) {}

  SoftmaxBlock<T> block;
  Buffer<T> queries, keys, values, rows;
};

template <typename T>
class Sorted : public Clustered<T> {
 public:
  Sorted(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Clustered<T>(problem, arrays, layout),
        queries_(layout, this->sizes_.n, this->sizes_.clusters()),
        keys_(layout, this->sizes_.n, this->sizes_.clusters()),
        tasks_(layout, 2 * (this->sizes_.n / kBlockQueries<T> +
                            this->sizes_.clusters())),
        work_(PartPerThread<Gathered<T>>(layout, this->sizes_.d,
                                         this->sizes_.e)) {}

  void Run() override {
    const auto& s = this->sizes_;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->FindClusters(h);
      queries_.Build(this->query_clusters_.data());
      keys_.Build(this->key_clusters_.data());
      int64_t tasks = 0;
      for (int64_t cluster = 0; cluster < s.clusters(); ++cluster)
        for (int64_t at = queries_.Begin(cluster); at < queries_.End(cluster);
             at += kBlockQueries<T>) {
          tasks_[2 * tasks] = static_cast<int32_t>(cluster);
          tasks_[2 * tasks + 1] = static_cast<int32_t>(at);
          ++tasks;
        }
      this->pool_.For(tasks, [&](int64_t task, int worker) {
        Attend(h, tasks_[2 * task], tasks_[2 * task + 1],
               work_[static_cast<size_t>(worker)]);
      });
    }
  }

  // Counts the flops for clusters of equal size.
  double Flops() const override {
    const auto& s = this->sizes_;
    return this->FlopsOfClusters() +
           2 * static_cast<double>(s.heads * (s.d + s.e)) *
               static_cast<double>(s.n) *
               (1 +
                static_cast<double>(s.n) / static_cast<double>(s.clusters()));
  }

 private:
  static void Gather(const T* rows, int64_t width, const int32_t* tokens,
                     int64_t count, T* to) {
    for (int64_t i = 0; i < count; ++i)
      std::copy_n(rows + tokens[i] * width, width, to + i * width);
  }

  // Processes a block of queries, starting at place `at` in their order.
  void Attend(int64_t head, int64_t cluster, int64_t at, Gathered<T>& work) {
    const auto& s = this->sizes_;
    const int32_t* queries = queries_.tokens() + at;
    const int64_t rows = std::min(kBlockQueries<T>, queries_.End(cluster) - at);
    Gather(this->Input("q", head), s.d, queries, rows, work.queries.data());
    work.block.Begin(work.queries.data(), s.d, rows, this->scale_);
    // Each query sees itself, whichever cluster its own key belongs to.
    TakeKeys(head, queries, rows, work);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t j = 0; j < rows; ++j)
        if (i != j)
          work.block.Score(i, j) = -std::numeric_limits<T>::infinity();
    work.block.Accumulate(work.values.data(), s.e);
    const int32_t* end = keys_.tokens() + keys_.End(cluster);
    for (const int32_t* keys = keys_.tokens() + keys_.Begin(cluster);
         keys < end; keys += kTileKeys) {
      if (s.causal && keys[0] > queries[rows - 1]) break;
      const int64_t count = std::min<int64_t>(kTileKeys, end - keys);
      TakeKeys(head, keys, count, work);
      Hide(queries, rows, keys, count, work.block);
      work.block.Accumulate(work.values.data(), s.e);
    }
    Scatter(head, queries, rows, work);
  }

  void TakeKeys(int64_t head, const int32_t* keys, int64_t count,
                Gathered<T>& work) {
    const auto& s = this->sizes_;
    Gather(this->Input("k", head), s.d, keys, count, work.keys.data());
    Gather(this->Input("v", head), s.e, keys, count, work.values.data());
    work.block.Scores(work.keys.data(), s.d, count);
  }

  // Hides a query's own key, which it has already seen, and causally later
  // keys.
  void Hide(const int32_t* queries, int64_t rows, const int32_t* keys,
            int64_t count, SoftmaxBlock<T>& block) const {
    const bool causal = this->sizes_.causal;
    if (keys[count - 1] < queries[0]) return;
    if (!causal && keys[0] > queries[rows - 1]) return;
    for (int64_t j = 0; j < count; ++j)
      for (int64_t i = 0; i < rows; ++i)
        if (keys[j] == queries[i] || (causal && keys[j] > queries[i]))
          block.Score(i, j) = -std::numeric_limits<T>::infinity();
  }

  // Writes the rows of a block to their places in the output.
  void Scatter(int64_t head, const int32_t* queries, int64_t rows,
               Gathered<T>& work) {
    const int64_t e = this->sizes_.e;
    T* out = this->Out(head);
    work.block.End(work.rows.data(), e);
    for (int64_t i = 0; i < rows; ++i)
      std::copy_n(work.rows.data() + i * e, e, out + queries[i] * e);
  }

  Groups queries_, keys_;
  Buffer<int32_t> tasks_;  // a cluster and a place each
  std::vector<Gathered<T>> work_;
};

}  // namespace

std::vector<Implementation> ClusteredAttentionImplementations() {
  return CpuTable(
      "clustered_attention",
      {{.id = "dense",
        .what = "two GEMMs (Eigen), scores in memory, other clusters masked",
        .source = "Transformers II",
        .time = {"O(n^2 (d + e))", "n^2"},
        .memory = {"O(n^2)", "n^2"},
        .sums = DirectSums,
        .prepare = PrepareFor<Dense>},
       {.id = "sorted",
        .what = "tokens grouped by cluster, online softmax within each",
        .source = "Kitaev et al. 2020; Roy et al. 2021",
        .time = {"O(n^2 (d + e) / clusters)", "n^2"},
        .memory = {"O(n)", "n"},
        .sums = DirectSums,
        .prepare = PrepareFor<Sorted>}});
}

}  // namespace subquad
