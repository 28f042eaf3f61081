// The product with a row bias and a column bias on an image (FastRPB
// proposition 3.2, appendix B.3), as a part of operators on a device.
#pragma once

#include <optional>

#include "cuda/toeplitz/toeplitz_product.h"

namespace subquad::device {

struct ImageShape {
  int64_t height, width;
  int64_t e, heads;
  bool rows_per_head, cols_per_head;  // whether each head has its own weights
};

class ImageSums {
 public:
  ImageSums(Layout& layout, const ImageShape& shape);

  // Computes out[h][(r,c)] = sum (rows(r'-r) + cols(c'-c)) values[h][(r',c')];
  // with `add`, += that, in float only. A row of the image enters only through
  // its sum, and so does a column: the values are read once.
  template <typename S, typename Out>
  void Run(HeadArray<const S> rows, HeadArray<const S> cols,
           HeadArray<const S> values, HeadArray<Out> out, bool add = false);

  double Flops() const;
  // The product of up to this many sums is direct: that needs fewer launches
  // than transforms, and no more time.
  static constexpr int64_t kDirect = 512;
  // Rows and columns are added up within tiles of this size, then over tiles.
  static constexpr int kTile = 32;

 private:
  // Multiplies the sums along one axis, [heads, n, e], by its weights.
  class Line {
   public:
    Line(Layout& layout, int64_t n, int64_t e, int64_t heads, bool per_head);
    template <typename S>
    void Run(HeadArray<const S> weights);

    float* sums() const { return sums_.data(); }
    const float* products() const { return products_.data(); }
    double Flops() const;

   private:
    const int64_t n_, e_, heads_;
    DeviceBuffer<float> sums_, products_;
    std::optional<ToeplitzProduct> transforms_;  // for long lines
  };

  const ImageShape shape_;
  DeviceBuffer<float> row_parts_, col_parts_;  // sums over a tile of the image
  Line rows_, cols_;
};

}  // namespace subquad::device
