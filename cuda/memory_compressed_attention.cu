// memory_compressed_attention on the GPU: softmax attention to floor(n_k/s)
// keys and values, each a weighted sum of s neighbours
//
//   dense       the sums, then two products by cuBLAS with the scores
//               [n_q, n_k/s] in memory
//   compressed  the sums, then one kernel with the scores in registers
//               (softmax_tiles.h)
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/softmax/reduced_attention.h"
#include "reference/contract/softmax_scale.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

SoftmaxShape ShapeOf(const Problem& problem) {
  return {problem.heads, problem.Dim("n_q"),
          problem.Dim("n_k") / problem.params.Integer("stride"),
          problem.Dim("d"), problem.Dim("e")};
}

// Computes sums[h][a][x] = sum_b theta[h][b] rows[h][a stride + b][x], one sum
// per thread.
template <typename S>
__global__ void Compress(HeadArray<const S> theta, int64_t stride,
                         HeadArray<const S> rows, int64_t heads, int64_t count,
                         int64_t width, float* sums) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= heads * count * width) return;
  const int64_t x = at % width, a = at / width % count, h = at / width / count;
  const S* weights = theta.data + h * theta.head_stride;
  const S* from = rows.data + h * rows.head_stride + a * stride * width + x;
  float sum = 0;
#pragma unroll 4
  for (int64_t b = 0; b < stride; ++b)
    sum += ToFloat(weights[b]) * ToFloat(from[b * width]);
  sums[at] = sum;
}

template <typename S, template <typename> class Attention>
class MemoryCompressed : public DevicePrepared {
 public:
  MemoryCompressed(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(ShapeOf(problem)),
        stride_(problem.params.Integer("stride")),
        scale_(ScoreScale<float>(problem)),
        keys_(layout, shape_.heads * shape_.n_k * shape_.d),
        values_(layout, shape_.heads * shape_.n_k * shape_.e),
        attention_(layout, shape_) {}

  void Launch() override {
    const auto keys = Sums(In<S>("theta_k"), In<S>("k"), shape_.d, keys_);
    const auto values = Sums(In<S>("theta_v"), In<S>("v"), shape_.e, values_);
    attention_.Run(scale_, In<S>("q"), keys, values, Out<S>("out"));
  }

  double Flops() const override {
    return 2 * static_cast<double>(stride_) *
               static_cast<double>(keys_.size() + values_.size()) +
           Attention<S>::Flops(shape_);
  }

 private:
  HeadArray<const float> Sums(HeadArray<const S> theta, HeadArray<const S> rows,
                              int64_t width,
                              const DeviceBuffer<float>& sums) const {
    SUBQUAD_LAUNCH(Compress<S>, Grid(PiecesOf(sums.size(), kThreads)), kThreads,
                   0, theta, stride_, rows, shape_.heads, shape_.n_k, width,
                   sums.data());
    return {sums.data(), shape_.n_k * width};
  }

  const SoftmaxShape shape_;  // n_k is the number of reduced keys
  const int64_t stride_;
  const float scale_;
  DeviceBuffer<float> keys_, values_;
  Attention<S> attention_;
};

template <typename S>
using Dense = MemoryCompressed<S, DenseToReduced>;
template <typename S>
using Compressed = MemoryCompressed<S, TiledToReduced>;

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> MemoryCompressedAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "memory_compressed_attention",
      {{.id = "dense",
        .what = "compressed keys, then two GEMMs (cuBLAS), scores in memory",
        .sums = DirectSums,
        .bound_factor = DenseToReduced<float>::kBoundFactor,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "compressed",
        .what = "compressed keys, then online softmax, scores in registers",
        .sums = DirectSums,
        .bound_factor = TiledToReduced<float>::kBoundFactor,
        .prepare = PrepareOnDevice<Compressed>()}});
}

}  // namespace subquad
