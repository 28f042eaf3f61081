// toeplitz_2d_xy on the GPU:
//   out[(r,c)] = sum (w_rows(r'-r) + w_cols(c'-c)) v[(r',c')]
//
//   dense  the matrix in memory times the values, by cuBLAS
//   xy     row and column sums, two 1-D products, a broadcast add
#include <algorithm>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/toeplitz/dense_product.h"
#include "cuda/toeplitz/image_sums.h"
#include "reference/contract/norms.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

ImageShape ShapeOf(const Problem& problem) {
  return {problem.Dim("height"),
          problem.Dim("width"),
          problem.Dim("e"),
          problem.heads,
          problem.SlicesOf("weights_rows").count() > 1,
          problem.SlicesOf("weights_cols").count() > 1};
}

int64_t Matrices(const ImageShape& shape) {
  return shape.rows_per_head || shape.cols_per_head ? shape.heads : 1;
}

// Fills matrix[(r,c)][(r',c')] = rows(r'-r) + cols(c'-c), a sum that 16-bit
// types cannot represent.
template <typename S>
__global__ void Materialize(const S* rows, int64_t rows_stride, const S* cols,
                            int64_t cols_stride, int64_t height, int64_t width,
                            float* matrix) {
  const int64_t pixels = height * width;
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= pixels * pixels) return;
  const int64_t i = at / pixels, j = at % pixels;
  const S row =
      rows[blockIdx.y * rows_stride + j / width - i / width + height - 1];
  const S col =
      cols[blockIdx.y * cols_stride + j % width - i % width + width - 1];
  matrix[blockIdx.y * pixels * pixels + at] = ToFloat(row) + ToFloat(col);
}

template <typename S>
class Dense : public DevicePrepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(ShapeOf(problem)),
        product_(layout, pixels(), pixels(), shape_.e, shape_.heads,
                 Matrices(shape_)) {}

  void Launch() override {
    const auto rows = In<S>("weights_rows"), cols = In<S>("weights_cols");
    SUBQUAD_LAUNCH(
        Materialize<S>,
        Grid(PiecesOf(pixels() * pixels(), kThreads), Matrices(shape_)),
        kThreads, 0, rows.data, rows.head_stride, cols.data, cols.head_stride,
        shape_.height, shape_.width, product_.matrix());
    product_.Run(In<S>("values"), Out<S>("out"), adds());
  }

  double Flops() const override {
    return 2 * static_cast<double>(pixels()) * static_cast<double>(pixels()) *
           static_cast<double>(shape_.e * shape_.heads);
  }

 private:
  int64_t pixels() const { return shape_.height * shape_.width; }
  const ImageShape shape_;
  DenseProduct<S, float> product_;
};

template <typename S, typename Sum>
class Xy : public DevicePrepared {
 public:
  Xy(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        sums_(layout, ShapeOf(problem)) {}

  void Launch() override {
    sums_.Run<S, Sum>(In<S>("weights_rows"), In<S>("weights_cols"),
                      In<S>("values"), Out<Sum>("out"), adds());
  }

  double Flops() const override { return sums_.Flops(); }

 private:
  ImageSums sums_;
};

// A value in a row sum of W pixels passes through at most D = kTile + W / kTile
// additions, so that the sum is off by at most D u |v_row|_1, and the vector of
// row sums by D u sqrt(W) |v|_2; its product with the weights by |w|_2 times
// that. The products add 2 log2(L) u |w|_2 |sums|_2 by transforms, n u of it by
// definition, with |sums|_2 <= sqrt(W) |v|_2. Likewise columns.
RowBound XyBound(const Problem& problem, const Inputs& inputs) {
  const ImageShape shape = ShapeOf(problem);
  const auto part = [&](const double* weights, int64_t summed, int64_t n) {
    const auto additions =
        static_cast<double>(AdditionsInParts(summed, ImageSums::kTile));
    const double product =
        n <= ImageSums::kDirect
            ? static_cast<double>(n)
            : 2 * std::log2(static_cast<double>(GoodFftLength(2 * n - 1)));
    return Norm(weights, 2 * n - 1) * std::sqrt(static_cast<double>(summed)) *
           (additions + product + 1);
  };
  return ColumnBound(inputs["values"], shape.heads, shape.height * shape.width,
                     shape.e, [&](int64_t head) {
                       return part(inputs["weights_rows"].Head(head),
                                   shape.width, shape.height) +
                              part(inputs["weights_cols"].Head(head),
                                   shape.height, shape.width);
                     });
}

Sums XySums(const Problem& problem) {
  const ImageShape shape = ShapeOf(problem);
  return std::max(shape.height, shape.width) <= ImageSums::kDirect
             ? Sums::kDirect
             : Sums::kMixed;
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> Toeplitz2dXyCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "toeplitz_2d_xy",
      {{.id = "dense",
        .what = "materialised matrix times values by cuBLAS",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "xy",
        .what = "row and column sums, two 1-D products, a broadcast add",
        .memory = {"O(e (HW / 16 + H + W))", "n"},
        .sums = XySums,
        .norm_bound = XyBound,
        .prepare = PrepareOnDevice<Xy>()}});
}

}  // namespace subquad
