// The steps around the Toeplitz products of kernelized attention: features by
// columns before them, and after them the queries that transforms cannot
// compute accurately.
#pragma once

#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/kernelized/shape.h"
#include "reference/contract/kernelized_rpe_attention.h"

namespace subquad {

// Stores the features of all keys except padding and of all queries, feature by
// feature: [f, n_k] and [f, n_q]. Keys are at the scale of the largest, each
// query at its own.
template <typename T>
class FeatureColumns {
 public:
  FeatureColumns(const KernelizedShape& shape, Layout& layout);
  void Compute(ThreadPool& pool, const HeadTensors<T>& head);

  const T* Key(int64_t a) const { return keys_.data() + a * shape_.n_k; }
  const T* Query(int64_t a) const { return queries_.data() + a * shape_.n_q; }
  // Returns the exponent of query i's own scale.
  T Top(int64_t i) const { return tops_[i]; }

 private:
  static constexpr int64_t kChunk = 128;
  struct Work {
    Work(Cut<T>& cut, const KernelizedShape& shape)
        : mantissa(cut(kChunk * shape.f)),
          exponent(cut(kChunk * shape.f)),
          largest(cut(shape.f)),
          scratch(cut(FeatureRows<T>(shape.map).ScratchSize(kChunk))) {}
    T *mantissa, *exponent;
    T* largest;  // exponents of this worker's keys
    T* scratch;
  };
  Work WorkOf(int worker) const {
    return Cut<T>::template Make<Work>(work_[worker], shape_);
  }

  const KernelizedShape shape_;
  const FeatureRows<T> features_;
  Buffer<T> keys_, queries_, tops_, live_;
  PerThread<T> work_;
};

// Returns the lengths of the circulant embedding.
std::vector<int64_t> EmbeddingLengths(const KernelizedShape& shape);

// Computes queries directly from the definition, a chunk of keys at a time: by
// GEMM if its features are of comparable size, else pair by pair, each pair at
// a scale of its own, so that nothing under- or overflows unnecessarily.
template <typename T>
class DirectRows {
 public:
  static constexpr int64_t kQueries = 64;  // of one call

  explicit DirectRows(const KernelizedShape& shape)
      : shape_(shape), features_(shape.map) {}
  static int64_t WorkSize(const KernelizedShape& shape);
  // Writes out[rows[x]] for x < count <= kQueries.
  void Compute(const HeadTensors<T>& head, const int64_t* rows, int64_t count,
               T* work) const;

 private:
  static constexpr int64_t kKeys = 128;  // at a time
  // The largest product of a pair is within 2^-kRange of its scale.
  static constexpr T kRange = 40;

  static constexpr T kNothing = 4 * kNoExponent<T>;

  // The arrays of one worker.
  struct Work {
    Work(Cut<T>& cut, const KernelizedShape& shape);
    T *k_mantissa, *k_exponent, *k_values;  // [kKeys, f]
    T* k_scale;                             // [f], of k_values
    T *q_mantissa, *q_exponent, *q_values;  // [kQueries, f]
    T *weights, *exponents;                 // [kQueries, kKeys]
    T *sums, *parts;                        // [kQueries, e]
    T *q_scale, *totals, *tops;             // [kQueries]
    T* scratch;                             // of FeatureRows
  };
  // The keys first .. first + count - 1.
  struct Chunk {
    int64_t first, count;
    bool one_scale;  // set by OneScale
    bool zeros;      // some feature is zero
  };

  Chunk ReadKeys(const HeadTensors<T>& head, int64_t first,
                 const Work& work) const;
  bool OneScale(int64_t keys, bool* zeros, const Work& work) const;
  void ScaleQueries(int64_t queries, const Chunk& chunk,
                    const Work& work) const;
  void Products(int64_t x, int64_t visible, const Work& work) const;
  T AddBias(int64_t x, int64_t row, const T* bias, T common, int64_t first,
            int64_t visible, const Work& work) const;
  void Rescale(int64_t x, T top, int64_t visible, int64_t keys,
               const Work& work) const;
  void AddValues(const T* values, int64_t queries, int64_t keys,
                 const Work& work) const;

  const KernelizedShape shape_;
  const FeatureRows<T> features_;
};

// Recomputes queries whose normaliser the transforms may have lost. Every
// element of a channel comes back with an error of at most
//   F u |c|_2 |phi_a(k)|_2,   F = TransformFactor(shape),
// so that a query's normaliser D is off by at most
//   E = F u |c|_2 sum_a |phi_a(q)| |phi_a(k)|_2.
// Queries with |D| <= kLostFactor E as computed are computed directly instead,
// in O(n (f + e)) each. Ordinary data has no such queries.
double TransformFactor(const KernelizedShape& shape);

template <typename T>
class LostRows {
 public:
  LostRows(const KernelizedShape& shape, Layout& layout);
  // `roundoff` is that of the transforms.
  template <typename N>
  void Repair(ThreadPool& pool, const HeadTensors<T>& head,
              const FeatureColumns<T>& features, double weight_norm,
              double roundoff, const N* normalisers);

 private:
  const KernelizedShape shape_;
  const DirectRows<T> direct_;
  Buffer<T> errors_, norms_;
  PerThread<T> work_;
  Buffer<int64_t> rows_;
};

extern template class FeatureColumns<float>;
extern template class FeatureColumns<double>;

}  // namespace subquad
