// graph_attention: each token attends to the tokens that it has an edge to
// (Transformers II, fig. 13b, c; Kipf and Welling 2017; Velickovic et al. 2018)
//
//   dense     all weights in a matrix, zero where there is no edge, and a GEMM:
//             O(n^2 e).
//   gathered  the keys of each query one after another: O((n + m) e). Edges are
//             sorted by query and key in two counting passes, which puts
//             duplicates side by side.
//   sorted    attention over all tokens, exactly, in O(n (log n + e)). A score
//             is leaky(p_i + q_j), so that with the q_j in descending order the
//             scores above zero are those of the first keys. There a weight is
//             e^(p_i) e^(q_j), a product, and below zero e^(slope p_i)
//             e^(slope q_j): a row is a sum over the first keys, and one over
//             the others, each times a factor of its own.
//
// All begin with u = x phi, whose terms are added in order (softmax_tiles.h
// says why).
//
// sorted computes exponents relative to the largest q_j, with t = p_i + max q:
// where t > 0 the largest score is t, and the weights relative to it are
// exp(q_j - max q) of the first keys and exp(slope (q_j - max q)) times
// exp((slope - 1) t) of the others; where t <= 0 all keys are others, and their
// weights are exp(slope (q_j - max q)). No exponent is above zero if the slope
// is at most one, and the two exponents of a weight add up to its score's
// distance from the largest: the plain program's bound holds. Sums are in
// float64, over pieces of 64 keys, and from the far end for the others, so that
// nothing is subtracted.
#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"

namespace subquad {
namespace {

constexpr int64_t kRowBlock = 128;

struct GraphSizes {
  explicit GraphSizes(const Problem& problem)
      : heads(problem.heads),
        n(problem.Dim("n")),
        m(problem.HasInput("edges") ? problem.Dim("m") : 0),
        token(problem.Dim("D")),
        e(problem.Dim("e")),
        has_edges(m > 0),
        convolution(problem.params.Text("kind") == "convolution"),
        slope(problem.params.Has("slope") ? problem.params.Number("slope")
                                          : 0.2) {}
  int64_t heads, n, m, token, e;
  bool has_edges, convolution;
  double slope;
};

// True if an edge is between existing tokens, which the harness has checked.
template <typename T>
bool IsEdge(const T* edge, int64_t n) {
  return edge[0] >= 0 && edge[0] < static_cast<T>(n) && edge[1] >= 0 &&
         edge[1] < static_cast<T>(n);
}

// Computes u, and the two parts of the scores, for all algorithms.
template <typename T>
class Graph : public Prepared {
 public:
  Graph(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        arrays_(arrays),
        pool_(layout),
        numbers_(layout, sizes_.n * sizes_.e),
        of_queries_(layout, sizes_.convolution ? 0 : sizes_.n),
        of_keys_(layout, sizes_.convolution ? 0 : sizes_.n) {}

 protected:
  double FlopsOfNumbers() const {
    return 2.0 * static_cast<double>(sizes_.heads * sizes_.n * sizes_.e) *
           static_cast<double>(sizes_.token + (sizes_.convolution ? 0 : 2));
  }

  const T* Input(const char* name, int64_t head) const {
    return arrays_.In<T>(name).Head(head);
  }
  T* Out(int64_t head) const { return arrays_.Out<T>("out").Head(head); }

  void MakeNumbers(int64_t head) {
    const int64_t token = sizes_.token, e = sizes_.e;
    const T *x = Input("x", head), *phi = Input("phi", head);
    pool_.ForRows(sizes_.n, kRowBlock, [&](int64_t first, int64_t rows, int) {
      T* u = numbers_.data() + first * e;
      MultiplyInOrder(x + first * token, token, rows, token, phi, e, u);
      if (sizes_.convolution) return;
      MultiplyInOrder(u, e, rows, e, Input("a_q", head), 1,
                      of_queries_.data() + first);
      MultiplyInOrder(u, e, rows, e, Input("a_k", head), 1,
                      of_keys_.data() + first);
    });
  }

  T ScoreOf(int64_t i, int64_t j) const {
    const T sum = of_queries_[i] + of_keys_[j];
    return sum > 0 ? sum : static_cast<T>(sizes_.slope) * sum;
  }

  const GraphSizes sizes_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> numbers_;               // u
  Buffer<T> of_queries_, of_keys_;  // u a_q, u a_k
};

template <typename T>
class Dense : public Graph<T> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Graph<T>(problem, arrays, layout),
        weights_(layout, this->sizes_.n * this->sizes_.n),
        degrees_(layout, this->sizes_.convolution ? this->sizes_.n : 0) {}

  void Run() override {
    const int64_t n = this->sizes_.n, e = this->sizes_.e;
    for (int64_t h = 0; h < this->sizes_.heads; ++h) {
      this->MakeNumbers(h);
      MarkEdges(h);
      this->pool_.ForRows(
          this->sizes_.n, kRowBlock, [&](int64_t first, int64_t rows, int) {
            T* weights = weights_.data() + first * n;
            T sums[kRowBlock];
            for (int64_t r = 0; r < rows; ++r)
              sums[r] = Weigh(first + r, weights + r * n);
            auto out = RowsOf(this->Out(h) + first * e, rows, e);
            Multiply(T{1}, RowsOf<const T>(weights, rows, n),
                     RowsOf<const T>(this->numbers_.data(), n, e), out);
            for (int64_t r = 0; r < rows; ++r)
              for (int64_t c = 0; c < e; ++c)
                this->Out(h)[(first + r) * e + c] /= sums[r];
          });
    }
  }

  double Flops() const override {
    const auto n = static_cast<double>(this->sizes_.n);
    return this->FlopsOfNumbers() +
           2 * static_cast<double>(this->sizes_.heads * this->sizes_.e) * n * n;
  }

 private:
  // Marks edges with ones, other pairs with zeros.
  void MarkEdges(int64_t head) {
    const auto& s = this->sizes_;
    std::fill_n(weights_.data(), s.n * s.n, s.has_edges ? T{0} : T{1});
    for (int64_t i = 0; i < s.n; ++i) weights_[i * s.n + i] = 1;
    const T* edges = s.has_edges ? this->Input("edges", head) : nullptr;
    for (int64_t r = 0; r < s.m; ++r, edges += 2)
      if (IsEdge(edges, s.n))
        weights_[static_cast<int64_t>(edges[0]) * s.n +
                 static_cast<int64_t>(edges[1])] = 1;
    if (!s.convolution) return;
    this->pool_.ForRows(
        this->sizes_.n, kRowBlock, [&](int64_t first, int64_t rows, int) {
          for (int64_t i = first; i < first + rows; ++i) {
            const T* row = weights_.data() + i * s.n;
            // Degrees are counted as integers: counting in a float32 T ends at
            // 2^24.
            degrees_[i] = static_cast<T>(std::count(row, row + s.n, T{1}));
          }
        });
  }

  // Turns the marks of row i into weights; returns the divisor, their sum.
  T Weigh(int64_t i, T* row) const {
    const auto& s = this->sizes_;
    if (s.convolution) {
      const T own = 1 / std::sqrt(degrees_[i]);
      for (int64_t j = 0; j < s.n; ++j)
        row[j] = row[j] * own / std::sqrt(degrees_[j]);
      return 1;
    }
    for (int64_t j = 0; j < s.n; ++j)
      row[j] = row[j] != 0 ? this->ScoreOf(i, j)
                           : -std::numeric_limits<T>::infinity();
    return ExponentiateRow<T>(row, s.n, nullptr);
  }

  Buffer<T> weights_, degrees_;
};

// Lists the keys of every query, ascending, from edges in any order.
template <typename T>
class Adjacency {
 public:
  Adjacency(Layout& layout, int64_t n, int64_t m)
      : n_(n),
        m_(m),
        key_ends_(layout, n),
        query_ends_(layout, n),
        counts_(layout, n),
        queries_(layout, n + m),
        keys_(layout, n + m) {}

  // Sorts by counting, first by key and then by query; the second pass keeps
  // the order of the first.
  void Build(const T* edges) {
    std::fill_n(key_ends_.data(), n_, 0);
    std::fill_n(query_ends_.data(), n_, 0);
    ForEdges(edges, [&](int32_t i, int32_t j) {
      ++query_ends_[i];
      ++key_ends_[j];
    });
    // Initially the places where groups begin; each insertion advances its
    // place, until it is the group's end.
    std::exclusive_scan(key_ends_.data(), key_ends_.data() + n_,
                        key_ends_.data(), 0);
    std::exclusive_scan(query_ends_.data(), query_ends_.data() + n_,
                        query_ends_.data(), 0);
    ForEdges(edges,
             [&](int32_t i, int32_t j) { queries_[key_ends_[j]++] = i; });
    int32_t at = 0;
    for (int32_t j = 0; j < n_; ++j)
      for (; at < key_ends_[j]; ++at) keys_[query_ends_[queries_[at]]++] = j;
    for (int64_t i = 0; i < n_; ++i) {
      int32_t* first = keys_.data() + Begin(i);
      counts_[i] = static_cast<int32_t>(
          std::unique(first, keys_.data() + query_ends_[i]) - first);
    }
  }

  const int32_t* KeysOf(int64_t i) const { return keys_.data() + Begin(i); }
  int64_t Count(int64_t i) const { return counts_[i]; }

 private:
  int64_t Begin(int64_t i) const { return i == 0 ? 0 : query_ends_[i - 1]; }

  // Visits the given edges, and one from each token to itself.
  template <typename Take>
  void ForEdges(const T* edges, const Take& take) const {
    for (int64_t r = 0; r < m_; ++r, edges += 2)
      if (IsEdge(edges, n_))
        take(static_cast<int32_t>(edges[0]), static_cast<int32_t>(edges[1]));
    for (int32_t i = 0; i < n_; ++i) take(i, i);
  }

  const int64_t n_, m_;
  Buffer<int32_t> key_ends_, query_ends_, counts_, queries_, keys_;
};

template <typename T>
class Gathered : public Graph<T> {
 public:
  Gathered(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Graph<T>(problem, arrays, layout),
        adjacency_(layout, this->sizes_.n, this->sizes_.m),
        parts_(layout, WholeLines<T>(this->sizes_.e)) {}

  void Run() override {
    const auto& s = this->sizes_;
    const T* built = nullptr;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->MakeNumbers(h);
      const T* edges = this->Input("edges", h);
      if (edges != built) adjacency_.Build(edges);
      built = edges;
      this->pool_.ForRows(this->sizes_.n, kRowBlock,
                          [&](int64_t first, int64_t rows, int worker) {
                            for (int64_t i = first; i < first + rows; ++i) {
                              T* out = this->Out(h) + i * s.e;
                              if (s.convolution)
                                Convolve(i, parts_[worker], out);
                              else
                                Attend(i, parts_[worker], out);
                            }
                          });
    }
  }

  double Flops() const override {
    const auto& s = this->sizes_;
    return this->FlopsOfNumbers() +
           2 * static_cast<double>(s.heads * (s.n + s.m) * s.e);
  }

 private:
  void Convolve(int64_t i, T* part, T* out) {
    const T own = 1 / std::sqrt(static_cast<T>(adjacency_.Count(i)));
    AddUp(i, part, out, [&](int64_t j) {
      return own / std::sqrt(static_cast<T>(adjacency_.Count(j)));
    });
  }

  void Attend(int64_t i, T* part, T* out) {
    const int32_t* keys = adjacency_.KeysOf(i);
    T top = this->ScoreOf(i, keys[0]);
    for (int64_t x = 1; x < adjacency_.Count(i); ++x)
      top = std::max(top, this->ScoreOf(i, keys[x]));
    const T sum = AddUp(i, part, out, [&](int64_t j) {
      return std::exp(this->ScoreOf(i, j) - top);
    });
    for (int64_t c = 0; c < this->sizes_.e; ++c) out[c] /= sum;
  }

  // Computes out = sum of weight(j) u_j over the keys of i, in parts, so that
  // small terms of a long sum are not lost; returns the sum of the weights.
  template <typename Weight>
  T AddUp(int64_t i, T* part, T* out, const Weight& weight) {
    constexpr int64_t kTermsOfAPart = 512;
    const int64_t e = this->sizes_.e, count = adjacency_.Count(i);
    const int32_t* keys = adjacency_.KeysOf(i);
    std::fill_n(out, e, T{0});
    T sum = 0;
    for (int64_t first = 0; first < count; first += kTermsOfAPart) {
      std::fill_n(part, e, T{0});
      T part_sum = 0;
      const int64_t end = std::min(first + kTermsOfAPart, count);
      for (int64_t x = first; x < end; ++x) {
        const T w = weight(keys[x]);
        const T* u = this->numbers_.data() + keys[x] * e;
        for (int64_t c = 0; c < e; ++c) part[c] += w * u[c];
        part_sum += w;
      }
      for (int64_t c = 0; c < e; ++c) out[c] += part[c];
      sum += part_sum;
    }
    return sum;
  }

  Adjacency<T> adjacency_;
  PerThread<T> parts_;
};

template <typename T>
class Sorted : public Graph<T> {
 public:
  Sorted(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Graph<T>(problem, arrays, layout),
        pieces_((this->sizes_.n + kPiece - 1) / kPiece),
        width_(this->sizes_.e + 1),
        keys_(layout, this->sizes_.n),
        queries_(layout, this->sizes_.n),
        splits_(layout, this->sizes_.n),
        first_sums_(layout, (pieces_ + 1) * width_),
        other_sums_(layout, (pieces_ + 1) * width_),
        states_(layout, WholeLines<double>((kPiece + 2) * width_)) {}

  void Run() override {
    for (int64_t h = 0; h < this->sizes_.heads; ++h) {
      this->MakeNumbers(h);
      Sort();
      // Sums over each piece first, then over the pieces before or after it.
      this->pool_.For(pieces_, [&](int64_t piece, int) { SumPiece(piece); });
      for (int64_t piece = 0; piece < pieces_; ++piece) {
        const int64_t back = pieces_ - 1 - piece;
        for (int64_t c = 0; c < width_; ++c) {
          FirstSums(piece + 1)[c] += FirstSums(piece)[c];
          OtherSums(back)[c] += OtherSums(back + 1)[c];
        }
      }
      this->pool_.For(pieces_, [&](int64_t piece, int worker) {
        WriteQueries(piece, states_[worker], this->Out(h));
      });
    }
  }

  double Flops() const override {
    const auto& s = this->sizes_;
    return this->FlopsOfNumbers() +
           // Counts both sums over pieces and again within them, and two terms
           // a row.
           11 * static_cast<double>(s.heads * s.n * width_);
  }

 private:
  static constexpr int64_t kPiece = 64;

  // Sorts keys by descending part of the score, and queries by how many of
  // those keys give a score above zero.
  void Sort() {
    const int64_t n = this->sizes_.n;
    const T *p = this->of_queries_.data(), *q = this->of_keys_.data();
    std::iota(keys_.data(), keys_.data() + n, 0);
    std::iota(queries_.data(), queries_.data() + n, 0);
    std::sort(keys_.data(), keys_.data() + n, [q](int32_t a, int32_t b) {
      return q[a] != q[b] ? q[a] > q[b] : a < b;
    });
    std::sort(queries_.data(), queries_.data() + n, [p](int32_t a, int32_t b) {
      return p[a] != p[b] ? p[a] < p[b] : a < b;
    });
    int32_t split = 0;
    for (int64_t r = 0; r < n; ++r) {
      while (split < n && p[queries_[r]] + q[keys_[split]] > 0) ++split;
      splits_[r] = split;
    }
  }

  // Sums of the keys before piece x, and of those from piece x on.
  double* FirstSums(int64_t x) const { return first_sums_.data() + x * width_; }
  double* OtherSums(int64_t x) const { return other_sums_.data() + x * width_; }

  // Computes sums += weight (u_j, 1).
  void Add(double weight, int64_t key, double* sums) const {
    const int64_t e = this->sizes_.e;
    const T* u = this->numbers_.data() + key * e;
    for (int64_t c = 0; c < e; ++c)
      sums[c] += weight * static_cast<double>(u[c]);
    sums[e] += weight;
  }

  // Returns the difference of a key's part to the largest one.
  double Gap(int64_t place) const {
    const T* q = this->of_keys_.data();
    return static_cast<double>(q[keys_[place]]) -
           static_cast<double>(q[keys_[0]]);
  }
  double FirstWeight(int64_t place) const { return std::exp(Gap(place)); }
  double OtherWeight(int64_t place) const {
    return std::exp(this->sizes_.slope * Gap(place));
  }

  void SumPiece(int64_t piece) {
    if (piece == 0) {
      std::fill_n(FirstSums(0), width_, 0.0);
      std::fill_n(OtherSums(pieces_), width_, 0.0);
    }
    double *first = FirstSums(piece + 1), *other = OtherSums(piece);
    std::fill_n(first, width_, 0.0);
    std::fill_n(other, width_, 0.0);
    for (int64_t at = piece * kPiece; at < End(piece); ++at) {
      Add(FirstWeight(at), keys_[at], first);
      Add(OtherWeight(at), keys_[at], other);
    }
  }

  // Writes the queries whose first keys end within a piece. `states` has room
  // for the sums over the first keys up to each key of the piece, and for those
  // over the others.
  void WriteQueries(int64_t piece, double* states, T* out) const {
    const int64_t n = this->sizes_.n;
    const int64_t begin = piece * kPiece, end = End(piece);
    std::copy_n(FirstSums(piece), width_, states);
    for (int64_t at = begin; at < end; ++at) {
      double* state = states + (at - begin) * width_;
      std::copy_n(state, width_, state + width_);
      Add(FirstWeight(at), keys_[at], state + width_);
    }
    // A split at a piece's end belongs to the next piece, unless it is the
    // last.
    const int64_t last = piece == pieces_ - 1 ? end : end - 1;
    const int32_t* splits = splits_.data();
    int64_t r = std::upper_bound(splits, splits + n, last) - splits;
    double* other = OtherState(states);
    std::copy_n(OtherSums(piece + 1), width_, other);
    for (int64_t at = last; at >= begin; --at) {
      if (at < end) Add(OtherWeight(at), keys_[at], other);
      for (; r > 0 && splits[r - 1] == at; --r)
        WriteRow(queries_[r - 1], states + (at - begin) * width_, other, out);
    }
  }

  void WriteRow(int64_t query, const double* first, const double* other,
                T* out) const {
    const int64_t e = this->sizes_.e;
    const double t = static_cast<double>(this->of_queries_[query]) +
                     static_cast<double>(this->of_keys_[keys_[0]]);
    const double by = t > 0 ? 1 : 0;
    const double other_by = t > 0 ? std::exp((this->sizes_.slope - 1) * t) : 1;
    const double sum = by * first[e] + other_by * other[e];
    for (int64_t c = 0; c < e; ++c)
      out[query * e + c] =
          static_cast<T>((by * first[c] + other_by * other[c]) / sum);
  }

  int64_t End(int64_t piece) const {
    return std::min((piece + 1) * kPiece, this->sizes_.n);
  }
  double* OtherState(double* states) const {
    return states + (kPiece + 1) * width_;
  }

  const int64_t pieces_, width_;
  Buffer<int32_t> keys_, queries_, splits_;
  Buffer<double> first_sums_, other_sums_;
  PerThread<double> states_;
};

std::string WhyNotGathered(const Problem& problem) {
  return problem.HasInput("edges")
             ? ""
             : "only for graphs with edges, not for the complete graph";
}

std::string WhyNotSorted(const Problem& problem) {
  const GraphSizes sizes(problem);
  if (sizes.convolution || sizes.has_edges)
    return "only for attention on the complete graph, where the scores above "
           "zero are those of the first sorted keys";
  return sizes.slope > 1 ? "only for a slope of at most one" : "";
}

}  // namespace

std::vector<Implementation> GraphAttentionImplementations() {
  return CpuTable("graph_attention",
                  {{.id = "dense",
                    .what = "all weights in a matrix, a GEMM (Eigen)",
                    .source = "Transformers II",
                    .time = {"O(n^2 e)", "n^2"},
                    .memory = {"O(n^2)", "n^2"},
                    .sums = DirectSums,
                    .prepare = PrepareFor<Dense>},
                   {.id = "gathered",
                    .what = "the keys of each query one after another",
                    .source = "Velickovic et al. 2018",
                    .time = {"O(n D e + (n + m) e)", "n"},
                    .memory = {"O(n e + m)", "n"},
                    .sums = DirectSums,
                    .why_not = WhyNotGathered,
                    .prepare = PrepareFor<Gathered>},
                   {.id = "sorted",
                    .what = "keys sorted by their part of the score, with "
                            "prefix and suffix sums",
                    .source = "this project",
                    .time = {"O(n (log n + D e))", "n log n"},
                    .memory = {"O(n e)", "n"},
                    .sums = DirectSums,
                    .why_not = WhyNotSorted,
                    .prepare = PrepareFor<Sorted>}});
}

}  // namespace subquad
