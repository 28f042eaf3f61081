#include "optimized/kernelized_fft.h"

#include <cmath>

#include "optimized/kernelized_quadratic.h"

namespace subquad {
namespace {

int64_t WeightCount(const KernelizedShape& shape) {
  return BiasTable<float>::Count(shape);
}

// Rounded up to whole cache lines.
template <typename W>
int64_t Lines(int64_t count) {
  constexpr int64_t kLine = 64 / static_cast<int64_t>(sizeof(W));
  return (count + kLine - 1) / kLine * kLine;
}

// Does any query see keys at this entry of the bias, as far as causality goes?
bool MayBeSeen(const KernelizedShape& shape, int64_t t) {
  if (!shape.causal) return true;
  const int64_t width = shape.image_width;
  if (width == 0) return t <= shape.n_q - 1;
  const int64_t row = t / (2 * width - 1) - (shape.n_q / width - 1);
  const int64_t column = t % (2 * width - 1) - (width - 1);
  return row < 0 || (row == 0 && column <= 0);
}

// First column of the circulant matrix, in place for its transform.
template <typename W>
void Embed(const KernelizedShape& shape, const std::vector<int64_t>& lengths,
           int64_t row_stride, const W* weights, W* column) {
  const int64_t width = shape.image_width ? shape.image_width : 1;
  if (shape.image_width == 0) {
    for (int64_t m = 0; m < shape.n_q; ++m)
      column[m] = weights[shape.n_q - 1 - m];
    for (int64_t offset = 1; offset < shape.n_k; ++offset)
      column[lengths[0] - offset] = weights[shape.n_q - 1 + offset];
    return;
  }
  const int64_t height = shape.n_q / width;
  for (int64_t row = 1 - height; row < height; ++row) {
    W* to = column + (row < 0 ? row + lengths[0] : row) * row_stride;
    const W* from = weights + (height - 1 - row) * (2 * width - 1) + width - 1;
    for (int64_t c = 0; c < width; ++c) to[c] = from[-c];
    for (int64_t c = 1; c < width; ++c) to[lengths[1] - c] = from[c];
  }
}

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

template <typename T, typename W>
double BiasWeights(const KernelizedShape& shape, const T* bias, W* weights) {
  const int64_t count = WeightCount(shape);
  const auto seen = [&](int64_t t) {
    return MayBeSeen(shape, t) && bias[t] >= std::numeric_limits<T>::lowest();
  };
  const W shift = static_cast<W>(BiasShift(bias, count));
  W top = 2 * kNoExponent<W>;
  double squares = 0;
  for (int64_t t = 0; t < count; ++t) {
    if (!seen(t)) continue;
    W exponent;
    SplitExpFast(static_cast<W>(bias[t]) - shift, &exponent);
    top = std::max(top, exponent);
  }
  for (int64_t t = 0; t < count; ++t) {
    W exponent;
    const bool counts = seen(t);
    const W mantissa = SplitExpFast(
        counts ? static_cast<W>(bias[t]) - shift : W{0}, &exponent);
    weights[t] = counts ? mantissa * PowerOfTwo(exponent - top) : W{0};
    squares +=
        static_cast<double>(weights[t]) * static_cast<double>(weights[t]);
  }
  return std::sqrt(squares);
}

// ---- features
// ----------------------------------------------------------------

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

// ---- queries that the transforms cannot serve
// --------------------------------

template <typename T>
int64_t DirectRows<T>::WorkSize(const KernelizedShape& shape) {
  return Lines<T>(2 * (kKeys + kQueries) * shape.f + kKeys +
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
  const T shift = BiasShift(head.bias, WeightCount(shape_));
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
void LostRows<T>::Repair(ThreadPool& pool, const HeadTensors<T>& head,
                         const FeatureColumns<T>& features, double weight_norm,
                         double roundoff, const T* normalisers) {
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
    if (!(std::abs(normalisers[i]) > errors_[i])) rows_[lost++] = i;
  constexpr int64_t kQueries = DirectRows<T>::kQueries;
  pool.For((lost + kQueries - 1) / kQueries, [&](int64_t group, int worker) {
    const int64_t first = group * kQueries;
    direct_.Compute(head, rows_.data() + first,
                    std::min(kQueries, lost - first),
                    work_.data() + worker * DirectRows<T>::WorkSize(shape_));
  });
}

// ---- products
// ----------------------------------------------------------------

namespace {
constexpr int64_t kImageGroup = 4;  // padded images in flight
}

template <typename W>
LagProduct<W>::LagProduct(const KernelizedShape& shape) : shape_(shape) {
  if (shape.image_width == 0) {
    line_ = std::make_unique<ToeplitzColumns<W>>(shape.n_q, shape.n_k);
    columns_ = line_->BlockColumns();
  } else {
    image_ = std::make_unique<CirculantFft<W>>(EmbeddingLengths(shape), false);
    columns_ = kImageGroup;
  }
}

template <typename W>
int64_t LagProduct<W>::SpectrumSize() const {
  return line_ ? static_cast<int64_t>(line_->SpectrumSize())
               : image_->column_size();
}

template <typename W>
int64_t LagProduct<W>::ScratchSize() const {
  return Lines<W>(WeightCount(shape_)) +
         Lines<W>(line_ ? static_cast<int64_t>(line_->ScratchSize())
                        : kImageGroup *
                              (image_->column_size() + shape_.image_width));
}

template <typename W>
double LagProduct<W>::PlanBytes() const {
  return line_ ? static_cast<double>(line_->PlanBytes())
               : static_cast<double>(sizeof(W)) *
                     CirculantFft<W>::PlanNumbers(EmbeddingLengths(shape_));
}

template <typename W>
double LagProduct<W>::BlockFlops() const {
  return line_ ? line_->BlockFlops()
               : 2 * kImageGroup *
                     CirculantFft<W>::TransformFlops(EmbeddingLengths(shape_));
}

template <typename W>
template <typename T>
double LagProduct<W>::Spectrum(const T* bias, W* spectrum, W* scratch) const {
  W* weights = scratch;
  const double norm = BiasWeights(shape_, bias, weights);
  if (line_) {
    line_->Spectrum(weights, shape_.causal, spectrum,
                    scratch + Lines<W>(WeightCount(shape_)));
    return norm;
  }
  std::fill_n(spectrum, image_->column_size(), W{0});
  Embed(shape_, EmbeddingLengths(shape_), image_->row_stride(), weights,
        spectrum);
  image_->Forward(spectrum);
  return norm;
}

template <typename W>
template <typename Fill, typename Take>
void LagProduct<W>::Run(const W* spectrum, Fill& fill, Take& take,
                        W* scratch) const {
  scratch += Lines<W>(WeightCount(shape_));
  if (line_) {
    const RowSource<W> source = {
        [](void* context, int64_t row, int64_t count, W* rows) {
          (*static_cast<Fill*>(context))(row, count, rows);
        },
        &fill};
    const RowSink<W> sink = {
        [](void* context, int64_t row, int64_t count, const W* rows) {
          (*static_cast<Take*>(context))(row, count, rows);
        },
        &take};
    return line_->Apply(spectrum, source, sink, scratch);
  }
  const int64_t size = image_->column_size(), stride = image_->row_stride();
  const int64_t width = shape_.image_width, height = shape_.n_q / width;
  W* rows = scratch + kImageGroup * size;
  std::fill_n(scratch, kImageGroup * size, W{0});
  for (int64_t r = 0; r < height; ++r) {
    fill(r * width, width, rows);
    for (int64_t c = 0; c < kImageGroup; ++c)
      for (int64_t x = 0; x < width; ++x)
        scratch[c * size + r * stride + x] = rows[x * kImageGroup + c];
  }
  for (int64_t c = 0; c < kImageGroup; ++c) {
    image_->Forward(scratch + c * size);
    image_->Multiply(spectrum, false, scratch + c * size);
    image_->Backward(scratch + c * size);
  }
  for (int64_t r = 0; r < height; ++r) {
    for (int64_t c = 0; c < kImageGroup; ++c)
      for (int64_t x = 0; x < width; ++x)
        rows[x * kImageGroup + c] = scratch[c * size + r * stride + x];
    take(r * width, width, rows);
  }
}

// ---- algorithm 1 as printed
// --------------------------------------------------

template <typename T>
FftKernelized<T>::FftKernelized(const KernelizedShape& shape, int threads)
    : shape_(shape),
      lengths_(EmbeddingLengths(shape)),
      fft_(lengths_, false),
      features_(shape, threads),
      lost_(shape, threads),
      weights_(WeightCount(shape)),
      spectrum_(fft_.column_size()),
      channels_(shape.f * (shape.e + 1) * fft_.column_size()),
      normalisers_(shape.n_q) {}

template <typename T>
Cost FftKernelized<T>::CostOf(const KernelizedShape& shape, int threads) {
  const auto lengths = EmbeddingLengths(shape);
  const double channels = static_cast<double>(shape.f * (shape.e + 1));
  Cost cost;
  cost.flops = static_cast<double>(shape.heads) * (2 * channels + 1) *
               CirculantFft<T>::TransformFlops(lengths);
  cost.workspace_bytes =
      sizeof(T) * (FeatureColumns<T>::WorkNumbers(shape, threads) +
                   CirculantFft<T>::PlanNumbers(lengths) +
                   static_cast<double>(WeightCount(shape) + shape.n_q) +
                   (channels + 1) * static_cast<double>(
                                        CirculantFft<T>::ColumnSize(lengths))) +
      LostRows<T>::WorkBytes(shape, threads);
  return cost;
}

template <typename T>
void FftKernelized<T>::Run(ThreadPool& pool,
                           const std::vector<HeadTensors<T>>& heads) {
  const int64_t e = shape_.e, size = fft_.column_size();
  const int64_t k_width = shape_.image_width ? shape_.image_width : shape_.n_k;
  const int64_t q_width = shape_.image_width ? shape_.image_width : shape_.n_q;
  for (const HeadTensors<T>& head : heads) {
    features_.Compute(pool, head);
    const double norm = BiasWeights(shape_, head.bias, weights_.data());
    std::fill_n(spectrum_.data(), size, T{0});
    Embed(shape_, lengths_, fft_.row_stride(), weights_.data(),
          spectrum_.data());
    fft_.Forward(spectrum_.data());
    pool.For(shape_.f * (e + 1), [&](int64_t channel, int) {
      const int64_t a = channel / (e + 1), c = channel % (e + 1);
      const T* key = features_.Key(a);
      T* column = channels_.data() + channel * size;
      std::fill_n(column, size, T{0});
      for (int64_t j = 0; j < shape_.n_k; ++j)
        column[j / k_width * fft_.row_stride() + j % k_width] =
            c < e ? key[j] * head.v[j * e + c] : key[j];
      fft_.Forward(column);
      fft_.Multiply(spectrum_.data(), false, column);
      fft_.Backward(column);
    });
    // out = sum over features; the normalisers are the last column.
    pool.For(e + 1, [&](int64_t c, int) {
      T* to = c < e ? head.out + c : normalisers_.data();
      const int64_t stride = c < e ? e : 1;
      for (int64_t i = 0; i < shape_.n_q; ++i) to[i * stride] = 0;
      for (int64_t a = 0; a < shape_.f; ++a) {
        const T* query = features_.Query(a);
        const T* column = channels_.data() + (a * (e + 1) + c) * size;
        for (int64_t i = 0; i < shape_.n_q; ++i)
          to[i * stride] +=
              query[i] * column[i / q_width * fft_.row_stride() + i % q_width];
      }
    });
    for (int64_t i = 0; i < shape_.n_q; ++i)
      for (int64_t c = 0; c < e; ++c) head.out[i * e + c] /= normalisers_[i];
    lost_.Repair(pool, head, features_, norm,
                 std::numeric_limits<T>::epsilon() / 2, normalisers_.data());
  }
}

// ---- streamed
// ----------------------------------------------------------------

template <typename T, typename W>
StreamedFft<T, W>::StreamedFft(const KernelizedShape& shape, int threads)
    : shape_(shape),
      product_(shape),
      features_(shape, threads),
      lost_(shape, threads),
      normalisers_(shape.n_q),
      spectrum_(product_.SpectrumSize()),
      scratch_(threads * product_.ScratchSize()) {}

template <typename T, typename W>
Cost StreamedFft<T, W>::CostOf(const KernelizedShape& shape, int threads) {
  const LagProduct<W> product(shape);
  const int64_t block = product.columns();
  const double blocks =
      static_cast<double>(shape.f * ((shape.e + block - 1) / block) +
                          (shape.f + block - 1) / block);
  Cost cost;
  cost.flops = static_cast<double>(shape.heads) * blocks * product.BlockFlops();
  cost.workspace_bytes =
      sizeof(T) * (FeatureColumns<T>::WorkNumbers(shape, threads) +
                   static_cast<double>(shape.n_q)) +
      LostRows<T>::WorkBytes(shape, threads) +
      sizeof(W) * static_cast<double>(product.SpectrumSize() +
                                      threads * product.ScratchSize()) +
      product.PlanBytes();
  return cost;
}

template <typename T, typename W>
void StreamedFft<T, W>::Run(ThreadPool& pool,
                            const std::vector<HeadTensors<T>>& heads) {
  const int64_t f = shape_.f, e = shape_.e, block = product_.columns();
  const int64_t tasks = (e + block - 1) / block + 1;
  for (const HeadTensors<T>& head : heads) {
    features_.Compute(pool, head);
    const double norm =
        product_.Spectrum(head.bias, spectrum_.data(), scratch_.data());
    pool.For(tasks, [&](int64_t task, int worker) {
      W* scratch = scratch_.data() + worker * product_.ScratchSize();
      if (task == 0) {  // normalisers: the columns of a block are features
        std::fill_n(normalisers_.data(), shape_.n_q, T{0});
        for (int64_t first = 0; first < f; first += block) {
          const int64_t count = std::min(block, f - first);
          auto fill = [&](int64_t row, int64_t rows, W* to) {
            for (int64_t l = 0; l < block; ++l) {
              const T* key = l < count ? features_.Key(first + l) : nullptr;
              for (int64_t j = 0; j < rows; ++j)
                to[j * block + l] = key ? static_cast<W>(key[row + j]) : W{0};
            }
          };
          auto take = [&](int64_t row, int64_t rows, const W* from) {
            for (int64_t l = 0; l < count; ++l) {
              const T* query = features_.Query(first + l);
              for (int64_t i = 0; i < rows; ++i)
                normalisers_[row + i] +=
                    static_cast<T>(query[row + i] * from[i * block + l]);
            }
          };
          product_.Run(spectrum_.data(), fill, take, scratch);
        }
        return;
      }
      const int64_t first = (task - 1) * block;
      const int64_t count = std::min(block, e - first);
      for (int64_t i = 0; i < shape_.n_q; ++i)
        std::fill_n(head.out + i * e + first, count, T{0});
      for (int64_t a = 0; a < f; ++a) {
        const T* key = features_.Key(a);
        const T* query = features_.Query(a);
        auto fill = [&](int64_t row, int64_t rows, W* to) {
          for (int64_t j = 0; j < rows; ++j, to += block) {
            const W k = key[row + j];
            const T* value = head.v + (row + j) * e + first;
            for (int64_t l = 0; l < count; ++l) to[l] = k * value[l];
            for (int64_t l = count; l < block; ++l) to[l] = 0;
          }
        };
        auto take = [&](int64_t row, int64_t rows, const W* from) {
          for (int64_t i = 0; i < rows; ++i, from += block) {
            const W q = query[row + i];
            T* out = head.out + (row + i) * e + first;
            for (int64_t l = 0; l < count; ++l)
              out[l] += static_cast<T>(q * from[l]);
          }
        };
        product_.Run(spectrum_.data(), fill, take, scratch);
      }
    });
    for (int64_t i = 0; i < shape_.n_q; ++i)
      for (int64_t c = 0; c < e; ++c) head.out[i * e + c] /= normalisers_[i];
    lost_.Repair(pool, head, features_, norm,
                 std::numeric_limits<W>::epsilon() / 2, normalisers_.data());
  }
}

template double BiasWeights(const KernelizedShape&, const double*, double*);
template class FftKernelized<float>;
template class FftKernelized<double>;
template class StreamedFft<float, float>;
template class StreamedFft<double, double>;
template class StreamedFft<float, double>;

}  // namespace subquad
