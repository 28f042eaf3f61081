// kernelized_clipped_rpe_attention: out_i = sum_j A_ij v_j / sum_j A_ij, A_ij =
// phi(q_i).phi(k_j) + phi(q_i).rpe[clip(j-i, -r, r) + r], phi = elu + 1 (LRPE
// section IV)
//
//   dense   A in memory, times the values by GEMM: O(n^2 (d + e)) time, O(n^2)
//           memory.
//   linear  the content term through its state sum_j phi(k_j) [v_j, 1]^T (with
//           `causal` a running state, and a tile of scores within a block of
//           queries), the position term through tails and a window
//           (optimized/kernelized/clipped_window.h): O(n d e + n r (d + e))
//           time, memory O(n e / B + d e).
//   auto    each term naive or linear, whichever needs less memory by the
//           note's formulas. They count a state for every position in the
//           causal case, which the running state here does not keep: between
//           n = 100 and n = 4096 (d = 64) it picks a matrix where `linear`
//           needs less. The rule is the note's, unchanged; see the test.
//
// The first two are the choices (naive, naive) and (linear, linear).
#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "optimized/base/elementwise.h"
#include "optimized/base/lanes.h"
#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/kernelized/clipped_window.h"

namespace subquad {
namespace {

struct Terms {
  bool content_linear, position_linear;
};

Terms DenseTerms(const Problem&) { return {false, false}; }
Terms LinearTerms(const Problem&) { return {true, true}; }

// Computes the memory of the two algorithms for each term by the note's
// formulas, in elements.
Terms AutoTerms(const Problem& problem) {
  const double n_q = static_cast<double>(problem.Dim("n_q"));
  const double n_k = static_cast<double>(problem.Dim("n_k"));
  const double d = static_cast<double>(problem.Dim("d"));
  const double r = static_cast<double>(problem.Dim("r"));
  const double states = problem.params.Flag("causal") ? std::max(n_q, n_k) : 1;
  return {.content_linear = d * d * states < n_q * n_k,
          .position_linear = n_q * (2 * r + 1 + 4) < n_q * n_k};
}

// Queries per block of a term in memory.
constexpr int64_t kMatrixBlock = 128;

// kPanel keys are added up in one product of a matrix with the values, and
// kPanels such sums before they join the others. The weights of a tail are
// equal, so that their rounding errors all have the same sign, and the
// normaliser is added up in another order. If all values are one, only short
// sums stay as close to one as the plain program, whose two sums are the same.
constexpr int64_t kPanel = 32;
constexpr int64_t kPanels = 16;

// The number of running states is fixed, so that threads change no sum.
constexpr int64_t kSegments = 16;

struct Plan {
  Plan(const Problem& problem, Terms chosen)
      : terms(chosen),
        window(problem, BlockFor(problem, chosen)),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        heads(problem.heads) {}

  static int64_t BlockFor(const Problem& problem, Terms terms) {
    if (!terms.position_linear) return kMatrixBlock;
    return std::clamp<int64_t>(ClippedWindow::BlockFor(problem), 64,
                               kMatrixBlock);
  }

  bool has_matrix() const {
    return !terms.content_linear || !terms.position_linear;
  }
  // Counts blocks of positions that have keys, and with causal also queries.
  int64_t content_blocks() const {
    return window.causal ? window.blocks()
                         : (window.n_k + window.block - 1) / window.block;
  }
  int64_t blocks_per_segment() const {
    return (content_blocks() + kSegments - 1) / kSegments;
  }
  int64_t segments() const {
    return (content_blocks() + blocks_per_segment() - 1) / blocks_per_segment();
  }

  // Sizes of the buffers, in elements.
  int64_t features() const { return window.block * d; }
  int64_t all_keys() const { return terms.content_linear ? 0 : window.n_k * d; }
  int64_t states() const {
    // One more state holds the keys before the first query.
    return terms.content_linear ? (segments() + 1) * d * (e + 1) : 0;
  }
  int64_t matrix() const { return has_matrix() ? window.n_q * window.n_k : 0; }
  int64_t sums() const { return has_matrix() ? window.block * e : 0; }
  int64_t weights() const { return window.block * window.columns(); }
  int64_t tile() const {
    int64_t width = terms.position_linear ? window.widest() : 0;
    if (terms.content_linear && window.causal)
      width = std::max(width, window.block);
    return window.block * width;
  }

  Terms terms;
  ClippedWindow window;
  int64_t d, e, heads;
};

template <typename T>
class ByTerms : public Prepared {
 public:
  ByTerms(const Problem& problem, const Arrays& arrays, Layout& layout,
          Terms terms)
      : plan_(problem, terms),
        window_(plan_.window),
        d_(plan_.d),
        e_(plan_.e),
        arrays_(arrays),
        pool_(layout),
        tails_(layout, window_, terms.position_linear ? e_ : 0),
        all_keys_(layout, plan_.all_keys()),
        states_(layout, plan_.states()),
        matrix_(layout, plan_.matrix()),
        queries_(layout, plan_.features()),
        keys_(layout, plan_.features()),
        weights_(layout, plan_.weights()),
        tiles_(layout, plan_.tile()),
        sums_(layout, plan_.sums()),
        normalisers_(layout, window_.block) {}

  std::string Choice() const override {
    const auto name = [](bool linear) { return linear ? "linear" : "naive"; };
    return std::string("content ") + name(plan_.terms.content_linear) +
           ", position " + name(plan_.terms.position_linear);
  }

  void Run() override {
    for (int64_t h = 0; h < plan_.heads; ++h) RunHead(h);
  }

  double Flops() const override {
    const bool causal = window_.causal;
    const double n_q = static_cast<double>(window_.n_q);
    const double n_k = static_cast<double>(window_.n_k);
    const double d = static_cast<double>(d_);
    const double e = static_cast<double>(e_);
    const double block = static_cast<double>(window_.block);
    const double keys = causal ? std::min(n_k, (n_q + block) / 2) : n_k;
    double flops = 2 * n_q * static_cast<double>(window_.columns()) * d;
    if (plan_.has_matrix()) flops += 2 * n_q * keys * (e + 0.5);
    if (plan_.terms.content_linear)
      flops += 2 * d * e * (n_q + (causal ? 2 : 1) * n_k) +
               (causal ? 2 * n_q * block * (d + e) : 0);
    else
      flops += 2 * n_q * keys * d;
    if (plan_.terms.position_linear)
      flops += 2 * n_q * static_cast<double>(window_.widest()) * e +
               4 * n_q * e + tails_.Flops();
    return static_cast<double>(plan_.heads) * flops;
  }

 private:
  using Map = MatrixMap<T>;
  using ConstMap = ConstMatrixMap<T>;

  void RunHead(int64_t h) {
    window_.BeginHead(h);
    const T* v = arrays_.In<T>("v").Head(h);
    if (plan_.terms.position_linear) tails_.Run(pool_, h, v);
    if (!plan_.terms.content_linear) {
      const T* k = arrays_.In<T>("k").Head(h);
      constexpr int64_t kKeys = 256;
      pool_.For((window_.keys + kKeys - 1) / kKeys, [&](int64_t piece, int) {
        const int64_t first = piece * kKeys;
        KeyFeatures(k + first * d_, std::min(kKeys, window_.keys - first),
                    all_keys_.data() + first * d_);
      });
      return ForBlocks(h);
    }
    pool_.For(plan_.segments(), [&](int64_t s, int worker) {
      std::fill_n(State(s), d_ * (e_ + 1), T{0});
      for (int64_t b = FirstBlock(s); b < FirstBlock(s + 1); ++b)
        AddKeys(h, FirstKey(b), window_.block, worker, State(s));
    });
    if (!window_.causal) {
      for (int64_t s = 1; s < plan_.segments(); ++s)
        for (int64_t x = 0; x < d_ * (e_ + 1); ++x) State(0)[x] += State(s)[x];
      return ForBlocks(h);
    }
    T* const start = State(plan_.segments());
    std::fill_n(start, d_ * (e_ + 1), T{0});
    pool_.For(1, [&](int64_t, int worker) {
      for (int64_t j = 0; j < FirstKey(0); j += window_.block)
        AddKeys(h, j, std::min(window_.block, FirstKey(0) - j), worker, start);
    });
    // Turns the sums of the segments into the state before each segment.
    for (int64_t x = 0; x < d_ * (e_ + 1); ++x) {
      T before = start[x];
      for (int64_t s = 0; s < plan_.segments(); ++s) {
        const T own = State(s)[x];
        State(s)[x] = before;
        before += own;
      }
    }
    pool_.For(plan_.segments(), [&](int64_t s, int worker) {
      for (int64_t b = FirstBlock(s); b < FirstBlock(s + 1); ++b) {
        RunBlock(h, b, worker, State(s));
        AddKeys(h, FirstKey(b), window_.block, worker, State(s));
      }
    });
  }

  void ForBlocks(int64_t h) {
    pool_.For(window_.blocks(), [&](int64_t b, int worker) {
      RunBlock(h, b, worker, states_.data());
    });
  }

  // Stores rows of phi(k_j) . v_j^T, then the sum of phi(k_j).
  T* State(int64_t s) const { return states_.data() + s * d_ * (e_ + 1); }
  int64_t FirstBlock(int64_t s) const {
    return std::min(s * plan_.blocks_per_segment(), plan_.content_blocks());
  }

  // First key of block b for the content term: with `causal`, blocks of keys
  // have the positions of their queries.
  int64_t FirstKey(int64_t b) const {
    const int64_t before =
        window_.causal ? std::min(window_.seen.first(), window_.keys) : 0;
    return before + b * window_.block;
  }

  // Computes x + 1 or exp(x) without a branch.
  void KeyFeatures(const T* k, int64_t rows, T* features) const {
    Elementwise(k, rows * d_, features,
                [](const auto& x) { return x.max(T{0}) + x.min(T{0}).exp(); });
  }

  // Computes the features of a query, multiplied by a factor that brings the
  // largest to about one: see the reference.
  void QueryFeatures(const T* q, int64_t rows, T* features) const {
    for (int64_t i = 0; i < rows; ++i) {
      const T* query = q + i * d_;
      T* const phi = features + i * d_;
      const T top = *std::max_element(query, query + d_);
      if (top <= 0) {
        Elementwise(query, d_, phi,
                    [&](const auto& x) { return (x - top).exp(); });
      } else {
        const T factor = std::ldexp(T{1}, -std::ilogb(top + 1));
        Elementwise(query, d_, phi, [&](const auto& x) {
          return (x.max(T{0}) + x.min(T{0}).exp()) * factor;
        });
      }
    }
  }

  // Adds at most `most` keys, from `first` on, to a state.
  void AddKeys(int64_t h, int64_t first, int64_t most, int worker, T* state) {
    const int64_t keys = std::min(most, window_.keys - first);
    if (keys <= 0) return;
    T* const features = keys_[worker];
    KeyFeatures(arrays_.In<T>("k").Head(h) + first * d_, keys, features);
    const auto phi = RowsOf<const T>(features, keys, d_);
    AddProduct(phi.transpose(),
               RowsOf(arrays_.In<T>("v").Head(h) + first * e_, keys, e_),
               RowsOf(state, d_, e_));
    T* const sums = state + d_ * e_;
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t c = 0; c < d_; ++c) sums[c] += features[j * d_ + c];
  }

  void RunBlock(int64_t h, int64_t b, int worker, const T* state) {
    const int64_t first = b * window_.block;
    const int64_t rows = std::min(window_.block, window_.n_q - first);
    T* const features = queries_[worker];
    QueryFeatures(arrays_.In<T>("q").Head(h) + first * d_, rows, features);
    const auto query = RowsOf<const T>(features, rows, d_);

    // Computes phi(q_i) . rpe for every offset that occurs.
    const int64_t columns = window_.columns();
    T* const weights = weights_[worker];
    Multiply(T{1}, query,
             RowsOf(arrays_.In<T>("rpe").Head(h) + window_.first_row() * d_,
                    columns, d_)
                 .transpose(),
             RowsOf(weights, rows, columns));

    auto out = RowsOf(arrays_.Out<T>("out").Head(h) + first * e_, rows, e_);
    auto normaliser = RowsOf(normalisers_[worker], rows, 1);
    out.setZero();
    normaliser.setZero();
    if (plan_.has_matrix())
      AddMatrix(h, first, worker, query, weights, out, normaliser);
    if (plan_.terms.position_linear)
      AddWindow(h, b, worker, weights, out, normaliser);
    if (plan_.terms.content_linear) {
      AddProduct(query, RowsOf(state, d_, e_), out);
      AddProduct(query, RowsOf(state + d_ * e_, d_, 1), normaliser);
      if (window_.causal) AddOwnKeys(h, b, worker, query, out, normaliser);
    }
    for (int64_t i = 0; i < rows; ++i)
      if (normaliser(i, 0) != 0)  // the query sees a key
        out.row(i) /= normaliser(i, 0);
  }

  // Adds the naive terms: their scores are in memory, for all visible keys.
  void AddMatrix(int64_t h, int64_t first, int worker, const ConstMap& query,
                 const T* weights, Map& out, Map& normaliser) {
    const int64_t rows = query.rows();
    const int64_t keys = window_.seen.Before(h, first + rows);
    T* const scores = matrix_.data() + first * window_.n_k;
    auto matrix = RowsOf(scores, rows, keys, window_.n_k);
    if (!plan_.terms.position_linear)
      for (int64_t i = 0; i < rows; ++i)
        window_.FillRow(weights + i * window_.columns(), first + i, 0, keys,
                        scores + i * window_.n_k);
    if (!plan_.terms.content_linear) {
      const auto phi =
          RowsOf(static_cast<const T*>(all_keys_.data()), keys, d_).transpose();
      if (plan_.terms.position_linear)
        Multiply(T{1}, query, phi, matrix);
      else
        AddProduct(query, phi, matrix);
      if (window_.causal) HideFuture(window_.seen.first() + first, 0, matrix);
    }
    const auto v = RowsOf(arrays_.In<T>("v").Head(h), keys, e_);
    auto sum = RowsOf(sums_[worker], rows, e_);
    Eigen::Matrix<T, Eigen::Dynamic, 1, 0, kMatrixBlock, 1> weight(rows);
    for (int64_t group = 0; group < keys; group += kPanel * kPanels) {
      const int64_t end = std::min(group + kPanel * kPanels, keys);
      sum.setZero();
      weight.setZero();
      for (int64_t j = group; j < end; j += kPanel) {
        const auto panel = matrix.middleCols(j, std::min(kPanel, end - j));
        AddProduct(panel, v.middleRows(j, panel.cols()), sum);
        for (int64_t i = 0; i < rows; ++i)
          weight(i) += SumOf(scores + i * window_.n_k + j, panel.cols());
      }
      out += sum;
      normaliser += weight;
    }
  }

  // Sets hidden scores to zero; column 0 is key `begin`.
  static void HideFuture(int64_t first, int64_t begin, Map& scores) {
    for (int64_t i = 0; i < scores.rows(); ++i) {
      const int64_t visible = std::min(first + i + 1 - begin, scores.cols());
      scores.row(i).tail(scores.cols() - visible).setZero();
    }
  }

  void AddWindow(int64_t h, int64_t b, int worker, const T* weights, Map& out,
                 Map& normaliser) {
    const int64_t first = b * window_.block, columns = window_.columns();
    const int64_t begin = window_.Begin(b), end = window_.End(b);
    const auto add_tail = [&](const T* sum, int64_t count, int64_t column) {
      const Eigen::Map<const Eigen::Matrix<T, 1, Eigen::Dynamic>> row(sum, e_);
      for (int64_t i = 0; i < out.rows(); ++i) {
        const T weight = weights[i * columns + column];
        out.row(i) += weight * row;
        normaliser(i, 0) += weight * static_cast<T>(count);
      }
    };
    if (const T* sum = tails_.Before(b)) add_tail(sum, begin, 0);
    if (const T* sum = tails_.After(b))
      add_tail(sum, window_.keys - end, columns - 1);
    if (begin == end) return;
    T* const scores = tiles_[worker];
    auto tile = RowsOf(scores, out.rows(), end - begin);
    for (int64_t i = 0; i < out.rows(); ++i)
      window_.FillRow(weights + i * columns, first + i, begin, end,
                      scores + i * (end - begin));
    AddProduct(tile,
               RowsOf(arrays_.In<T>("v").Head(h) + begin * e_, end - begin, e_),
               out);
    for (int64_t i = 0; i < out.rows(); ++i)
      normaliser(i, 0) += SumOf(scores + i * tile.cols(), tile.cols());
  }

  // Adds the content scores of a causal block for the keys of the block itself.
  void AddOwnKeys(int64_t h, int64_t b, int worker, const ConstMap& query,
                  Map& out, Map& normaliser) {
    const int64_t first = FirstKey(b);
    const int64_t keys = std::min(out.rows(), window_.keys - first);
    if (keys <= 0) return;
    T* const features = keys_[worker];
    KeyFeatures(arrays_.In<T>("k").Head(h) + first * d_, keys, features);
    auto tile = RowsOf(tiles_[worker], out.rows(), keys);
    Multiply(T{1}, query, RowsOf<const T>(features, keys, d_).transpose(),
             tile);
    HideFuture(first, first, tile);
    AddProduct(tile, RowsOf(arrays_.In<T>("v").Head(h) + first * e_, keys, e_),
               out);
    for (int64_t i = 0; i < out.rows(); ++i)
      normaliser(i, 0) += SumOf(&tile(i, 0), keys);
  }

  const Plan plan_;
  ClippedWindow window_;
  const int64_t d_, e_;
  const Arrays arrays_;
  ThreadPool pool_;
  TailSums<T> tails_;
  Buffer<T> all_keys_, states_, matrix_;
  PerThread<T> queries_, keys_, weights_, tiles_, sums_, normalisers_;
};

template <Terms (*Choose)(const Problem&)>
std::unique_ptr<Prepared> PrepareTerms(const Problem& problem,
                                       const Arrays& arrays, Layout& layout) {
  return ForScalar(problem, [&]<typename T>() -> std::unique_ptr<Prepared> {
    return std::make_unique<ByTerms<T>>(problem, arrays, layout,
                                        Choose(problem));
  });
}

}  // namespace

std::vector<Implementation> KernelizedClippedRpeAttentionImplementations() {
  return CpuTable(
      "kernelized_clipped_rpe_attention",
      {{.id = "dense",
        .what = "scores in memory times v (GEMMs)",
        .sums = DirectSums,
        .prepare = PrepareTerms<DenseTerms>},
       {.id = "linear",
        .what = "content by a (running) state, position by tails and a window",
        .memory = {"O(n e / B + d e + B r)", "n"},
        .sums = DirectSums,
        .prepare = PrepareTerms<LinearTerms>},
       {.id = "auto",
        .what = "each term naive or linear by the note's memory formulas, "
                "which do not know the running state of `linear`",
        .source = "LRPE section IV",
        .time = {"O(n (d e + r (d + e))), long n", "n"},
        .memory = {"O(n e / B + d e), long n", "n"},
        .sums = DirectSums,
        .prepare = PrepareTerms<AutoTerms>}});
}

}  // namespace subquad
