#include "optimized/kernelized_columns.h"

#include <cmath>

#include "optimized/circulant_fft.h"
#include "optimized/kernelized_quadratic.h"

namespace subquad {
namespace {

// sum over a of mq[a] mk[a] 2^(eq[a] + ek[a] - top), lanes spelled out.
template <typename T>
T PairProduct(const T* mq, const T* eq, const T* mk, const T* ek, T top,
              int64_t f) {
  constexpr int64_t kLanes = 64 / static_cast<int64_t>(sizeof(T));
  T lanes[kLanes] = {};
  int64_t a = 0;
  for (; a + kLanes <= f; a += kLanes)
    for (int64_t l = 0; l < kLanes; ++l)
      lanes[l] +=
          mq[a + l] * mk[a + l] * PowerOfTwo(eq[a + l] + ek[a + l] - top);
  for (int64_t l = 0; a < f; ++a, ++l)
    lanes[l] += mq[a] * mk[a] * PowerOfTwo(eq[a] + ek[a] - top);
  T sum = 0;
  for (const T lane : lanes) sum += lane;
  return sum;
}

int64_t BiasIndex(const KernelizedShape& shape, int64_t i, int64_t j) {
  const int64_t width = shape.image_width;
  if (width == 0) return j - i + shape.n_q - 1;
  return (j / width - i / width + shape.n_q / width - 1) * (2 * width - 1) +
         j % width - i % width + width - 1;
}

}  // namespace

std::vector<int64_t> EmbeddingLengths(const KernelizedShape& shape) {
  if (shape.image_width == 0) return {GoodFftLength(shape.n_q + shape.n_k - 1)};
  const int64_t height = shape.n_q / shape.image_width;
  return {GoodFftLength(2 * height - 1),
          GoodFftLength(2 * shape.image_width - 1)};
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
    KeyScale<T> scale(nullptr, work + 2 * kChunk * f, f);
    for (int64_t j = 0; j < count; ++j) scale.See(work + (kChunk + j) * f);
  });
  KeyScale<T> all(live_.data(), live_.data(), f);
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
  return WholeLines<T>(2 * (kKeys + kQueries) * shape.f + kKeys +
                       kQueries * (shape.e + 2) + shape.e +
                       FeatureRows<T>(shape.map).ScratchSize(kKeys));
}

template <typename T>
void DirectRows<T>::Compute(const HeadTensors<T>& head, const int64_t* rows,
                            int64_t count, T* work) const {
  const int64_t f = shape_.f, e = shape_.e, d = shape_.d;
  T* k_mantissa = work;
  T* k_exponent = k_mantissa + kKeys * f;
  T* q_mantissa = k_exponent + kKeys * f;
  T* q_exponent = q_mantissa + kQueries * f;
  T* weights = q_exponent + kQueries * f;
  T* sums = weights + kKeys;
  T* totals = sums + kQueries * e;
  T* tops = totals + kQueries;
  T* part = tops + kQueries;
  T* scratch = part + e;
  constexpr T kNothing = 4 * kNoExponent<T>;
  std::fill_n(sums, kQueries * e, T{0});
  std::fill_n(totals, kQueries, T{0});
  std::fill_n(tops, kQueries, kNothing);
  int64_t last = 0;
  for (int64_t x = 0; x < count; ++x) {
    features_.Compute(head.q + rows[x] * d, 1, head.omega, scratch,
                      q_mantissa + x * f, q_exponent + x * f);
    last = std::max(last, shape_.SeenBy(rows[x]));
  }
  const T shift = BiasShift(head.bias, BiasTable<T>::Count(shape_));
  for (int64_t first = 0; first < last; first += kKeys) {
    const int64_t keys = std::min(kKeys, shape_.n_k - first);
    features_.Compute(head.k + first * d, keys, head.omega, scratch, k_mantissa,
                      k_exponent);
    for (int64_t x = 0; x < count; ++x) {
      const T* mq = q_mantissa + x * f;
      const T* eq = q_exponent + x * f;
      const int64_t seen = std::min(keys, shape_.SeenBy(rows[x]) - first);
      // Weights as mantissas, then exponents over them, then weights.
      T exponents[kKeys];
      T top = tops[x];
      for (int64_t j = 0; j < seen; ++j) {
        const T bias = head.bias[BiasIndex(shape_, rows[x], first + j)];
        const T pair = LargestSum(eq, k_exponent + j * f, f);
        weights[j] = 0;
        exponents[j] = kNothing;
        if (!(bias >= std::numeric_limits<T>::lowest()) ||
            !(pair > kLeastExponent<T>))
          continue;
        T power;
        weights[j] = SplitExpFast(bias - shift, &power) *
                     PairProduct(mq, eq, k_mantissa + j * f, k_exponent + j * f,
                                 pair, f);
        exponents[j] = pair + power;
        top = std::max(top, exponents[j]);
      }
      // The chunk's own sum first: rounding grows with kKeys + n / kKeys.
      std::fill_n(part, e, T{0});
      T total = 0;
      for (int64_t j = 0; j < seen; ++j) {
        const T weight = weights[j] * PowerOfTwo(exponents[j] - top);
        const T* value = head.v + (first + j) * e;
        total += weight;
        for (int64_t c = 0; c < e; ++c) part[c] += weight * value[c];
      }
      const T factor = PowerOfTwo(tops[x] - top);
      tops[x] = top;
      totals[x] = totals[x] * factor + total;
      for (int64_t c = 0; c < e; ++c)
        sums[x * e + c] = sums[x * e + c] * factor + part[c];
    }
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
