// Kernelized attention with a relative bias by Toeplitz products (NPRF
// algorithm 1): every product of a key feature and a value column is a channel,
// and the bias mixes each channel along the sequence.
#pragma once

#include <memory>
#include <vector>

#include "optimized/buffer.h"
#include "optimized/circulant_fft.h"
#include "optimized/column_fft.h"
#include "optimized/kernelized.h"

namespace subquad {

// Features of all keys and of all queries, feature by feature: [f, n_k] and
// [f, n_q], keys at the scale of the largest, each query at one of its own.
template <typename T>
class FeatureColumns {
 public:
  FeatureColumns(const KernelizedShape& shape, int threads);
  static double WorkNumbers(const KernelizedShape& shape, int threads);
  void Compute(ThreadPool& pool, const HeadTensors<T>& head);

  const T* Key(int64_t a) const { return keys_.data() + a * shape_.n_k; }
  const T* Query(int64_t a) const { return queries_.data() + a * shape_.n_q; }

 private:
  static constexpr int64_t kChunk = 128;
  static int64_t WorkSize(const KernelizedShape& shape) {
    return (2 * kChunk + 1) * shape.f +
           FeatureRows<T>(shape.map).ScratchSize(kChunk);
  }

  const KernelizedShape shape_;
  const FeatureRows<T> features_;
  Buffer<T> keys_, queries_, live_, work_;
};

// Queries straight from the definition, pair by pair, each pair at a scale of
// its own: nothing under- or overflows that need not. For a few rows.
template <typename T>
class DirectRows {
 public:
  static constexpr int64_t kQueries = 16;  // of one call

  explicit DirectRows(const KernelizedShape& shape)
      : shape_(shape), features_(shape.map) {}
  static int64_t WorkSize(const KernelizedShape& shape);
  // Writes out[rows[x]] for x < count <= kQueries.
  void Compute(const HeadTensors<T>& head, const int64_t* rows, int64_t count,
               T* work) const;

 private:
  static constexpr int64_t kKeys = 128;  // features at a time

  const KernelizedShape shape_;
  const FeatureRows<T> features_;
};

// What to do about queries whose normaliser the transforms may have lost. Every
// element of a channel comes back with an error of at most
//   F u |c|_2 |phi_a(k)|_2,   F = TransformFactor(shape),
// so that a query's normaliser D is off by at most
//   E = F u |c|_2 sum_a |phi_a(q)| |phi_a(k)|_2.
// Queries with |D| <= kLostFactor E as computed are computed directly instead,
// in O(n (f + e)) each. With ordinary numbers there are none of them.
inline constexpr double kLostFactor = 4;
double TransformFactor(const KernelizedShape& shape);

template <typename T>
class LostRows {
 public:
  LostRows(const KernelizedShape& shape, int threads);
  static double WorkBytes(const KernelizedShape& shape, int threads);
  // roundoff: of the transforms.
  void Repair(ThreadPool& pool, const HeadTensors<T>& head,
              const FeatureColumns<T>& features, double weight_norm,
              double roundoff, const T* normalisers);

 private:
  const KernelizedShape shape_;
  const DirectRows<T> direct_;
  Buffer<T> errors_, norms_, work_;
  Buffer<int64_t> rows_;
};

// out[i, :] = sum_j c(j - i) in[j, :] for blocks of columns, c = exp(bias)
// relative to its largest seen entry, zero where nothing is seen. W is the type
// of the transforms.
template <typename W>
class LagProduct {
 public:
  explicit LagProduct(const KernelizedShape& shape);

  int64_t columns() const { return columns_; }  // of a block
  int64_t SpectrumSize() const;
  int64_t ScratchSize() const;
  double PlanBytes() const;
  double BlockFlops() const;

  // Returns the 2-norm of c.
  template <typename T>
  double Spectrum(const T* bias, W* spectrum, W* scratch) const;

  // fill(row, count, rows) and take(row, count, rows) as in column_fft.h.
  template <typename Fill, typename Take>
  void Run(const W* spectrum, Fill& fill, Take& take, W* scratch) const;

 private:
  const KernelizedShape shape_;
  int64_t columns_;
  std::unique_ptr<ToeplitzColumns<W>> line_;  // a sequence
  std::unique_ptr<CirculantFft<W>> image_;
};

// Lengths of the circulant embedding.
std::vector<int64_t> EmbeddingLengths(const KernelizedShape& shape);

// c = exp(bias) relative to its largest entry that some query sees; zero where
// causality hides it. Returns the 2-norm.
template <typename T, typename W>
double BiasWeights(const KernelizedShape& shape, const T* bias, W* weights);

// Algorithm 1 as printed: all f (e + 1) channels at once.
template <typename T>
class FftKernelized {
 public:
  FftKernelized(const KernelizedShape& shape, int threads);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  static Cost CostOf(const KernelizedShape& shape, int threads);

 private:
  const KernelizedShape shape_;
  const std::vector<int64_t> lengths_;
  const CirculantFft<T> fft_;
  FeatureColumns<T> features_;
  LostRows<T> lost_;
  Buffer<T> weights_, spectrum_, channels_, normalisers_;
};

// The same sums, a block of channels at a time.
template <typename T, typename W>
class StreamedFft {
 public:
  StreamedFft(const KernelizedShape& shape, int threads);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  static Cost CostOf(const KernelizedShape& shape, int threads);

 private:
  const KernelizedShape shape_;
  const LagProduct<W> product_;
  FeatureColumns<T> features_;
  LostRows<T> lost_;
  Buffer<T> normalisers_;
  Buffer<W> spectrum_, scratch_;
};

}  // namespace subquad
