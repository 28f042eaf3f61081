#include "optimized/kernelized/columns.h"

#include <cmath>

#include "optimized/base/product.h"
#include "optimized/kernelized/quadratic.h"
#include "optimized/toeplitz/fft_lengths.h"

namespace subquad {
std::vector<int64_t> EmbeddingLengths(const KernelizedShape& shape) {
  if (shape.is_image()) return ImageFftLengths(shape.height(), shape.width());
  return {GoodFftLength(shape.n_q + shape.n_k - 1)};
}

// ---- features -------------------------------------------------------

template <typename T>
FeatureColumns<T>::FeatureColumns(const KernelizedShape& shape, Layout& layout)
    : shape_(shape),
      features_(shape.map),
      keys_(layout, shape.f * shape.n_k),
      queries_(layout, shape.f * shape.n_q),
      tops_(layout, shape.n_q),
      live_(layout, shape.f),
      work_(layout, Cut<T>::template Size<Work>(shape)) {}

template <typename T>
void FeatureColumns<T>::Compute(ThreadPool& pool, const HeadTensors<T>& head) {
  const int64_t f = shape_.f, d = shape_.d;
  const int64_t k_chunks = (head.keys + kChunk - 1) / kChunk;
  const int64_t q_chunks = (shape_.n_q + kChunk - 1) / kChunk;
  const auto compute = [&](bool key, int64_t chunk, const Work& work) {
    const int64_t first = chunk * kChunk;
    const int64_t count =
        std::min(kChunk, (key ? head.keys : shape_.n_q) - first);
    features_.Compute((key ? head.k : head.q) + first * d, count, head.omega,
                      work.scratch, work.mantissa, work.exponent);
    if (key) head.HideKeys(first, count, f, work.mantissa, work.exponent);
    return count;
  };
  // Finds the largest exponents first: one maximum per worker, which does not
  // depend on the order.
  for (int worker = 0; worker < pool.threads(); ++worker)
    std::fill_n(WorkOf(worker).largest, f, kNoExponent<T>);
  pool.For(k_chunks, [&](int64_t chunk, int worker) {
    const Work work = WorkOf(worker);
    const int64_t count = compute(true, chunk, work);
    RunningKeyScale<T> scale(nullptr, work.largest, f);
    for (int64_t j = 0; j < count; ++j) scale.See(work.exponent + j * f);
  });
  RunningKeyScale<T> all(live_.data(), live_.data(), f);
  std::fill_n(live_.data(), f, kNoExponent<T>);
  for (int worker = 0; worker < pool.threads(); ++worker)
    all.See(WorkOf(worker).largest);
  pool.For(k_chunks + q_chunks, [&](int64_t task, int worker) {
    const Work work = WorkOf(worker);
    const bool key = task < k_chunks;
    const int64_t n = key ? shape_.n_k : shape_.n_q;
    const int64_t chunk = key ? task : task - k_chunks;
    const int64_t count = compute(key, chunk, work);
    T* values = (key ? keys_ : queries_).data() + chunk * kChunk;
    for (int64_t j = 0; j < count; ++j) {
      T* row = work.mantissa + j * f;
      const T* exponent = work.exponent + j * f;
      if (key)
        all.KeyValues(row, exponent, row);
      else
        tops_[chunk * kChunk + j] = all.QueryValues(row, exponent, row);
      for (int64_t a = 0; a < f; ++a) values[a * n + j] = row[a];
    }
  });
}

// ---- queries that the transforms cannot compute ----------------------

template <typename T>
int64_t DirectRows<T>::WorkSize(const KernelizedShape& shape) {
  return WholeLines<T>(Cut<T>::template Size<Work>(shape));
}

template <typename T>
DirectRows<T>::Work::Work(Cut<T>& cut, const KernelizedShape& shape)
    : k_mantissa(cut(kKeys * shape.f)),
      k_exponent(cut(kKeys * shape.f)),
      k_values(cut(kKeys * shape.f)),
      k_scale(cut(shape.f)),
      q_mantissa(cut(kQueries * shape.f)),
      q_exponent(cut(kQueries * shape.f)),
      q_values(cut(kQueries * shape.f)),
      weights(cut(kQueries * kKeys)),
      exponents(cut(kQueries * kKeys)),
      sums(cut(kQueries * shape.e)),
      parts(cut(kQueries * shape.e)),
      q_scale(cut(kQueries)),
      totals(cut(kQueries)),
      tops(cut(kQueries)),
      scratch(cut(FeatureRows<T>(shape.map).ScratchSize(kKeys))) {}

// Brings the keys of a chunk to one scale per feature. Returns whether nothing
// is lost by that: every nonzero feature must be within 2^-kRange of the scale,
// or within 2^(-kRange / 2) if some features are zero, because a key may then
// lack the query's largest feature.
template <typename T>
bool DirectRows<T>::OneScale(int64_t keys, bool* zeros,
                             const Work& work) const {
  const int64_t f = shape_.f;
  const T* exponents = work.k_exponent;
  T* scale = work.k_scale;
  std::copy_n(exponents, f, scale);
  for (int64_t j = 1; j < keys; ++j)
    for (int64_t a = 0; a < f; ++a)
      scale[a] = std::max(scale[a], exponents[j * f + a]);
  T smallest = 0, none = 1;
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t a = 0; a < f; ++a) {
      const T exponent = exponents[j * f + a];
      const T below = exponent - scale[a];
      const bool live = exponent > kLeastExponent<T>;
      none = live ? none : T{0};
      smallest = std::min(smallest, live ? below : T{0});
      work.k_values[j * f + a] =
          work.k_mantissa[j * f + a] * PowerOfTwo(live ? below : T{0});
    }
  *zeros = none == 0;
  return smallest >= (*zeros ? -kRange / 2 : -kRange);
}

template <typename T>
typename DirectRows<T>::Chunk DirectRows<T>::ReadKeys(
    const HeadTensors<T>& head, int64_t first, const Work& work) const {
  Chunk chunk = {first, std::min(kKeys, head.keys - first), false, false};
  features_.Compute(head.k + first * shape_.d, chunk.count, head.omega,
                    work.scratch, work.k_mantissa, work.k_exponent);
  head.HideKeys(first, chunk.count, shape_.f, work.k_mantissa, work.k_exponent);
  chunk.one_scale = OneScale(chunk.count, &chunk.zeros, work);
  return chunk;
}

// Scales the queries for a chunk at one scale, up to a power of two each; that
// is kNothing for a query that would lose relevant products.
template <typename T>
void DirectRows<T>::ScaleQueries(int64_t queries, const Chunk& chunk,
                                 const Work& work) const {
  const int64_t f = shape_.f;
  for (int64_t x = 0; x < queries; ++x) {
    const T* exponent = work.q_exponent + x * f;
    const T scale = LargestSum(exponent, work.k_scale, f);
    bool fits = chunk.one_scale;
    for (int64_t a = 0; chunk.zeros && fits && a < f; ++a) {
      const T sum = exponent[a] + work.k_scale[a];
      fits = !(sum > kLeastExponent<T>) || sum >= scale - kRange / 2;
    }
    for (int64_t a = 0; a < f; ++a)
      work.q_values[x * f + a] =
          work.q_mantissa[x * f + a] *
          PowerOfTwo(exponent[a] + work.k_scale[a] - scale);
    work.q_scale[x] = fits ? scale : kNothing;
  }
}

// Computes the exponents of query x's weights and, where a GEMM might lose
// them, the weights themselves, pair by pair.
template <typename T>
void DirectRows<T>::Products(int64_t x, int64_t visible,
                             const Work& work) const {
  const int64_t f = shape_.f;
  T* weight = work.weights + x * kKeys;
  T* exponent = work.exponents + x * kKeys;
  if (work.q_scale[x] != kNothing) {
    std::fill_n(exponent, visible, work.q_scale[x]);
    return;
  }
  const T* mq = work.q_mantissa + x * f;
  const T* eq = work.q_exponent + x * f;
  for (int64_t j = 0; j < visible; ++j) {
    const T* ek = work.k_exponent + j * f;
    exponent[j] = LargestSum(eq, ek, f);
    weight[j] =
        PairProduct(mq, eq, work.k_mantissa + j * f, ek, exponent[j], f);
  }
}

// Multiplies query x's weights by exp(bias). Returns the largest exponent so
// far.
template <typename T>
T DirectRows<T>::AddBias(int64_t x, int64_t row, const T* bias, T common,
                         int64_t first, int64_t visible,
                         const Work& work) const {
  T* weight = work.weights + x * kKeys;
  T* exponent = work.exponents + x * kKeys;
  T top = work.tops[x];
  for (int64_t j = 0; j < visible; ++j) {
    const int64_t at = shape_.BiasIndex(row, first + j);
    const T b = bias[at];
    // A key without a feature in common must not determine the scale, however
    // large its bias.
    const bool live = shape_.MayBeSeen(at) &&
                      b >= std::numeric_limits<T>::lowest() &&
                      exponent[j] > kLeastExponent<T> && weight[j] != 0;
    T power;
    const T c = SplitExpFast(live ? b - common : T{0}, &power);
    weight[j] = live ? weight[j] * c : T{0};
    exponent[j] = live ? exponent[j] + power : kNothing;
    top = std::max(top, exponent[j]);
  }
  return top;
}

// Brings query x's sums and weights to the scale 2^top, and adds the weights to
// its total.
template <typename T>
void DirectRows<T>::Rescale(int64_t x, T top, int64_t visible, int64_t keys,
                            const Work& work) const {
  T* weight = work.weights + x * kKeys;
  const T* exponent = work.exponents + x * kKeys;
  const T factor = PowerOfTwo(work.tops[x] - top);
  work.tops[x] = top;
  T total = 0;
  for (int64_t j = 0; j < visible; ++j) {
    weight[j] *= PowerOfTwo(exponent[j] - top);
    total += weight[j];
  }
  std::fill(weight + visible, weight + keys, T{0});
  // Adds the chunk's own sum first: rounding grows with kKeys + n / kKeys.
  work.totals[x] = work.totals[x] * factor + total;
  for (int64_t c = 0; c < shape_.e; ++c) work.sums[x * shape_.e + c] *= factor;
}

// Adds the products of the weights with the values [keys, e].
template <typename T>
void DirectRows<T>::AddValues(const T* values, int64_t queries, int64_t keys,
                              const Work& work) const {
  const int64_t e = shape_.e;
  Multiply(T{1}, RowsOf(work.weights, queries, keys, kKeys),
           RowsOf(values, keys, e), RowsOf(work.parts, queries, e));
  for (int64_t x = 0; x < queries * e; ++x) work.sums[x] += work.parts[x];
}

template <typename T>
void DirectRows<T>::Compute(const HeadTensors<T>& head, const int64_t* rows,
                            int64_t count, T* memory) const {
  const int64_t f = shape_.f, e = shape_.e;
  const Work work = Cut<T>::template Make<Work>(memory, shape_);
  std::fill_n(work.sums, count * e, T{0});
  std::fill_n(work.totals, count, T{0});
  std::fill_n(work.tops, count, kNothing);
  int64_t last = 0;
  for (int64_t x = 0; x < count; ++x) {
    features_.Compute(head.q + rows[x] * shape_.d, 1, head.omega, work.scratch,
                      work.q_mantissa + x * f, work.q_exponent + x * f);
    last = std::max(last, shape_.seen.By(head.index, rows[x]));
  }
  const T common = CommonBias(head.bias, shape_.BiasCount());
  for (int64_t first = 0; first < last; first += kKeys) {
    const Chunk chunk = ReadKeys(head, first, work);
    ScaleQueries(count, chunk, work);
    if (chunk.one_scale)
      Multiply(T{1}, RowsOf(work.q_values, count, f),
               RowsOf(work.k_values, chunk.count, f).transpose(),
               RowsOf(work.weights, count, chunk.count, kKeys));
    for (int64_t x = 0; x < count; ++x) {
      const int64_t visible = std::clamp<int64_t>(
          shape_.seen.By(head.index, rows[x]) - first, 0, chunk.count);
      Products(x, visible, work);
      const T top =
          AddBias(x, rows[x], head.bias, common, first, visible, work);
      Rescale(x, top, visible, chunk.count, work);
    }
    AddValues(head.v + first * e, count, chunk.count, work);
  }
  const SumScale by_bias = CommonWeight(head.bias, shape_.BiasCount());
  for (int64_t x = 0; x < count; ++x)
    WriteRow(shape_.normaliser, work.sums + x * e, work.totals[x],
             ScaleOfSums(static_cast<double>(work.tops[x]), by_bias), e,
             head.out + rows[x] * e);
}

double TransformFactor(const KernelizedShape& shape) {
  double points = 1;
  for (const int64_t length : EmbeddingLengths(shape))
    points *= static_cast<double>(length);
  return 2 * std::max(1.0, std::log2(points));
}

template <typename T>
LostRows<T>::LostRows(const KernelizedShape& shape, Layout& layout)
    : shape_(shape),
      direct_(shape),
      errors_(layout, shape.n_q),
      norms_(layout, shape.f),
      work_(layout, DirectRows<T>::WorkSize(shape)),
      rows_(layout, shape.n_q) {}

template <typename T>
template <typename N>
void LostRows<T>::Repair(ThreadPool& pool, const HeadTensors<T>& head,
                         const FeatureColumns<T>& features, double weight_norm,
                         double roundoff, const N* normalisers) {
  const T factor = static_cast<T>(kLostFactor * TransformFactor(shape_) *
                                  roundoff * weight_norm);
  pool.For(shape_.f, [&](int64_t a, int) {
    const T* key = features.Key(a);
    double squares = 0;
    for (int64_t j = 0; j < head.keys; ++j)
      squares += static_cast<double>(key[j]) * static_cast<double>(key[j]);
    norms_[a] = factor * static_cast<T>(std::sqrt(squares));
  });
  constexpr int64_t kPiece = 4096;
  pool.For((shape_.n_q + kPiece - 1) / kPiece, [&](int64_t piece, int) {
    const int64_t first = piece * kPiece;
    const int64_t count = std::min(kPiece, shape_.n_q - first);
    T* errors = errors_.data() + first;
    std::fill_n(errors, count, T{0});
    for (int64_t a = 0; a < shape_.f; ++a) {
      const T* query = features.Query(a) + first;
      const T norm = norms_[a];
      for (int64_t i = 0; i < count; ++i)
        errors[i] += norm * std::abs(query[i]);
    }
  });
  int64_t lost = 0;
  for (int64_t i = 0; i < shape_.n_q; ++i)
    if (!(std::abs(normalisers[i]) > static_cast<N>(errors_[i])))
      rows_[lost++] = i;
  constexpr int64_t kQueries = DirectRows<T>::kQueries;
  pool.For((lost + kQueries - 1) / kQueries, [&](int64_t group, int worker) {
    const int64_t first = group * kQueries;
    direct_.Compute(head, rows_.data() + first,
                    std::min(kQueries, lost - first), work_[worker]);
  });
}

template class FeatureColumns<float>;
template class FeatureColumns<double>;
template class DirectRows<float>;
template class DirectRows<double>;
template class LostRows<float>;
template class LostRows<double>;
template void LostRows<float>::Repair(ThreadPool&, const HeadTensors<float>&,
                                      const FeatureColumns<float>&, double,
                                      double, const float*);
template void LostRows<float>::Repair(ThreadPool&, const HeadTensors<float>&,
                                      const FeatureColumns<float>&, double,
                                      double, const double*);
template void LostRows<double>::Repair(ThreadPool&, const HeadTensors<double>&,
                                       const FeatureColumns<double>&, double,
                                       double, const double*);

}  // namespace subquad
