#include "optimized/kernelized/fft_streamed.h"

#include <cmath>
#include <stdexcept>
#include <type_traits>

#include "optimized/kernelized/quadratic.h"

namespace subquad {
template <typename T, typename W>
double BiasWeights(const KernelizedShape& shape, const T* bias, W* weights,
                   SumScale* scale) {
  const int64_t count = shape.BiasCount();
  const auto visible = [&](int64_t t) {
    return shape.MayBeSeen(t) && bias[t] >= std::numeric_limits<T>::lowest();
  };
  const W shift = static_cast<W>(CommonBias(bias, count));
  W top = 2 * kNoExponent<W>;
  double squares = 0;
  for (int64_t t = 0; t < count; ++t) {
    if (!visible(t)) continue;
    W exponent;
    SplitExpFast(static_cast<W>(bias[t]) - shift, &exponent);
    top = std::max(top, exponent);
  }
  for (int64_t t = 0; t < count; ++t) {
    W exponent;
    const bool counts = visible(t);
    const W mantissa = SplitExpFast(
        counts ? static_cast<W>(bias[t]) - shift : W{0}, &exponent);
    weights[t] = counts ? mantissa * PowerOfTwo(exponent - top) : W{0};
    squares +=
        static_cast<double>(weights[t]) * static_cast<double>(weights[t]);
  }
  *scale = ScaleOfSums(static_cast<double>(top), CommonWeight(bias, count));
  return std::sqrt(squares);
}

// ---- products -------------------------------------------------------

namespace {

// Returns nothing for a sequence.
std::optional<ImageSequence> ImageOf(const KernelizedShape& shape) {
  if (!shape.is_image()) return {};
  return ImageSequence(shape.height(), shape.width());
}

}  // namespace

template <typename W>
LagProduct<W>::LagProduct(const KernelizedShape& shape, Layout& layout)
    : shape_(shape),
      image_(ImageOf(shape)),
      product_(layout, image_ ? image_->length() : shape.n_q,
               image_ ? image_->length() : shape.n_k) {}

template <typename W>
int64_t LagProduct<W>::ScratchSize() const {
  return WholeLines<W>(shape_.BiasCount()) +
         WholeLines<W>(product_.ScratchSize());
}

template <typename W>
template <typename T>
double LagProduct<W>::Spectrum(const T* bias, W* spectrum, W* scratch,
                               SumScale* scale) const {
  W* weights = scratch;
  const double norm = BiasWeights(shape_, bias, weights, scale);
  product_.Spectrum(weights, shape_.BiasCount(), spectrum,
                    scratch + WholeLines<W>(shape_.BiasCount()));
  return norm;
}

template <typename W>
template <typename Fill, typename Take>
void LagProduct<W>::Run(const W* spectrum, int64_t keys, int64_t columns,
                        Fill& fill, Take& take, W* scratch) const {
  const RowSource<W> source = {
      [](void* with, int64_t row, int64_t count, W* rows) {
        (*static_cast<Fill*>(with))(row, count, rows);
      },
      &fill};
  const RowSink<W> sink = {
      [](void* with, int64_t row, int64_t count, const W* rows) {
        (*static_cast<Take*>(with))(row, count, rows);
      },
      &take};
  W* rest = scratch + WholeLines<W>(shape_.BiasCount());
  if (image_)
    ApplyToImage(product_, *image_, spectrum, source, columns, sink, rest);
  else
    product_.Apply(spectrum, source, keys, columns, sink, rest);
}

// ---- streamed -------------------------------------------------------

namespace {

// Weighs the rows of a block whose width the compiler knows.
template <int kWidth, typename T, typename W>
void Weigh(const T* key, const W* values, int64_t rows, W* to) {
  for (int64_t j = 0; j < rows; ++j)
    for (int l = 0; l < kWidth; ++l)
      to[j * kWidth + l] = static_cast<W>(key[j]) * values[j * kWidth + l];
}
template <int kWidth, typename T, typename W>
void AddWeighed(const T* query, const W* from, int64_t rows, W* sums) {
  for (int64_t i = 0; i < rows; ++i)
    for (int l = 0; l < kWidth; ++l)
      sums[i * kWidth + l] += static_cast<W>(query[i]) * from[i * kWidth + l];
}

// Calls work(std::integral_constant<int, width>()).
template <typename Work>
void WithWidth(int64_t width, const Work& work) {
  switch (width) {
    case 2:
      return work(std::integral_constant<int, 2>());
    case 4:
      return work(std::integral_constant<int, 4>());
    case 8:
      return work(std::integral_constant<int, 8>());
    case 16:
      return work(std::integral_constant<int, 16>());
    default:
      throw std::logic_error("a block of another width");
  }
}

}  // namespace

template <typename T, typename W>
StreamedFft<T, W>::StreamedFft(const KernelizedShape& shape, Layout& layout)
    : shape_(shape),
      product_(shape, layout),
      features_(shape, layout),
      lost_(shape, layout),
      normalisers_(layout, shape.n_q),
      spectrum_(layout, product_.SpectrumSize(), OnLine{}),
      work_(layout, Cut<W>::template Size<Work>(shape, product_), OnLine{}) {}

template <typename T, typename W>
double StreamedFft<T, W>::Flops() const {
  return static_cast<double>(shape_.heads) *
         (static_cast<double>(shape_.f) * product_.Flops(shape_.e) +
          product_.Flops(shape_.f));
}

// The columns of a block are features.
template <typename T, typename W>
void StreamedFft<T, W>::Normalisers(const HeadTensors<T>& head,
                                    const Work& work) const {
  std::fill_n(normalisers_.data(), shape_.n_q, W{0});
  for (int64_t first = 0; first < shape_.f; first += kBlockColumns) {
    const int64_t count = std::min(kBlockColumns, shape_.f - first);
    const int64_t width = product_.BlockWidth(count);
    auto fill = [&](int64_t row, int64_t rows, W* to) {
      for (int64_t l = 0; l < width; ++l) {
        const T* key = l < count ? features_.Key(first + l) : nullptr;
        for (int64_t j = 0; j < rows; ++j)
          to[j * width + l] = key ? static_cast<W>(key[row + j]) : W{0};
      }
    };
    auto take = [&](int64_t row, int64_t rows, const W* from) {
      for (int64_t l = 0; l < count; ++l) {
        const T* query = features_.Query(first + l);
        for (int64_t i = 0; i < rows; ++i)
          normalisers_[row + i] +=
              static_cast<W>(query[row + i]) * from[i * width + l];
      }
    };
    product_.Run(spectrum_.data(), head.keys, count, fill, take, work.scratch);
  }
}

// Processes a block of value columns, one feature after another: v is in rows
// of a block's width, and so are the sums; both are read and written once for
// every feature.
template <typename T, typename W>
void StreamedFft<T, W>::Numerators(const HeadTensors<T>& head, int64_t first,
                                   const Work& work) const {
  const int64_t e = shape_.e;
  const int64_t count = std::min(kBlockColumns, e - first);
  const int64_t width = product_.BlockWidth(count);
  W *const values = work.values, *const sums = work.sums;
  std::fill_n(values, shape_.n_k * width, W{0});
  for (int64_t j = 0; j < shape_.n_k; ++j)
    std::copy_n(head.v + j * e + first, count, values + j * width);
  std::fill_n(sums, shape_.n_q * width, W{0});
  WithWidth(width, [&](auto constant) {
    constexpr int kWidth = constant();
    for (int64_t a = 0; a < shape_.f; ++a) {
      const T* key = features_.Key(a);
      const T* query = features_.Query(a);
      auto fill = [&](int64_t row, int64_t rows, W* to) {
        Weigh<kWidth>(key + row, values + row * kWidth, rows, to);
      };
      auto take = [&](int64_t row, int64_t rows, const W* from) {
        AddWeighed<kWidth>(query + row, from, rows, sums + row * kWidth);
      };
      product_.Run(spectrum_.data(), head.keys, count, fill, take,
                   work.scratch);
    }
  });
  for (int64_t i = 0; i < shape_.n_q; ++i)
    for (int64_t l = 0; l < count; ++l)
      head.out[i * e + first + l] = static_cast<T>(sums[i * width + l]);
}

template <typename T, typename W>
void StreamedFft<T, W>::Run(ThreadPool& pool,
                            const std::vector<HeadTensors<T>>& heads) {
  const int64_t e = shape_.e;
  const int64_t tasks = (e + kBlockColumns - 1) / kBlockColumns + 1;
  for (const HeadTensors<T>& head : heads) {
    features_.Compute(pool, head);
    SumScale scale;
    const double norm = product_.Spectrum(head.bias, spectrum_.data(),
                                          WorkOf(0).scratch, &scale);
    pool.For(tasks, [&](int64_t task, int worker) {
      const Work work = WorkOf(worker);
      if (task == tasks - 1)
        Normalisers(head, work);
      else
        Numerators(head, task * kBlockColumns, work);
    });
    std::vector<W> sums(static_cast<size_t>(e));
    for (int64_t i = 0; i < shape_.n_q; ++i) {
      std::copy_n(head.out + i * e, e, sums.begin());
      WriteRow(shape_.normaliser, sums.data(), normalisers_[i],
               ScaleOfSums(static_cast<double>(features_.Top(i)), scale), e,
               head.out + i * e);
    }
    lost_.Repair(pool, head, features_, norm,
                 std::numeric_limits<W>::epsilon() / 2, normalisers_.data());
  }
}

template double BiasWeights(const KernelizedShape&, const float*, float*,
                            SumScale*);
template double BiasWeights(const KernelizedShape&, const double*, double*,
                            SumScale*);
template class StreamedFft<float, float>;
template class StreamedFft<double, double>;
template class StreamedFft<float, double>;

}  // namespace subquad
