#include "optimized/toeplitz/fft_circulant.h"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace subquad {
namespace {

// FFTW's planner is not thread-safe; executing plans is.
std::mutex& PlannerMutex() {
  static std::mutex mutex;
  return mutex;
}

int64_t RowStride(const std::vector<int64_t>& lengths) {
  return 2 * (lengths.back() / 2 + 1);
}

}  // namespace

template <typename T>
int64_t CirculantFft<T>::ColumnSize(const std::vector<int64_t>& lengths) {
  int64_t size = RowStride(lengths);
  for (size_t i = 0; i + 1 < lengths.size(); ++i) size *= lengths[i];
  const int64_t line = 64 / static_cast<int64_t>(sizeof(T));
  // Adds one cache line, or columns of a power of two would share cache sets.
  return (size + line - 1) / line * line + line;
}

template <typename T>
double CirculantFft<T>::PlanNumbers(const std::vector<int64_t>& lengths) {
  double numbers = 0;
  for (int64_t length : lengths) numbers += 2.5 * static_cast<double>(length);
  return numbers;
}

template <typename T>
double CirculantFft<T>::TransformFlops() const {
  const double points = static_cast<double>(points_);
  return 2.5 * points * std::log2(std::max(2.0, points));
}

template <typename T>
CirculantFft<T>::CirculantFft(Layout& layout,
                              const std::vector<int64_t>& lengths)
    : points_(1),
      row_stride_(RowStride(lengths)),
      column_size_(ColumnSize(lengths)) {
  for (int64_t length : lengths) points_ *= length;
  layout.Add(PlanNumbers(lengths) * sizeof(T));
  if (!layout.counting()) Plan(lengths, layout.tune());
}

template <typename T>
void CirculantFft<T>::Plan(const std::vector<int64_t>& lengths, bool tune) {
  const std::vector<int> n(lengths.begin(), lengths.end());
  Buffer<T> column(column_size_);
  auto* spectrum = reinterpret_cast<typename Fftw<T>::Complex*>(column.data());
  const unsigned flags = tune ? FFTW_MEASURE : FFTW_ESTIMATE;
  const int rank = static_cast<int>(n.size());
  std::lock_guard lock(PlannerMutex());
  Fftw<T>::kSetTimeLimit(kTuningSeconds);
  forward_ =
      Fftw<T>::kPlanForward(rank, n.data(), column.data(), spectrum, flags);
  backward_ =
      Fftw<T>::kPlanBackward(rank, n.data(), spectrum, column.data(), flags);
  if (!forward_ || !backward_)
    throw std::runtime_error("FFTW has no plan for this length");
}

template <typename T>
CirculantFft<T>::~CirculantFft() {
  if (!forward_) return;
  std::lock_guard lock(PlannerMutex());
  Fftw<T>::kDestroy(forward_);
  Fftw<T>::kDestroy(backward_);
}

template <typename T>
void CirculantFft<T>::Backward(T* column) const {
  Fftw<T>::kBackward(
      backward_, reinterpret_cast<typename Fftw<T>::Complex*>(column), column);
  const T factor = T{1} / static_cast<T>(points_);
  for (int64_t i = 0; i < column_size_; ++i) column[i] *= factor;
}

template <typename T>
void CirculantFft<T>::Multiply(const T* spectrum, bool conjugate,
                               T* column) const {
  const T sign = conjugate ? T{-1} : T{1};
  for (int64_t k = 0; k + 1 < column_size_; k += 2) {
    const T re = spectrum[k], im = sign * spectrum[k + 1];
    const T a = column[k], b = column[k + 1];
    column[k] = a * re - b * im;
    column[k + 1] = a * im + b * re;
  }
}

template <typename T>
void CirculantFft<T>::AddProduct(const T* a, const T* b, T* sum) const {
  for (int64_t k = 0; k + 1 < column_size_; k += 2) {
    sum[k] += a[k] * b[k] + a[k + 1] * b[k + 1];
    sum[k + 1] += a[k + 1] * b[k] - a[k] * b[k + 1];
  }
}

template <typename T>
void GatherColumns(const T* rows, int64_t n, int64_t row_width, int64_t columns,
                   int64_t image_width, int64_t row_stride, int64_t column_size,
                   T* column) {
  if (n == 0) {
    for (int64_t c = 0; c < columns; ++c)
      std::fill_n(column + c * column_size, column_size, T{0});
    return;
  }
  for (int64_t first = 0; first < n; first += image_width) {
    const int64_t width = std::min(image_width, n - first);
    T* to = column + first / image_width * row_stride;
    const T* from = rows + first * row_width;
    for (int64_t j = 0; j < width; ++j)
      for (int64_t c = 0; c < columns; ++c)
        to[c * column_size + j] = from[j * row_width + c];
    for (int64_t c = 0; c < columns; ++c)
      std::fill(to + c * column_size + width, to + c * column_size + row_stride,
                T{0});
  }
  const int64_t filled = (n + image_width - 1) / image_width * row_stride;
  for (int64_t c = 0; c < columns; ++c)
    std::fill(column + c * column_size + filled, column + (c + 1) * column_size,
              T{0});
}

template <typename T>
void ScatterColumns(const T* column, int64_t n, int64_t row_width,
                    int64_t columns, int64_t image_width, int64_t row_stride,
                    int64_t column_size, T* rows) {
  for (int64_t first = 0; first < n; first += image_width) {
    const int64_t width = std::min(image_width, n - first);
    const T* from = column + first / image_width * row_stride;
    T* to = rows + first * row_width;
    for (int64_t j = 0; j < width; ++j)
      for (int64_t c = 0; c < columns; ++c)
        to[j * row_width + c] = from[c * column_size + j];
  }
}

template <typename T>
void EmbedOffsets(const T* middle, int64_t queries, int64_t keys,
                  int64_t length, T* column) {
  for (int64_t m = 0; m < queries; ++m) column[m] = middle[-m];
  for (int64_t m = 1; m < keys; ++m) column[length - m] = middle[m];
}

template <typename T>
void EmbedImageOffsets(const T* weights, int64_t height, int64_t width,
                       int64_t row_stride, T* column) {
  const std::vector<int64_t> lengths = ImageFftLengths(height, width);
  for (int64_t row = 1 - height; row < height; ++row)
    EmbedOffsets(weights + (height - 1 - row) * (2 * width - 1) + width - 1,
                 width, width, lengths[1],
                 column + (row < 0 ? row + lengths[0] : row) * row_stride);
}

template <typename T>
void TakeImageOffsets(const T* column, int64_t height, int64_t width,
                      int64_t row_stride, T* weights) {
  const std::vector<int64_t> lengths = ImageFftLengths(height, width);
  for (int64_t row = 1 - height; row < height; ++row) {
    const T* const from =
        column + (row < 0 ? row + lengths[0] : row) * row_stride;
    T* const to = weights + (height - 1 - row) * (2 * width - 1) + width - 1;
    for (int64_t m = 0; m < width; ++m) to[-m] = from[m];
    for (int64_t m = 1; m < width; ++m) to[m] = from[lengths[1] - m];
  }
}

template void EmbedOffsets(const float*, int64_t, int64_t, int64_t, float*);
template void EmbedOffsets(const double*, int64_t, int64_t, int64_t, double*);
template void EmbedImageOffsets(const float*, int64_t, int64_t, int64_t,
                                float*);
template void EmbedImageOffsets(const double*, int64_t, int64_t, int64_t,
                                double*);
template void TakeImageOffsets(const float*, int64_t, int64_t, int64_t, float*);
template void TakeImageOffsets(const double*, int64_t, int64_t, int64_t,
                               double*);
template class CirculantFft<float>;
template class CirculantFft<double>;
template void GatherColumns(const float*, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, float*);
template void GatherColumns(const double*, int64_t, int64_t, int64_t, int64_t,
                            int64_t, int64_t, double*);
template void ScatterColumns(const float*, int64_t, int64_t, int64_t, int64_t,
                             int64_t, int64_t, float*);
template void ScatterColumns(const double*, int64_t, int64_t, int64_t, int64_t,
                             int64_t, int64_t, double*);

}  // namespace subquad
