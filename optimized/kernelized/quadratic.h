// The quadratic algorithms of kernelized attention, with or without a bias:
// `dense`, the baseline with the weights in memory, and `tiled`, the same sums
// without any array of n^2 elements.
//
// Both compute the features of all keys and queries first (O(n f) memory) and
// then process the queries in runs: a run continues as long as the visible keys
// fit one scale (feature_rows.h), and usually there is only one run. No bit of
// a query's result depends on keys masked from it.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/base/lanes.h"
#include "optimized/kernelized/shape.h"

namespace subquad {

// Stores exp(bias) as mantissas and exponents, by pairs of positions; zero
// outside of windows. A window or a mask of pairs needs it without a bias too:
// a key that they hide from a query must not determine the query's scale.
template <typename T>
class BiasByRow {
 public:
  BiasByRow(const KernelizedShape& shape, Layout& layout);

  bool empty() const { return mantissa_.size() == 0; }
  void Split(const T* bias) const;  // null: zero everywhere
  // Returns how far ahead of query 0 the last of its visible entries is.
  int64_t Horizon() const;

  // Calls visit(j, count, mantissas, exponents) for contiguous runs of the keys
  // [first, last) that query i sees.
  template <typename Visit>
  void ForRow(int64_t i, int64_t first, int64_t last,
              const Visit& visit) const {
    const int64_t width = shape_.is_image() ? shape_.width() : shape_.n_k;
    for (int64_t j = first; j < last;) {
      const int64_t end = std::min(last, (j / width + 1) * width);
      const int64_t at = shape_.BiasIndex(i, j);
      visit(j, end - j, mantissa_.data() + at, exponent_.data() + at);
      j = end;
    }
  }

 private:
  const KernelizedShape shape_;
  Buffer<T> mantissa_, exponent_;
};

// Computes the features of all keys and queries, and the runs of queries.
template <typename T>
class QuadraticFeatures {
 public:
  // With `tile`, the keys' values are stored as [tiles][f][tile]; without, as
  // [n_k][f].
  QuadraticFeatures(const KernelizedShape& shape, int64_t tile, Layout& layout);

  // Calls process(first, last) for runs of queries, all of them in order.
  template <typename Process>
  void ForRuns(ThreadPool& pool, const HeadTensors<T>& head,
               const Process& process) {
    Compute(pool, head);
    int64_t begin = 0, next_key = 0;
    for (int64_t i = 0; i < shape_.n_q; ++i) {
      for (; next_key < SeenBy(i); ++next_key) {
        const T* exponent = k_exponent_.data() + next_key * shape_.f;
        if (!scale_.Fits(exponent)) {
          if (i > begin) process(begin, i);
          begin = i;
          scale_.Raise(exponent, factor_.data());
          for (int64_t j = 0; j < next_key; ++j) StoreKey(j);
        }
        scale_.See(exponent);
        StoreKey(next_key);
      }
      T* query = q_mantissa_.data() + i * shape_.f;
      q_top_[i] =
          scale_.QueryValues(query, q_exponent_.data() + i * shape_.f, query);
    }
    process(begin, shape_.n_q);
  }

  // Query i sees no key before FirstSeenBy(i), and none from SeenBy(i) on.
  int64_t SeenBy(int64_t i) const {
    return std::clamp<int64_t>(i + horizon_ + 1, 0, keys_);
  }
  int64_t FirstSeenBy(int64_t i) const {
    return std::clamp<int64_t>(i + shape_.seen.FirstOfZero(), 0, SeenBy(i));
  }
  const T* queries() const { return q_mantissa_.data(); }  // [n_q, f]
  const T* keys() const { return k_values_.data(); }
  const BiasByRow<T>& bias() const { return bias_; }

  // Multiplies weights[0, last - first) of query i for keys [first, last) by
  // the factors that scaling and bias left out, and by its mask of pairs; `top`
  // is TopExponent(i).
  void ApplyBias(const HeadTensors<T>& head, int64_t i, int64_t first,
                 int64_t last, T top, T* weights) const {
    bias_.ForRow(i, first, last,
                 [&](int64_t j, int64_t count, const T* m, const T* k) {
                   const T* key = k_row_.data() + j;
                   T* w = weights + (j - first);
                   for (int64_t x = 0; x < count; ++x)
                     w[x] *= m[x] * PowerOfTwo(k[x] + key[x] - top);
                 });
    if (!head.has_pair_mask()) return;
    for (int64_t j = first; j < last; ++j)
      if (head.Hides(i, j)) weights[j - first] = 0;
  }
  // Writes the output of query i from its sums: of weights times values [e],
  // and of weights alone.
  void WriteRow(const HeadTensors<T>& head, int64_t i, const T* sums, T total,
                int worker) const {
    if (Lost(total)) return DirectRow(head, i, worker);
    subquad::WriteRow(shape_.normaliser, sums, total, ScaleOf(head, i),
                      shape_.e, head.out + i * shape_.e);
  }
  // Returns the scale of query i's sums. A plain normaliser does not need it.
  SumScale ScaleOf(const HeadTensors<T>& head, int64_t i) const {
    const double top = static_cast<double>(q_top_[i]);
    if (bias_.empty() || shape_.normaliser.is_plain()) return ScaleOfSums(top);
    return ScaleOfSums(top + static_cast<double>(TopExponent(head, i)),
                       CommonWeight(head.bias, shape_.BiasCount()));
  }

  // Returns the largest exponent of a key and its bias that query i sees.
  T TopExponent(const HeadTensors<T>& head, int64_t i) const {
    T top = 2 * kNoExponent<T>;
    bias_.ForRow(i, FirstSeenBy(i), SeenBy(i),
                 [&](int64_t j, int64_t count, const T*, const T* k) {
                   const T* key = k_row_.data() + j;
                   if (!head.has_pair_mask())
                     top = std::max(top, LargestSum(k, key, count));
                   else
                     for (int64_t x = 0; x < count; ++x)
                       if (!head.Hides(i, j + x))
                         top = std::max(top, k[x] + key[x]);
                 });
    return top;
  }

 private:
  static constexpr int64_t kBlock = 256;

  void Compute(ThreadPool& pool, const HeadTensors<T>& head);
  void StoreKey(int64_t j);
  // True if a query with this sum of weights has lost relevant terms. Queries
  // are scaled by the largest key, and keys and bias by the largest of both; if
  // the bias hides those, the sums may be too small.
  bool Lost(T sum) const {
    return !bias_.empty() && !(std::abs(sum) >= PowerOfTwo(T{-40}));
  }
  // Computes a query pair by pair, each pair at a scale of its own.
  void DirectRow(const HeadTensors<T>& head, int64_t i, int worker) const;
  struct Direct {
    Direct(Cut<T>& cut, const KernelizedShape& shape)
        : q_mantissa(cut(shape.f)),
          q_exponent(cut(shape.f)),
          scratch(cut(FeatureRows<T>(shape.map).ScratchSize(1))) {}
    T *q_mantissa, *q_exponent, *scratch;
  };

  const KernelizedShape shape_;
  const FeatureRows<T> features_;
  const int64_t tile_;
  int64_t horizon_ = 0;
  int64_t keys_ = 0;  // of the head, without padding
  BiasByRow<T> bias_;
  Buffer<T> k_mantissa_, k_exponent_, k_values_, k_row_;
  Buffer<T> q_mantissa_, q_exponent_, q_top_;
  Buffer<T> scale_numbers_, live_, negative_scale_, factor_;
  PerThread<T> scratch_, direct_;
  RunningKeyScale<T> scale_;
};

// Counts the flops of either algorithm for the pairs that are visible.
double QuadraticFlops(const KernelizedShape& shape);

template <typename T>
class DenseKernelized {
 public:
  DenseKernelized(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const { return QuadraticFlops(shape_); }

 private:
  static constexpr int64_t kRows = 256;
  struct Work {
    Work(Cut<T>& cut, const KernelizedShape& shape)
        : queries(cut(std::min(kRows, shape.n_q) * shape.f)),
          sums(cut(std::min(kRows, shape.n_q) * ExtendedWidth<T>(shape.e))) {}
    T *queries, *sums;
  };
  void ProcessBlock(const HeadTensors<T>& head, int64_t block, int64_t first,
                    int64_t last, int worker) const;

  const KernelizedShape shape_;
  QuadraticFeatures<T> features_;
  Buffer<T> weights_, values_;
  PerThread<T> work_;
};

template <typename T>
class TiledKernelized {
 public:
  TiledKernelized(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const { return QuadraticFlops(shape_); }

 private:
  static constexpr int64_t kLanes = kLaneCount<T>;
  static constexpr int64_t kPanel = 2 * kLanes;  // keys in registers
  static constexpr int64_t kTile = 64;           // keys in the nearest cache
  // Queries in registers, each with two vectors of sums.
  static constexpr int64_t kGroup = kVectorRegisters >= 32 ? 12 : 6;

  // Queries of one task. If the keys do not fit the second-level cache, each
  // task reads them from memory once: tasks are as large as possible while
  // every thread has four of them. No bit of a result depends on it.
  static constexpr int64_t kLeastRows = 48, kMostRows = 192;
  static_assert(kLeastRows % kGroup == 0 && kMostRows % kGroup == 0);
  static int64_t Rows(const KernelizedShape& shape, int threads) {
    if (shape.n_k < 4096) return kLeastRows;
    return std::clamp<int64_t>(shape.n_q / (4 * threads) / kGroup * kGroup,
                               kLeastRows, kMostRows);
  }
  // Returns the width of a row of values and of sums.
  static int64_t Width(const KernelizedShape& shape) {
    return WholeVectors<T>(shape.e);
  }
  struct Work {
    Work(Cut<T>& cut, const KernelizedShape& shape, int64_t rows)
        : sums(cut(rows * Width(shape))),
          totals(cut(rows * kLanes)),
          scores(cut(kGroup * kTile)),
          queries(cut(kGroup * shape.f)) {}
    T* sums;
    T* totals;  // [rows][a vector]
    T* scores;
    T* queries;
  };
  void ProcessRows(const HeadTensors<T>& head, int64_t row, int64_t first,
                   int64_t last, int worker) const;

  const KernelizedShape shape_;
  const int64_t rows_;
  QuadraticFeatures<T> features_;
  Buffer<T> values_;
  PerThread<T> work_;
};

extern template class BiasByRow<float>;
extern template class BiasByRow<double>;
extern template class QuadraticFeatures<float>;
extern template class QuadraticFeatures<double>;
extern template class DenseKernelized<float>;
extern template class DenseKernelized<double>;
extern template class TiledKernelized<float>;
extern template class TiledKernelized<double>;

}  // namespace subquad
