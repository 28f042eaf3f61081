#include "optimized/kernelized/columns.h"

#include <cmath>

#include "optimized/base/matrix.h"
#include "optimized/kernelized/quadratic.h"
#include "optimized/toeplitz/circulant_fft.h"

namespace subquad {
std::vector<int64_t> EmbeddingLengths(const KernelizedShape& shape) {
  if (shape.is_image()) return ImageFftLengths(shape.height(), shape.width());
  return {GoodFftLength(shape.n_q + shape.n_k - 1)};
}

// ---- features -------------------------------------------------------

template <typename T>
FeatureColumns<T>::FeatureColumns(const KernelizedShape& shape, int threads)
    : shape_(shape),
      features_(shape.map),
      keys_(shape.f * shape.n_k),
      queries_(shape.f * shape.n_q),
      live_(shape.f),
      work_(threads * WorkSize(shape)) {}

template <typename T>
double FeatureColumns<T>::WorkNumbers(const KernelizedShape& shape,
                                      int threads) {
  return static_cast<double>(shape.f * (shape.n_k + shape.n_q + 1) +
                             threads * WorkSize(shape));
}

template <typename T>
void FeatureColumns<T>::Compute(ThreadPool& pool, const HeadTensors<T>& head) {
  const int64_t f = shape_.f, d = shape_.d;
  const int64_t k_chunks = (shape_.n_k + kChunk - 1) / kChunk;
  const int64_t q_chunks = (shape_.n_q + kChunk - 1) / kChunk;
  const auto compute = [&](const T* x, int64_t n, int64_t chunk, T* work) {
    const int64_t count = std::min(kChunk, n - chunk * kChunk);
    features_.Compute(x + chunk * kChunk * d, count, head.omega,
                      work + (2 * kChunk + 1) * f, work, work + kChunk * f);
    return count;
  };
  // The largest exponents first: one maximum per worker, which no order
  // changes.
  const int64_t size = WorkSize(shape_);
  for (int worker = 0; worker < pool.threads(); ++worker)
    std::fill_n(work_.data() + worker * size + 2 * kChunk * f, f,
                kNoExponent<T>);
  pool.For(k_chunks, [&](int64_t chunk, int worker) {
    T* work = work_.data() + worker * size;
    const int64_t count = compute(head.k, shape_.n_k, chunk, work);
    RunningKeyScale<T> scale(nullptr, work + 2 * kChunk * f, f);
    for (int64_t j = 0; j < count; ++j) scale.See(work + (kChunk + j) * f);
  });
  RunningKeyScale<T> all(live_.data(), live_.data(), f);
  std::fill_n(live_.data(), f, kNoExponent<T>);
  for (int worker = 0; worker < pool.threads(); ++worker)
    all.See(work_.data() + worker * size + 2 * kChunk * f);
  pool.For(k_chunks + q_chunks, [&](int64_t task, int worker) {
    T* work = work_.data() + worker * size;
    const bool key = task < k_chunks;
    const int64_t n = key ? shape_.n_k : shape_.n_q;
    const int64_t chunk = key ? task : task - k_chunks;
    const int64_t count = compute(key ? head.k : head.q, n, chunk, work);
    T* values = (key ? keys_ : queries_).data() + chunk * kChunk;
    for (int64_t j = 0; j < count; ++j) {
      T* row = work + j * f;
      const T* exponent = work + (kChunk + j) * f;
      if (key)
        all.KeyValues(row, exponent, row);
      else
        all.QueryValues(row, exponent, row);
      for (int64_t a = 0; a < f; ++a) values[a * n + j] = row[a];
    }
  });
}

// ---- queries that the transforms cannot serve -----------------------

template <typename T>
int64_t DirectRows<T>::WorkSize(const KernelizedShape& shape) {
  return WholeLines<T>(3 * (kKeys + kQueries) * shape.f + shape.f +
                       2 * kQueries * (kKeys + 1) + 2 * kQueries * shape.e +
                       FeatureRows<T>(shape.map).ScratchSize(kKeys));
}

// The keys of a chunk at one scale per feature, where that loses nothing: every
// feature that is not zero within 2^-kRange of it, or where some are zero, so
// that a key may lack the query's largest feature, within half of that. Says
// whether any is zero.
template <typename T>
bool DirectRows<T>::OneScale(int64_t keys, const Chunk& chunk,
                             bool* zeros) const {
  const int64_t f = shape_.f;
  std::copy_n(chunk.exponent, f, chunk.scale);
  T least = 0, none = 1;
  for (int64_t j = 1; j < keys; ++j)
    for (int64_t a = 0; a < f; ++a)
      chunk.scale[a] = std::max(chunk.scale[a], chunk.exponent[j * f + a]);
  for (int64_t j = 0; j < keys; ++j)
    for (int64_t a = 0; a < f; ++a) {
      const T exponent = chunk.exponent[j * f + a];
      const T below = exponent - chunk.scale[a];
      const bool live = exponent > kLeastExponent<T>;
      none = live ? none : T{0};
      least = std::min(least, live ? below : T{0});
      chunk.values[j * f + a] =
          chunk.mantissa[j * f + a] * PowerOfTwo(live ? below : T{0});
    }
  *zeros = none == 0;
  return least >= (*zeros ? -kRange / 2 : -kRange);
}

template <typename T>
void DirectRows<T>::Compute(const HeadTensors<T>& head, const int64_t* rows,
                            int64_t count, T* work) const {
  using Stride = Eigen::OuterStride<>;
  const int64_t f = shape_.f, e = shape_.e, d = shape_.d;
  const auto take = [&work](int64_t size) {
    T* const taken = work;
    work += size;
    return taken;
  };
  const Chunk chunk = {take(kKeys * f), take(kKeys * f), take(kKeys * f),
                       take(f)};
  T* const q_mantissa = take(kQueries * f);
  T* const q_exponent = take(kQueries * f);
  T* const q_values = take(kQueries * f);
  T* const weights = take(kQueries * kKeys);
  T* const exponents = take(kQueries * kKeys);
  T* const sums = take(kQueries * e);
  T* const parts = take(kQueries * e);
  T* const totals = take(kQueries);
  T* const tops = take(kQueries);
  T* const scratch = work;
  constexpr T kNothing = 4 * kNoExponent<T>;
  std::fill_n(sums, count * e, T{0});
  std::fill_n(totals, count, T{0});
  std::fill_n(tops, count, kNothing);
  int64_t last = 0;
  for (int64_t x = 0; x < count; ++x) {
    features_.Compute(head.q + rows[x] * d, 1, head.omega, scratch,
                      q_mantissa + x * f, q_exponent + x * f);
    last = std::max(last, shape_.SeenBy(rows[x]));
  }
  const T shift = CommonBias(head.bias, shape_.BiasCount());
  for (int64_t first = 0; first < last; first += kKeys) {
    const int64_t keys = std::min(kKeys, shape_.n_k - first);
    features_.Compute(head.k + first * d, keys, head.omega, scratch,
                      chunk.mantissa, chunk.exponent);
    bool zeros = false;
    const bool one_scale = OneScale(keys, chunk, &zeros);
    // Products of features by GEMM; those that it might lose, pair by pair.
    T scales[kQueries];
    for (int64_t x = 0; x < count; ++x) {
      const T* eq = q_exponent + x * f;
      scales[x] = LargestSum(eq, chunk.scale, f);
      bool fits = one_scale;
      if (zeros)
        for (int64_t a = 0; fits && a < f; ++a) {
          const T exponent = eq[a] + chunk.scale[a];
          fits = !(exponent > kLeastExponent<T>) ||
                 exponent >= scales[x] - kRange / 2;
        }
      for (int64_t a = 0; a < f; ++a)
        q_values[x * f + a] = q_mantissa[x * f + a] *
                              PowerOfTwo(eq[a] + chunk.scale[a] - scales[x]);
      if (!fits) scales[x] = kNothing;
    }
    if (one_scale)
      MatrixMap<T>(weights, count, keys, Stride(kKeys)).noalias() =
          ConstMatrixMap<T>(q_values, count, f, Stride(f)) *
          ConstMatrixMap<T>(chunk.values, keys, f, Stride(f)).transpose();
    for (int64_t x = 0; x < count; ++x) {
      const int64_t seen =
          std::clamp<int64_t>(shape_.SeenBy(rows[x]) - first, 0, keys);
      T* const weight = weights + x * kKeys;
      T* const exponent = exponents + x * kKeys;
      if (scales[x] == kNothing) {
        const T* mq = q_mantissa + x * f;
        const T* eq = q_exponent + x * f;
        for (int64_t j = 0; j < seen; ++j) {
          const T* ek = chunk.exponent + j * f;
          exponent[j] = LargestSum(eq, ek, f);
          weight[j] =
              PairProduct(mq, eq, chunk.mantissa + j * f, ek, exponent[j], f);
        }
      } else {
        std::fill_n(exponent, seen, scales[x]);
      }
      T top = tops[x];
      for (int64_t j = 0; j < seen; ++j) {
        const T bias = head.bias[shape_.BiasIndex(rows[x], first + j)];
        // A key without a feature in common must not set the scale, however
        // large its bias.
        const bool live = bias >= std::numeric_limits<T>::lowest() &&
                          exponent[j] > kLeastExponent<T> && weight[j] != 0;
        T power;
        const T c = SplitExpFast(live ? bias - shift : T{0}, &power);
        weight[j] = live ? weight[j] * c : T{0};
        exponent[j] = live ? exponent[j] + power : kNothing;
        top = std::max(top, exponent[j]);
      }
      const T factor = PowerOfTwo(tops[x] - top);
      tops[x] = top;
      T total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        weight[j] *= PowerOfTwo(exponent[j] - top);
        total += weight[j];
      }
      std::fill(weight + seen, weight + keys, T{0});
      // The chunk's own sum first: rounding grows with kKeys + n / kKeys.
      totals[x] = totals[x] * factor + total;
      for (int64_t c = 0; c < e; ++c) sums[x * e + c] *= factor;
    }
    MatrixMap<T>(parts, count, e, Stride(e)).noalias() =
        ConstMatrixMap<T>(weights, count, keys, Stride(kKeys)) *
        ConstMatrixMap<T>(head.v + first * e, keys, e, Stride(e));
    for (int64_t x = 0; x < count * e; ++x) sums[x] += parts[x];
  }
  for (int64_t x = 0; x < count; ++x)
    for (int64_t c = 0; c < e; ++c)
      head.out[rows[x] * e + c] = sums[x * e + c] / totals[x];
}

double TransformFactor(const KernelizedShape& shape) {
  double points = 1;
  for (const int64_t length : EmbeddingLengths(shape))
    points *= static_cast<double>(length);
  return 2 * std::max(1.0, std::log2(points));
}

template <typename T>
LostRows<T>::LostRows(const KernelizedShape& shape, int threads)
    : shape_(shape),
      direct_(shape),
      errors_(shape.n_q),
      norms_(shape.f),
      work_(threads * DirectRows<T>::WorkSize(shape)),
      rows_(shape.n_q) {}

template <typename T>
double LostRows<T>::WorkBytes(const KernelizedShape& shape, int threads) {
  return static_cast<double>(sizeof(T)) *
             static_cast<double>(shape.n_q + shape.f +
                                 threads * DirectRows<T>::WorkSize(shape)) +
         8.0 * static_cast<double>(shape.n_q);
}

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
    for (int64_t j = 0; j < shape_.n_k; ++j)
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
                    std::min(kQueries, lost - first),
                    work_.data() + worker * DirectRows<T>::WorkSize(shape_));
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
