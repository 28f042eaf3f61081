// Products with circulant matrices of one or two levels by cuFFT, for columns
// of row-major tensors: transposed and padded on the way in, cut and transposed
// on the way out, as many at a time as fit into the device's cache.
#pragma once

#include <vector>

#include "cuda/base/fft.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

// The places of a tensor's rows in a padded column: row j is at element j /
// width * pitch + j % width, of `rows` rows; zeros elsewhere. A sequence has
// width = rows and a pitch of at least that; an image is laid out with a pitch.
struct PaddedRows {
  int64_t rows, width, pitch;
};

struct CirculantShape {
  std::vector<int64_t> lengths;  // of the transforms: one or two extents
  PaddedRows in, out;
  int64_t e;  // columns of a head
  int64_t heads;
  int64_t vectors;  // first columns of circulants: 1, or one for each head
};

class CirculantProduct {
 public:
  CirculantProduct(Layout& layout, const CirculantShape& shape);

  // Memory [vectors, column_size()] to which the caller writes the first
  // columns of the circulants.
  float* first_columns() const { return vectors_and_columns_.data(); }
  int64_t column_size() const { return size_; }

  // Computes out[h][i][c] = element i of circulant(h) values[h][.][c]; with
  // `add`, += that (Out is then float: the caller rounds a sum to a storage
  // type once). Replaces the first columns by their transforms.
  template <typename S, typename Out>
  void Run(HeadArray<const S> values, HeadArray<Out> out, bool add);

  // Counts two transforms of each column and one of each vector, 2.5 L log2 L
  // operations each.
  double Flops() const;

 private:
  const CirculantShape shape_;
  // True if all columns, and the first columns of the circulants, are
  // transformed at once: a transform of few columns leaves a device idle.
  bool together() const { return columns_at_once_ == shape_.heads * shape_.e; }

  const int64_t size_, columns_at_once_;
  DeviceBuffer<float> vectors_and_columns_;
  FftPlan vector_plan_, plan_;
  FftArea area_;
};

}  // namespace subquad::device
