// toeplitz_2d on the GPU: out[(r,c)] = sum w(r'-r, c'-c) v[(r',c')]
//
//   dense         the matrix in memory times the values, by cuBLAS
//   fft2          two-level circulant embedding, 2-D transforms by cuFFT
//   fft_sequence  the image as one sequence, 1-D transforms by cuFFT
#include <cmath>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/toeplitz/dense_product.h"
#include "cuda/toeplitz/toeplitz_product.h"
#include "reference/contract/norms.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

struct Sizes {
  explicit Sizes(const Problem& problem)
      : height(problem.Dim("height")),
        width(problem.Dim("width")),
        e(problem.Dim("e")),
        heads(problem.heads),
        vectors(problem.SlicesOf("weights").count()) {}
  int64_t pixels() const { return height * width; }
  CirculantShape Circulant() const {
    const std::vector<int64_t> lengths = {GoodFftLength(2 * height - 1),
                                          GoodFftLength(2 * width - 1)};
    const PaddedRows rows = {pixels(), width, lengths[1]};
    return {lengths, rows, rows, e, heads, vectors};
  }
  ToeplitzShape Sequence() const {
    return ImageSequenceShape(height, width, e, heads, vectors);
  }
  int64_t height, width, e, heads, vectors;
};

// Fills matrix[(r,c)][(r',c')] = w(r'-r, c'-c).
template <typename S>
__global__ void Materialize(const S* weights, int64_t head_stride,
                            int64_t height, int64_t width, S* matrix) {
  const int64_t pixels = height * width;
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= pixels * pixels) return;
  const int64_t i = at / pixels, j = at % pixels;
  const int64_t row = j / width - i / width + height - 1;
  const int64_t col = j % width - i % width + width - 1;
  matrix[blockIdx.y * pixels * pixels + at] =
      weights[blockIdx.y * head_stride + row * (2 * width - 1) + col];
}

template <typename S>
class Dense : public DevicePrepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        sizes_(problem),
        product_(layout, sizes_.pixels(), sizes_.pixels(), sizes_.e,
                 sizes_.heads, sizes_.vectors) {}

  void Launch() override {
    const auto weights = In<S>("weights");
    SUBQUAD_LAUNCH(Materialize<S>,
                   Grid(PiecesOf(sizes_.pixels() * sizes_.pixels(), kThreads),
                        sizes_.vectors),
                   kThreads, 0, weights.data, weights.head_stride,
                   sizes_.height, sizes_.width, product_.matrix());
    product_.Run(In<S>("values"), Out<S>("out"), adds());
  }

  double Flops() const override {
    return 2 * static_cast<double>(sizes_.pixels()) *
           static_cast<double>(sizes_.pixels()) *
           static_cast<double>(sizes_.e * sizes_.heads);
  }

 private:
  const Sizes sizes_;
  DenseProduct<S> product_;
};

// Fills in the first column of the two-level circulant: at (m_r mod L_r, m_c
// mod L_c) the weight of (-m_r, -m_c).
template <typename S>
__global__ void LoadImageWeights(const S* weights, int64_t head_stride,
                                 int64_t height, int64_t width, int64_t rows,
                                 int64_t cols, float* first_columns) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= rows * cols) return;
  int64_t row = at / cols, col = at % cols;
  if (row >= height) row -= rows;
  if (col >= width) col -= cols;
  const bool is_offset = row > -height && col > -width;
  first_columns[blockIdx.y * rows * cols + at] =
      is_offset
          ? ToFloat(
                weights[blockIdx.y * head_stride +
                        (height - 1 - row) * (2 * width - 1) + width - 1 - col])
          : 0.0f;
}

template <typename S>
class Fft2 : public DevicePrepared {
 public:
  Fft2(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        sizes_(problem),
        product_(layout, sizes_.Circulant()) {}

  void Launch() override {
    const auto weights = In<S>("weights");
    const CirculantShape shape = sizes_.Circulant();
    SUBQUAD_LAUNCH(
        LoadImageWeights<S>,
        Grid(PiecesOf(product_.column_size(), kThreads), sizes_.vectors),
        kThreads, 0, weights.data, weights.head_stride, sizes_.height,
        sizes_.width, shape.lengths[0], shape.lengths[1],
        product_.first_columns());
    product_.Run<S, S>(In<S>("values"), Out<S>("out"), false);
  }

  double Flops() const override { return product_.Flops(); }

 private:
  const Sizes sizes_;
  CirculantProduct product_;
};

// Weights of a term of a sum are in float32, because they are sums themselves.
template <typename S, typename Sum>
class FftSequence : public DevicePrepared {
 public:
  FftSequence(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        product_(layout, Sizes(problem).Sequence(), problem.Dim("width")) {}

  void Launch() override {
    product_.Run<Sum, S, Sum>(In<Sum>("weights"), In<S>("values"),
                              Out<Sum>("out"), adds());
  }

  double Flops() const override { return product_.Flops(); }

 private:
  ToeplitzProduct product_;
};

// The bound of toeplitz_1d/fft, with log2 of the number of all points of the
// transform: the image as one sequence has as many before rounding up.
RowBound FftBound(const Problem& problem, const Inputs& inputs) {
  const Sizes sizes(problem);
  const std::vector<int64_t> lengths = sizes.Circulant().lengths;
  const double factor =
      2 * std::log2(static_cast<double>(lengths[0] * lengths[1]));
  return ColumnBound(
      inputs["values"], sizes.heads, sizes.pixels(), sizes.e,
      [&](int64_t head) {
        return factor * Norm(inputs["weights"].Head(head),
                             (2 * sizes.height - 1) * (2 * sizes.width - 1));
      });
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> Toeplitz2dCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "toeplitz_2d",
      {{.id = "dense",
        .what = "materialised matrix times values by cuBLAS",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "fft2",
        .what = "two-level circulant embedding, 2-D transforms by cuFFT",
        .sums = MixedSums,
        .norm_bound = FftBound,
        .prepare = PrepareOnDevice<Fft2>()},
       {.id = "fft_sequence",
        .what = "the image as one sequence, 1-D transforms by cuFFT",
        .memory = {"O(HW) per column in flight", "n"},
        .sums = MixedSums,
        .norm_bound = FftBound,
        .prepare = PrepareOnDevice<FftSequence>()}});
}

}  // namespace subquad
