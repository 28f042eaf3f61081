// toeplitz_1d, karatsuba: Karatsuba's method on halves of a Toeplitz matrix,
// three products of half the size instead of four,
//
//   T v = [T1 T0] [v0]   p = T1 (v0 + v1)
//         [T2 T1] [v1]   out0 = p + (T0 - T1) v1,  out1 = p + (T2 - T1) v0
//
// down to blocks of kLeaf rows, which are multiplied directly: O(e n^1.585)
// time without a transform. It is slower than the FFTs.
//
// Error. In the 2-norm a level makes the error of a product up to 2 + sqrt(2)
// times larger, and a leaf has kLeaf roundings: 2e9 unit roundoffs at n = 2^20,
// too much for float32. So the arithmetic is float64, whose roundoff is 2^-29
// of that of float32; in addition the result is rounded once.
#include <algorithm>
#include <cmath>
#include <cstdint>

#include "optimized/base/buffer.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/toeplitz/programs_1d.h"
#include "reference/contract/toeplitz_1d.h"

namespace subquad {
namespace {

class KaratsubaProduct {
 public:
  // Columns that are multiplied together: one or two vectors.
  static constexpr int64_t kColumns = 16;
  static constexpr int64_t kLeaf = 64;

  KaratsubaProduct(int64_t n_q, int64_t n_k) {
    size_ = kLeaf;
    while (size_ < std::max(n_q, n_k)) size_ *= 2;
  }

  // Rows of the square matrix that the problem is padded to: kLeaf 2^levels.
  int64_t size() const { return size_; }
  int64_t weights() const { return 2 * size_ - 1; }

  // Counts the elements that Multiply needs in addition to its arguments: a
  // level of n rows needs n/2 rows of sums, n/2 rows of a product and n - 1
  // differences.
  int64_t WorkNumbers() const {
    int64_t numbers = 0;
    for (int64_t n = size_; n > kLeaf; n /= 2)
      numbers += n * kColumns + (n - 1);
    return numbers;
  }

  // Returns the error of an entry in units of the roundoff of float32, over
  // |w|_2 |column|_2.
  double Factor() const {
    double factor = kLeaf;
    for (int64_t n = size_; n > kLeaf; n /= 2)
      factor = (2 + std::sqrt(2.0)) * (factor + 1) + 1;
    return 1 + std::ldexp(factor, -29);
  }

  double Flops() const {
    double flops = 2.0 * kLeaf * kLeaf * kColumns;
    for (int64_t n = 2 * kLeaf; n <= size_; n *= 2)
      flops = 3 * flops + 1.5 * static_cast<double>(n * kColumns) +
              2 * static_cast<double>(n - 1);
    return flops;
  }

  // Computes out [size, kColumns] = T v, T_ij = w[j - i + size - 1].
  void Multiply(const double* w, const double* v, double* out,
                double* work) const {
    Multiply(size_, w, v, out, work);
  }

 private:
  static void Multiply(int64_t n, const double* w, const double* v, double* out,
                       double* work) {
    if (n == kLeaf) return MultiplyLeaf(w, v, out);
    const int64_t half = n / 2, count = half * kColumns;
    double* sum = work;  // sum of the halves of v
    double* product = sum + count;
    double* difference = product + count;
    double* rest = difference + n - 1;
    const double* v1 = v + count;
    // The weights of T2, T1 and T0, n - 1 values each.
    const double *w2 = w, *w1 = w + half, *w0 = w + n;

    for (int64_t x = 0; x < count; ++x) sum[x] = v[x] + v1[x];
    Multiply(half, w1, sum, product, rest);
    for (int64_t t = 0; t < n - 1; ++t) difference[t] = w0[t] - w1[t];
    Multiply(half, difference, v1, out, rest);
    for (int64_t t = 0; t < n - 1; ++t) difference[t] = w2[t] - w1[t];
    Multiply(half, difference, v, out + count, rest);
    for (int64_t x = 0; x < count; ++x) {
      out[x] += product[x];
      out[x + count] += product[x];
    }
  }

  static void MultiplyLeaf(const double* w, const double* v, double* out) {
    for (int64_t i = 0; i < kLeaf; ++i) {
      double sums[kColumns] = {};
      for (int64_t j = 0; j < kLeaf; ++j)
        for (int64_t c = 0; c < kColumns; ++c)
          sums[c] += w[j - i + kLeaf - 1] * v[j * kColumns + c];
      std::copy_n(sums, kColumns, out + i * kColumns);
    }
  }

  int64_t size_;
};

class Karatsuba : public Prepared {
 public:
  Karatsuba(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        arrays_(arrays),
        pool_(layout),
        product_(sizes_.n_q, sizes_.n_k),
        weights_(layout, sizes_.vectors.count() * product_.weights()),
        work_(layout, 2 * product_.size() * kColumns + product_.WorkNumbers()) {
  }

  void Run() override {
    const auto weights = arrays_.In<float>("weights");
    const auto values = arrays_.In<float>("values");
    const auto out = arrays_.Out<float>("out");
    pool_.For(sizes_.vectors.count(), [&](int64_t vector, int) {
      PadWeights(weights.Slice(vector), Weights(vector));
    });
    const int64_t groups = (sizes_.e + kColumns - 1) / kColumns;
    pool_.For(sizes_.heads * groups, [&](int64_t task, int worker) {
      const int64_t head = task / groups, first = task % groups * kColumns;
      const int64_t columns = std::min(kColumns, sizes_.e - first);
      double* v = work_[worker];
      double* result = v + product_.size() * kColumns;
      double* rest = result + product_.size() * kColumns;
      std::fill_n(v, product_.size() * kColumns, 0.0);
      for (int64_t j = 0; j < sizes_.seen.Of(head); ++j)
        std::copy_n(values.Head(head) + j * sizes_.e + first, columns,
                    v + j * kColumns);
      product_.Multiply(Weights(sizes_.vectors.Of(head)), v, result, rest);
      for (int64_t i = 0; i < sizes_.n_q; ++i)
        for (int64_t c = 0; c < columns; ++c)
          out.Head(head)[i * sizes_.e + first + c] =
              static_cast<float>(result[i * kColumns + c]);
    });
  }

  double Flops() const override {
    const int64_t groups = (sizes_.e + kColumns - 1) / kColumns;
    return static_cast<double>(sizes_.heads * groups) * product_.Flops();
  }

 private:
  static constexpr int64_t kColumns = KaratsubaProduct::kColumns;

  double* Weights(int64_t vector) const {
    return weights_.data() + vector * product_.weights();
  }

  // Puts zeros where the padded matrix exceeds the problem, or the mask hides
  // keys.
  void PadWeights(const float* weights, double* padded) const {
    std::fill_n(padded, product_.weights(), 0.0);
    std::copy_n(weights, sizes_.seen.Offsets(),
                padded + product_.size() - sizes_.n_q);
  }

  const Toeplitz1dSizes sizes_;
  const Arrays arrays_;
  ThreadPool pool_;
  const KaratsubaProduct product_;
  Buffer<double> weights_;  // [vectors, 2 size - 1]
  PerThread<double> work_;
};

}  // namespace

std::unique_ptr<Prepared> PrepareKaratsuba1d(const Problem& problem,
                                             const Arrays& arrays,
                                             Layout& layout) {
  return std::make_unique<Karatsuba>(problem, arrays, layout);
}

RowBound Karatsuba1dBound(const Problem& problem, const Inputs& inputs) {
  const Toeplitz1dSizes sizes(problem);
  return Toeplitz1dBound(problem, inputs,
                         KaratsubaProduct(sizes.n_q, sizes.n_k).Factor());
}

}  // namespace subquad
