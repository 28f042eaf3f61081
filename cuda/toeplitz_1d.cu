// toeplitz_1d on the GPU: out[i] = sum_j w(j - i) v[j]
//
//   dense  the matrix in memory times the values, by cuBLAS
//   fft    circulant embedding with cuFFT; a load kernel transposes and pads, a
//          store kernel transposes back
#include <cmath>
#include <vector>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/toeplitz/dense_product.h"
#include "cuda/toeplitz/toeplitz_product.h"
#include "reference/contract/norms.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

ToeplitzShape ShapeOf(const Problem& problem) {
  return {problem.Dim("n_q"),
          problem.Dim("n_k"),
          problem.Dim("e"),
          problem.heads,
          problem.SlicesOf("weights").count(),
          problem.params.Flag("causal")};
}

// Fills matrix[i][j] = w(j - i).
template <typename S>
__global__ void Materialize(const S* weights, int64_t head_stride, int64_t n_q,
                            int64_t n_k, bool causal, S* matrix) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= n_q * n_k) return;
  const int64_t i = at / n_k, j = at % n_k;
  const S weight = weights[blockIdx.y * head_stride + j - i + n_q - 1];
  Store(causal && j > i ? 0.0f : ToFloat(weight),
        matrix + blockIdx.y * n_q * n_k + at);
}

template <typename S>
class Dense : public DevicePrepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(ShapeOf(problem)),
        product_(layout, shape_.n_q, shape_.n_k, shape_.e, shape_.heads,
                 shape_.vectors) {}

  void Launch() override {
    const auto weights = In<S>("weights");
    SUBQUAD_LAUNCH(
        Materialize<S>,
        Grid(PiecesOf(shape_.n_q * shape_.n_k, kThreads), shape_.vectors),
        kThreads, 0, weights.data, weights.head_stride, shape_.n_q, shape_.n_k,
        shape_.causal, product_.matrix());
    product_.Run(In<S>("values"), Out<S>("out"), adds());
  }

  double Flops() const override {
    return 2 * static_cast<double>(shape_.n_q) *
           static_cast<double>(shape_.n_k) *
           static_cast<double>(shape_.e * shape_.heads);
  }

 private:
  const ToeplitzShape shape_;
  DenseProduct<S> product_;
};

template <typename S, typename Sum>
class Fft : public DevicePrepared {
 public:
  Fft(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        product_(layout, ShapeOf(problem)) {}

  void Launch() override {
    product_.Run<S, S, Sum>(In<S>("weights"), In<S>("values"), Out<Sum>("out"),
                            adds());
  }

  double Flops() const override { return product_.Flops(); }

 private:
  ToeplitzProduct product_;
};

// The bound of optimized/toeplitz_1d.cc: 2 log2(L) u |w|_2 |v|_2.
RowBound FftBound(const Problem& problem, const Inputs& inputs) {
  const ToeplitzShape shape = ShapeOf(problem);
  const double factor = 2 * std::log2(static_cast<double>(shape.Length()));
  return ColumnBound(
      inputs["values"], shape.heads, shape.n_k, shape.e, [&](int64_t head) {
        return factor *
               Norm(inputs["weights"].Head(head), shape.n_q + shape.n_k - 1);
      });
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> Toeplitz1dCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "toeplitz_1d",
      {{.id = "dense",
        .what = "materialised matrix times values by cuBLAS",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "fft",
        .what =
            "circulant embedding, cuFFT on as many columns as the cache holds",
        .sums = MixedSums,
        .norm_bound = FftBound,
        .prepare = PrepareOnDevice<Fft>()}});
}

}  // namespace subquad
