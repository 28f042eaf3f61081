// Circular convolution of real columns by FFTW, in one or two dimensions.
//
// A Toeplitz matrix is a corner of a circulant one, which the Fourier transform
// makes diagonal (FastRPB eq. 13-18). With c[m mod L] the weight of m = i - j,
//   out = IDFT( DFT(c) * DFT(v) )       the product
//   out = IDFT( conj(DFT(c)) * DFT(g) ) the transposed product
//   gc  = IDFT( DFT(g) * conj(DFT(v)) ) the gradient of c
// and nothing wraps around as long as L >= n_q + n_k - 1 in each dimension.
//
// Transforms run in place on contiguous columns: strided ones on [n, e] are 4
// to 7 times slower than transposing first.
#pragma once

#include <fftw3.h>

#include <complex>
#include <cstdint>
#include <mutex>
#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/toeplitz/fft_lengths.h"

namespace subquad {

// Gives FFTW's functions of both precisions the same names.
template <typename T>
struct Fftw;
template <>
struct Fftw<float> {
  using Plan = fftwf_plan;
  using Complex = fftwf_complex;
  static constexpr auto kPlanForward = fftwf_plan_dft_r2c;
  static constexpr auto kPlanBackward = fftwf_plan_dft_c2r;
  static constexpr auto kForward = fftwf_execute_dft_r2c;
  static constexpr auto kBackward = fftwf_execute_dft_c2r;
  static constexpr auto kDestroy = fftwf_destroy_plan;
  static constexpr auto kSetTimeLimit = fftwf_set_timelimit;
};
template <>
struct Fftw<double> {
  using Plan = fftw_plan;
  using Complex = fftw_complex;
  static constexpr auto kPlanForward = fftw_plan_dft_r2c;
  static constexpr auto kPlanBackward = fftw_plan_dft_c2r;
  static constexpr auto kForward = fftw_execute_dft_r2c;
  static constexpr auto kBackward = fftw_execute_dft_c2r;
  static constexpr auto kDestroy = fftw_destroy_plan;
  static constexpr auto kSetTimeLimit = fftw_set_timelimit;
};

inline constexpr double kTuningSeconds = 1;

template <typename T>
class CirculantFft {
 public:
  using Complex = std::complex<T>;

  // Makes plans for columns of these lengths (one or two of them). A layout
  // that tunes measures plans, for at most kTuningSeconds each; a layout that
  // counts makes none.
  CirculantFft(Layout& layout, const std::vector<int64_t>& lengths);
  ~CirculantFft();
  CirculantFft(const CirculantFft&) = delete;
  CirculantFft& operator=(const CirculantFft&) = delete;

  // Layout of a column in place: `row_stride` elements per row of the last
  // dimension, of which the first `length` are used; `column_size` in all. In
  // one dimension there is one such row.
  int64_t row_stride() const { return row_stride_; }
  int64_t column_size() const { return column_size_; }
  // Returns the flops of one real transform, by the usual count.
  double TransformFlops() const;

  // Columns must be aligned to 64 bytes (Buffer aligns them, and column_size()
  // is a multiple of 64 bytes).
  void Forward(T* column) const {
    Fftw<T>::kForward(forward_, column,
                      reinterpret_cast<typename Fftw<T>::Complex*>(column));
  }
  // Includes the division by the length.
  void Backward(T* column) const;

  // Computes column *= spectrum, or *= conj(spectrum), both transformed.
  void Multiply(const T* spectrum, bool conjugate, T* column) const;
  // Computes sum += a * conj(b), all transformed.
  void AddProduct(const T* a, const T* b, T* sum) const;

 private:
  static int64_t ColumnSize(const std::vector<int64_t>& lengths);
  // Returns the number of elements that the plans store: twiddle factors, about
  // 2.5 per point.
  static double PlanNumbers(const std::vector<int64_t>& lengths);
  void Plan(const std::vector<int64_t>& lengths, bool tune);

  int64_t points_, row_stride_, column_size_;
  typename Fftw<T>::Plan forward_ = nullptr, backward_ = nullptr;
};

// Embeds weights by offset into the first column of the circulant matrix,
// before its transform:
//   column[m mod length] = w(-m),  -keys < m < queries,
// where `middle` points to w(0). The rest is unchanged.
template <typename T>
void EmbedOffsets(const T* middle, int64_t queries, int64_t keys,
                  int64_t length, T* column);

// Embeds weights [2 height - 1, 2 width - 1] by both offsets of an image, with
// ImageFftLengths and rows of the column row_stride apart.
template <typename T>
void EmbedImageOffsets(const T* weights, int64_t height, int64_t width,
                       int64_t row_stride, T* column);

// Reverses EmbedImageOffsets for sums by offsets: weights[..] = column[..].
template <typename T>
void TakeImageOffsets(const T* column, int64_t height, int64_t width,
                      int64_t row_stride, T* weights);

extern template class CirculantFft<float>;
extern template class CirculantFft<double>;

// Columns per pass through memory: 16 floats fill a cache line of a row.
inline constexpr int64_t kColumnGroup = 16;

// Gathers columns,
//   column[c * column_size + (r / width) * row_stride + r % width]
//   = rows[r * row_width + c], for r < n, c < columns;
// and sets the rest to zero.
template <typename T>
void GatherColumns(const T* rows, int64_t n, int64_t row_width, int64_t columns,
                   int64_t image_width, int64_t row_stride, int64_t column_size,
                   T* column);

// Reverses GatherColumns: rows[..] = column[..].
template <typename T>
void ScatterColumns(const T* column, int64_t n, int64_t row_width,
                    int64_t columns, int64_t image_width, int64_t row_stride,
                    int64_t column_size, T* rows);

}  // namespace subquad
