// W v with W_ij = w(j - i) by circulant embedding (FastRPB eq. 13-18,
// proposition 3.1), as a part of operators on a device.
#pragma once

#include "cuda/toeplitz/fft_circulant.h"

namespace subquad::device {

struct ToeplitzShape {
  int64_t n_q, n_k;
  int64_t e;  // columns of a head
  int64_t heads;
  int64_t vectors;      // vectors of weights: 1, or one for each head
  bool causal = false;  // weights of j > i count as zero

  int64_t Length() const { return GoodFftLength(n_q + n_k - 1); }
};

// Returns the shape of an image of `height` x `width` pixels as one sequence:
// each row of W pixels is followed by W - 1 zeros, so that an offset in it
// determines those of rows and of columns, and the weights [2H - 1, 2W - 1] of
// an image are those of the sequence without rearrangement.
ToeplitzShape ImageSequenceShape(int64_t height, int64_t width, int64_t e,
                                 int64_t heads, int64_t vectors);

class ToeplitzProduct {
 public:
  // Rows of values and out are the pixels of an image of width `image_width` if
  // that is not zero, and the shape is that of its sequence.
  ToeplitzProduct(Layout& layout, const ToeplitzShape& shape,
                  int64_t image_width = 0);

  // Computes out[h][i][c] = sum_j w(j - i) values[h][j][c]; with `add`, +=
  // that, in float only. Columns of a head are e apart.
  template <typename Weight, typename S, typename Out>
  void Run(HeadArray<const Weight> weights, HeadArray<const S> values,
           HeadArray<Out> out, bool add = false);

  double Flops() const { return product_.Flops(); }

 private:
  const ToeplitzShape shape_;
  CirculantProduct product_;
};

}  // namespace subquad::device
