// dynamic_convolution: out_i = sum_t softmax(x_i phi_k)_t (x phi_v)_{i+t-c}
// (Transformers II, "Attention as a hypernetwork"; Wu et al. 2019)
//
//   dense   all weights in a matrix [n, n], zero but in the band, and a GEMM
//           with the values: O(n^2 e).
//   direct  a row's weights times the K values they belong to: O(n (D K + D e +
//   K e)).
//
// Both begin with the values x phi_v and the logits x phi_k, whose terms are
// added in order: Eigen's products add even and odd terms separately, and were
// 17 times less accurate than the plain program where signs alternate.
#include <algorithm>
#include <memory>

#include "optimized/base/lanes.h"
#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/softmax_tiles.h"

namespace subquad {
namespace {

// The number of rows per task.
constexpr int64_t kRowBlock = 128;

// Computes the values, and the weights of a block of rows, for both algorithms.
template <typename T>
class DynamicConvolution : public Prepared {
 public:
  DynamicConvolution(const Problem& problem, const Arrays& arrays,
                     Layout& layout)
      : heads_(problem.heads),
        n_(problem.Dim("n")),
        d_(problem.Dim("D")),
        taps_(problem.Dim("K")),
        e_(problem.Dim("e")),
        before_(problem.params.Flag("causal") ? taps_ - 1 : taps_ / 2),
        arrays_(arrays),
        pool_(layout),
        values_(layout, n_ * e_),
        weights_(layout, WholeLines<T>(kRowBlock * taps_)) {}

  void Run() final {
    const auto x = arrays_.In<T>("x");
    const auto phi_k = arrays_.In<T>("phi_k"), phi_v = arrays_.In<T>("phi_v");
    const auto out = arrays_.Out<T>("out");
    for (int64_t h = 0; h < heads_; ++h) {
      pool_.ForRows(n_, kRowBlock, [&](int64_t first, int64_t rows, int) {
        MultiplyInOrder(x.Head(h) + first * d_, d_, rows, d_, phi_v.Head(h), e_,
                        values_.data() + first * e_);
      });
      pool_.ForRows(n_, kRowBlock,
                    [&](int64_t first, int64_t rows, int worker) {
                      T* weights = weights_[worker];
                      MultiplyInOrder(x.Head(h) + first * d_, d_, rows, d_,
                                      phi_k.Head(h), taps_, weights);
                      for (int64_t r = 0; r < rows; ++r) {
                        T* w = weights + r * taps_;
                        const T sum = ExponentiateRow<T>(w, taps_, nullptr);
                        for (int64_t t = 0; t < taps_; ++t) w[t] /= sum;
                      }
                      Mix(first, rows, weights, out.Head(h) + first * e_);
                    });
    }
  }

 protected:
  // Computes out [rows, e], from row `first` on, by their weights [rows, K].
  virtual void Mix(int64_t first, int64_t rows, const T* weights, T* out) = 0;

  // Delimits the places t of row i that are in the sequence: from First(i) to
  // End(i).
  int64_t First(int64_t i) const { return std::max<int64_t>(0, before_ - i); }
  int64_t End(int64_t i) const { return std::min(taps_, n_ - i + before_); }

  double FlopsOfProducts() const {
    return 2.0 * static_cast<double>(heads_ * n_ * d_ * (taps_ + e_));
  }

  const int64_t heads_, n_, d_, taps_, e_, before_;

 private:
  const Arrays arrays_;
  ThreadPool pool_;

 protected:
  Buffer<T> values_;

 private:
  PerThread<T> weights_;
};

template <typename T>
class Dense : public DynamicConvolution<T> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DynamicConvolution<T>(problem, arrays, layout),
        matrix_(layout, this->n_ * this->n_) {}

  double Flops() const override {
    return this->FlopsOfProducts() +
           2.0 * static_cast<double>(this->heads_ * this->e_) *
               static_cast<double>(this->n_) * static_cast<double>(this->n_);
  }

 private:
  void Mix(int64_t first, int64_t rows, const T* weights, T* out) override {
    const int64_t n = this->n_;
    T* matrix = matrix_.data() + first * n;
    std::fill_n(matrix, rows * n, T{0});
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = first + r;
      for (int64_t t = this->First(i); t < this->End(i); ++t)
        matrix[r * n + i + t - this->before_] = weights[r * this->taps_ + t];
    }
    Multiply(T{1}, RowsOf<const T>(matrix, rows, n),
             RowsOf<const T>(this->values_.data(), n, this->e_),
             RowsOf(out, rows, this->e_));
  }

  Buffer<T> matrix_;
};

template <typename T>
class Direct : public DynamicConvolution<T> {
 public:
  using DynamicConvolution<T>::DynamicConvolution;

  double Flops() const override {
    return this->FlopsOfProducts() +
           2.0 * static_cast<double>(this->heads_ * this->n_ * this->taps_ *
                                     this->e_);
  }

 private:
  void Mix(int64_t first, int64_t rows, const T* weights, T* out) override {
    const int64_t e = this->e_;
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = first + r, begin = this->First(i);
      const T* w = weights + r * this->taps_ + begin;
      const T* u = this->values_.data() + (i + begin - this->before_) * e;
      const int64_t count = this->End(i) - begin;
      int64_t c = 0;
      for (; c + 4 * kLaneCount<T> <= e; c += 4 * kLaneCount<T>)
        Sum<4>(w, u + c, count, out + r * e + c);
      for (; c + kLaneCount<T> <= e; c += kLaneCount<T>)
        Sum<1>(w, u + c, count, out + r * e + c);
      for (; c < e; ++c) {
        T sum = 0;
        for (int64_t t = 0; t < count; ++t) sum += w[t] * u[t * e + c];
        out[r * e + c] = sum;
      }
    }
  }

  // Computes out = sum_t w[t] u[t], for kVectors whole vectors of a row.
  template <int kVectors>
  void Sum(const T* w, const T* u, int64_t count, T* out) const {
    Lanes<T> sums[kVectors] = {};
    for (int64_t t = 0; t < count; ++t)
      for (int v = 0; v < kVectors; ++v)
        sums[v] += w[t] * LoadLanes(u + t * this->e_ + v * kLaneCount<T>);
    for (int v = 0; v < kVectors; ++v)
      StoreLanes(sums[v], out + v * kLaneCount<T>);
  }
};

}  // namespace

std::vector<Implementation> DynamicConvolutionImplementations() {
  return CpuTable("dynamic_convolution",
                  {{.id = "dense",
                    .what = "all weights in a matrix, a GEMM (Eigen)",
                    .source = "Transformers II",
                    .time = {"O(n^2 e)", "n^2"},
                    .memory = {"O(n^2)", "n^2"},
                    .sums = DirectSums,
                    .prepare = PrepareFor<Dense>},
                   {.id = "direct",
                    .what = "the weights of a row times their values",
                    .source = "Transformers II; Wu et al. 2019",
                    .time = {"O(n (D K + D e + K e))", "n"},
                    .memory = {"O(n e)", "n"},
                    .sums = DirectSums,
                    .prepare = PrepareFor<Direct>}});
}

}  // namespace subquad
