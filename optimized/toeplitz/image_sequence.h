// An image as one sequence, for products by offsets.
//
// Each row of W pixels is followed by W - 1 zeros: pixel (r, c) is element r
// (2W - 1) + c. The offset of two elements, (r' - r)(2W - 1) + (c' - c) with
// |c' - c| < W, then determines both r' - r and c' - c, so a product over the
// offsets of an image is a product over those of a sequence, and its weights
// [2H - 1, 2W - 1] are those of the sequence in the same memory order.
#pragma once

#include <algorithm>
#include <cstdint>

#include "optimized/toeplitz/fft_columns.h"

namespace subquad {

class ImageSequence {
 public:
  ImageSequence(int64_t height, int64_t width)
      : height_(height), width_(width) {}

  int64_t pitch() const { return 2 * width_ - 1; }
  // The length up to the last pixel: about twice as many elements as pixels.
  int64_t length() const { return (height_ - 1) * pitch() + width_; }

  // Visits elements [first, first + count) by runs: pixels(pixel, run, at) for
  // pixels, zeros(run, at) for the others; `at` counts from `first`.
  template <typename Pixels, typename Zeros>
  void ForRuns(int64_t first, int64_t count, const Pixels& pixels,
               const Zeros& zeros) const {
    if (first + count <= width_) return pixels(first, count, 0);
    int64_t row = first / pitch(), column = first % pitch();
    for (int64_t at = 0; at < count;) {
      const bool inside = column < width_;
      const int64_t end = inside ? width_ : pitch();
      const int64_t run = std::min(count - at, end - column);
      if (inside)
        pixels(row * width_ + column, run, at);
      else
        zeros(run, at);
      at += run;
      column += run;
      if (column == pitch()) ++row, column = 0;
    }
  }

 private:
  int64_t height_, width_;
};

// Multiplies a block of columns as ToeplitzColumns::Apply does, for `product`
// of the image's length with itself. Rows of `values` and `out` are pixels, and
// no call of their functions crosses a row of the image.
template <typename T>
void ApplyToImage(const ToeplitzColumns<T>& product, const ImageSequence& image,
                  const T* spectrum, const RowSource<T>& values,
                  int64_t columns, const RowSink<T>& out, T* scratch);

// Compute the transposed product, and the gradient of the weights, likewise.
template <typename T>
void ApplyTransposedToImage(const ToeplitzColumns<T>& product,
                            const ImageSequence& image, const T* spectrum,
                            const RowSource<T>& grad, int64_t columns,
                            const RowSink<T>& out, T* scratch);
template <typename T>
void AccumulateImageGradient(const ToeplitzColumns<T>& product,
                             const ImageSequence& image,
                             const RowSource<T>& grad,
                             const RowSource<T>& values, int64_t columns,
                             T* sum, T* scratch);

}  // namespace subquad
