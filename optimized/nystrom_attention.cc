// nystrom_attention: out = F Z (S v), softmax attention through landmarks
// (NPRF's comparison; Xiong et al. 2021)
//
//   dense        F Z S as a matrix [n, n] in memory, times v, by GEMMs:
//                O(n^2 (segments + e)).
//   associative  S v first, as attention of the landmarks to all keys, and then
//                attention of all queries to the landmarks with the values Z
//                (S v); neither F nor S is stored (softmax_tiles.h):
//                O(n segments (d + e) + iterations segments^3).
//
// Both compute the landmarks and Z, segments x segments, in the same way.
#include <algorithm>
#include <cmath>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/reduced_keys.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

struct NystromSizes {
  explicit NystromSizes(const Problem& problem)
      : heads(problem.heads),
        n(problem.Dim("n")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        segments(problem.Dim("segments")),
        iterations(problem.params.Integer("iterations")) {}
  int64_t heads, n, d, e, segments, iterations;
};

// Computes the landmarks of a head, and Z, for both algorithms.
template <typename T>
class Nystrom : public Prepared {
 public:
  Nystrom(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        pool_(layout),
        queries_(layout, sizes_.segments * sizes_.d),
        keys_(layout, sizes_.segments * sizes_.d),
        z_(layout, sizes_.segments * sizes_.segments),
        matrix_(layout, sizes_.segments * sizes_.segments),
        az_(layout, sizes_.segments * sizes_.segments),
        factor_(layout, sizes_.segments * sizes_.segments),
        next_(layout, sizes_.segments * sizes_.segments),
        parts_(layout, WholeLines<T>(sizes_.d)) {}

 protected:
  const T* Input(const char* name, int64_t head) const {
    return arrays_.In<T>(name).Head(head);
  }
  T* Out(int64_t head) const { return arrays_.Out<T>("out").Head(head); }

  double FlopsOfInverse() const {
    const auto s = static_cast<double>(sizes_.segments);
    return static_cast<double>(sizes_.heads) *
           (2 * s * s * static_cast<double>(sizes_.d) +
            8 * s * s * s * static_cast<double>(sizes_.iterations) +
            2 * static_cast<double>(sizes_.n * sizes_.d));
  }

  void MakeLandmarks(int64_t head) {
    const auto& s = sizes_;
    const int64_t length = s.n / s.segments;
    pool_.For(s.segments, [&](int64_t segment, int worker) {
      for (const bool queries : {true, false})
        WriteMean(Input(queries ? "q" : "k", head) + segment * length * s.d,
                  length, parts_[worker],
                  (queries ? queries_ : keys_).data() + segment * s.d);
    });
    WriteWeights(queries_.data(), s.segments, keys_.data(), s.segments,
                 matrix_.data());
    Invert();
  }

  // Computes weights [rows, count] = softmax(scale queries keys^T).
  void WriteWeights(const T* queries, int64_t rows, const T* keys,
                    int64_t count, T* weights) {
    constexpr int64_t kRowBlock = 128;
    const int64_t d = sizes_.d;
    pool_.ForRows(rows, kRowBlock, [&](int64_t first, int64_t size, int) {
      T* to = weights + first * count;
      Multiply(scale_, RowsOf(queries + first * d, size, d),
               RowsOf(keys, count, d).transpose(), RowsOf(to, size, count));
      for (int64_t i = 0; i < size; ++i) {
        T* row = to + i * count;
        const T sum = ExponentiateRow<T>(row, count, nullptr);
        for (int64_t j = 0; j < count; ++j) row[j] /= sum;
      }
    });
  }

  const NystromSizes sizes_;
  const T scale_;
  const Arrays arrays_;
  ThreadPool pool_;
  Buffer<T> queries_, keys_, z_;

 private:
  auto Square(const Buffer<T>& buffer) const {
    return RowsOf(buffer.data(), sizes_.segments, sizes_.segments);
  }
  void Product(const Buffer<T>& a, const Buffer<T>& b, const Buffer<T>& out) {
    Multiply(T{1}, Square(a), Square(b), Square(out));
  }

  // Computes m = number I - m.
  void TakeFrom(T number, const Buffer<T>& m) const {
    const int64_t size = sizes_.segments;
    for (int64_t x = 0; x < size * size; ++x) m[x] = -m[x];
    for (int64_t i = 0; i < size; ++i) m[i * (size + 1)] += number;
  }

  // Averages in parts, so that a long mean is as accurate as a short one.
  void WriteMean(const T* rows, int64_t length, T* part, T* mean) const {
    constexpr int64_t kPart = 16;
    const int64_t d = sizes_.d;
    std::fill_n(mean, d, T{0});
    for (int64_t first = 0; first < length; first += kPart) {
      std::fill_n(part, d, T{0});
      for (int64_t r = first; r < std::min(first + kPart, length); ++r)
        for (int64_t a = 0; a < d; ++a) part[a] += rows[r * d + a];
      for (int64_t a = 0; a < d; ++a) mean[a] += part[a];
    }
    for (int64_t a = 0; a < d; ++a) mean[a] /= static_cast<T>(length);
  }

  void Invert() {
    const int64_t size = sizes_.segments;
    T rows = 0, columns = 0;
    for (int64_t i = 0; i < size; ++i) {
      T row = 0, column = 0;
      for (int64_t j = 0; j < size; ++j) {
        row += matrix_[i * size + j];  // weights are positive
        column += matrix_[j * size + i];
      }
      rows = std::max(rows, row);
      columns = std::max(columns, column);
    }
    for (int64_t i = 0; i < size; ++i)
      for (int64_t j = 0; j < size; ++j)
        z_[i * size + j] = matrix_[j * size + i] / (rows * columns);
    for (int64_t t = 0; t < sizes_.iterations; ++t) {
      Product(matrix_, z_, az_);
      std::copy_n(az_.data(), size * size, factor_.data());
      TakeFrom(7, factor_);
      Product(az_, factor_, next_);
      TakeFrom(15, next_);
      Product(az_, next_, factor_);
      TakeFrom(13, factor_);
      Product(z_, factor_, next_);
      for (int64_t x = 0; x < size * size; ++x) z_[x] = next_[x] / 4;
    }
  }

  Buffer<T> matrix_, az_, factor_, next_;
  PerThread<T> parts_;
};

template <typename T>
class Dense : public Nystrom<T> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Nystrom<T>(problem, arrays, layout),
        of_queries_(layout, this->sizes_.n * this->sizes_.segments),
        of_keys_(layout, this->sizes_.segments * this->sizes_.n),
        weights_(layout, this->sizes_.n * this->sizes_.n),
        mixed_(layout, this->sizes_.n * this->sizes_.segments) {}

  void Run() override {
    const auto& s = this->sizes_;
    constexpr int64_t kRowBlock = 128;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->MakeLandmarks(h);
      this->WriteWeights(this->Input("q", h), s.n, this->keys_.data(),
                         s.segments, of_queries_.data());
      this->WriteWeights(this->queries_.data(), s.segments, this->Input("k", h),
                         s.n, of_keys_.data());
      this->pool_.For(
          (s.n + kRowBlock - 1) / kRowBlock, [&](int64_t block, int) {
            const int64_t first = block * kRowBlock;
            const int64_t rows = std::min(kRowBlock, s.n - first);
            T* mixed = mixed_.data() + first * s.segments;
            T* weights = weights_.data() + first * s.n;
            Multiply(T{1},
                     RowsOf<const T>(of_queries_.data() + first * s.segments,
                                     rows, s.segments),
                     RowsOf<const T>(this->z_.data(), s.segments, s.segments),
                     RowsOf(mixed, rows, s.segments));
            Multiply(T{1}, RowsOf<const T>(mixed, rows, s.segments),
                     RowsOf<const T>(of_keys_.data(), s.segments, s.n),
                     RowsOf(weights, rows, s.n));
            Multiply(T{1}, RowsOf<const T>(weights, rows, s.n),
                     RowsOf(this->Input("v", h), s.n, s.e),
                     RowsOf(this->Out(h) + first * s.e, rows, s.e));
          });
    }
  }

  double Flops() const override {
    const auto& s = this->sizes_;
    const auto n = static_cast<double>(s.n);
    const auto segments = static_cast<double>(s.segments);
    return this->FlopsOfInverse() +
           2 * static_cast<double>(s.heads) * n *
               (segments * (2 * static_cast<double>(s.d) + segments) +
                n * (segments + static_cast<double>(s.e)));
  }

 private:
  Buffer<T> of_queries_, of_keys_, weights_, mixed_;
};

template <typename T>
class Associative : public Nystrom<T> {
 public:
  Associative(const Problem& problem, const Arrays& arrays, Layout& layout)
      : Nystrom<T>(problem, arrays, layout),
        landmarks_(layout, AttentionSizes{this->sizes_.segments, this->sizes_.n,
                                          this->sizes_.d, this->sizes_.e}),
        all_(layout, AttentionSizes{this->sizes_.n, this->sizes_.segments,
                                    this->sizes_.d, this->sizes_.e}),
        values_(layout, this->sizes_.segments * this->sizes_.e),
        mixed_(layout, this->sizes_.segments * this->sizes_.e) {}

  void Run() override {
    const auto& s = this->sizes_;
    for (int64_t h = 0; h < s.heads; ++h) {
      this->MakeLandmarks(h);
      landmarks_.Run(this->pool_, this->scale_, this->queries_.data(),
                     this->Input("k", h), this->Input("v", h), values_.data());
      Multiply(T{1}, RowsOf<const T>(this->z_.data(), s.segments, s.segments),
               RowsOf<const T>(values_.data(), s.segments, s.e),
               RowsOf(mixed_.data(), s.segments, s.e));
      all_.Run(this->pool_, this->scale_, this->Input("q", h),
               this->keys_.data(), mixed_.data(), this->Out(h));
    }
  }

  double Flops() const override {
    const auto& s = this->sizes_;
    const auto segments = static_cast<double>(s.segments);
    return this->FlopsOfInverse() +
           static_cast<double>(s.heads) * segments *
               (4 * static_cast<double>(s.n) * static_cast<double>(s.d + s.e) +
                2 * segments * static_cast<double>(s.e));
  }

 private:
  TiledToReduced<T> landmarks_, all_;
  Buffer<T> values_, mixed_;  // S v, Z (S v)
};

}  // namespace

std::vector<Implementation> NystromAttentionImplementations() {
  return CpuTable(
      "nystrom_attention",
      {{.id = "dense",
        .what = "F Z S in memory, times v, by GEMMs (Eigen)",
        .source = "Xiong et al. 2021",
        .time = {"O(n^2 (segments + e))", "n^2"},
        .memory = {"O(n^2)", "n^2"},
        .sums = DirectSums,
        .prepare = PrepareFor<Dense>},
       {.id = "associative",
        .what = "landmarks attend to all keys, all queries to the landmarks",
        .source = "Xiong et al. 2021",
        .time = {"O(n segments (d + e) + segments^3)", "n"},
        .memory = {"O(segments (d + e + segments))", "1"},
        .sums = DirectSums,
        .prepare = PrepareFor<Associative>}});
}

}  // namespace subquad
