// kernelized_clipped_rpe_attention on the GPU: out_i = sum_j A_ij v_j / sum_j
// A_ij, A_ij = phi(q_i).phi(k_j) + phi(q_i).rpe[clip(j-i, -r, r) + r], phi =
// elu + 1 (LRPE section IV)
//
//   dense   A in memory by cuBLAS, times the values
//   linear  the content term by a (running) state, the position term by sums of
//           the values before and after a window, and the window in tiles
#include "cuda/base/convert.h"
#include "cuda/base/prepared.h"
#include "cuda/base/warp.h"
#include "cuda/implementations.h"
#include "cuda/kernelized/clipped_position.h"
#include "cuda/kernelized/dense.h"
#include "cuda/kernelized/linear_state.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

struct BlockSums {
  float at[kThreads / kWarp];
};

// Computes weights[i][j] += positions[i][clip(j - i) + r], zero where key j is
// not visible, and the sum of each row. Uses one block per query.
__global__ void __launch_bounds__(kThreads)
    AddPositions(const float* positions, int64_t r, bool causal, int64_t n_q,
                 int64_t n_k, float* weights, float* normalisers) {
  SUBQUAD_SHARED(BlockSums, shared);
  const int64_t i = blockIdx.x, row = blockIdx.y * n_q + i;
  positions += row * (2 * r + 1) + r;
  weights += row * n_k;
  float sum = 0.0f;
  for (int64_t j = threadIdx.x; j < n_k; j += kThreads) {
    const bool visible = !causal || j <= i;
    const float weight =
        visible ? weights[j] + positions[max(-r, min(r, j - i))] : 0.0f;
    weights[j] = weight;
    sum += weight;
  }
  sum = SumOfBlock<kThreads>(sum, shared.at);
  if (threadIdx.x == 0) normalisers[row] = sum;
}

template <typename S>
class Dense : public DevicePrepared {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(problem),
        queries_(layout, shape_.heads * shape_.n_q * shape_.d),
        keys_(layout, shape_.heads * shape_.n_k * shape_.d),
        rpe_(layout, shape_.embeddings * Rows() * shape_.d),
        positions_(layout, shape_.heads * shape_.n_q * Rows()),
        quotient_(layout, shape_.heads, shape_.n_q, shape_.n_k, shape_.e) {}

  void Launch() override {
    const int64_t heads = shape_.heads, n_q = shape_.n_q, d = shape_.d;
    ClippedFeatures(shape_, In<S>("q"), In<S>("k"), queries_.data(),
                    keys_.data());
    const HeadArray<const float> rpe = rpe_.Run(this->template In<S>("rpe"));
    quotient_.Scores(queries_.data(), keys_.data(), d);
    quotient_.gemm().template Run<float>(
        heads, 1, {queries_.data(), n_q, d, d, n_q * d},
        {rpe.data, Rows(), d, d, rpe.head_stride, true}, 0,
        {positions_.data(), n_q, Rows(), Rows(), n_q * Rows()});
    SUBQUAD_LAUNCH(AddPositions, Grid(n_q, heads), kThreads, sizeof(BlockSums),
                   positions_.data(), shape_.r, shape_.causal, n_q, shape_.n_k,
                   quotient_.weights(), quotient_.normalisers());
    quotient_.Run(In<S>("v"), Out<S>("out"));
  }

  double Flops() const override {
    return 2 * static_cast<double>(shape_.heads * shape_.n_q) *
           static_cast<double>(shape_.n_k * (shape_.d + shape_.e) +
                               Rows() * shape_.d);
  }

 private:
  int64_t Rows() const { return 2 * shape_.r + 1; }

  const ClippedShape shape_;
  DeviceBuffer<float> queries_, keys_;
  Widened<S> rpe_;
  DeviceBuffer<float> positions_;  // [heads, n_q, 2 r + 1]
  DenseQuotient<S> quotient_;
};

LinearShape StateOf(const ClippedShape& shape) {
  return {shape.n_q, shape.n_k, shape.d, shape.e, shape.heads, shape.causal};
}

template <typename S>
class Linear : public DevicePrepared {
 public:
  Linear(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(problem),
        queries_(layout, shape_.heads * shape_.n_q * shape_.d),
        keys_(layout, shape_.heads * shape_.n_k * shape_.d),
        sums_(layout, shape_.heads * shape_.n_q * shape_.e),
        normalisers_(layout, shape_.heads * shape_.n_q),
        content_(layout, StateOf(shape_)),
        position_(layout, shape_) {}

  void Launch() override {
    ClippedFeatures(shape_, In<S>("q"), In<S>("k"), queries_.data(),
                    keys_.data());
    content_.Run(queries_.data(), keys_.data(), {}, In<S>("v"),
                 HeadArray<float>{sums_.data(), shape_.n_q * shape_.e},
                 normalisers_.data());
    position_.Run(queries_.data(), In<S>("rpe"), In<S>("v"), sums_.data(),
                  normalisers_.data(), Out<S>("out"));
  }

  double Flops() const override {
    return LinearState::Flops(StateOf(shape_)) +
           ClippedPosition<S>::Flops(shape_);
  }

 private:
  const ClippedShape shape_;
  DeviceBuffer<float> queries_, keys_, sums_, normalisers_;
  LinearState content_;
  ClippedPosition<S> position_;
};

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> KernelizedClippedRpeAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "kernelized_clipped_rpe_attention",
      {{.id = "dense",
        .what = "scores in memory times v, by cuBLAS",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "linear",
        .what = "content by a (running) state, position by tails and a window",
        .memory = {"O(n (d + e))", "n"},
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Linear>()}});
}

}  // namespace subquad
