// fastrpb_attention on the GPU: out = attention(q, k, v) + W v, W_ij = w(j - i)
// (FastRPB eq. 10)
//
//   dense                    both matrices in memory, both by cuBLAS
//   softmax_fft, softmax_xy  tiled softmax attention, and W v by FFT or, on an
//                            image, from row and column sums
//   linear_fft, linear_xy    linear attention, and W v as above
//
// Only the sum is computed here: its two terms are implementations of
// softmax_attention, linear_attention, toeplitz_1d, toeplitz_2d_xy and
// toeplitz_2d. The attention writes the output and the product adds to it, in
// float32. A causal image has weights that depend on both offsets and is
// transformed as one sequence.
#include <type_traits>

#include "cuda/base/convert.h"
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "reference/contract/fastrpb_attention.h"
#include "reference/contract/find_implementation.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

const Implementation& ProductProgram(const Problem& problem, bool dense) {
  static const auto kLine = Toeplitz1dCudaImplementations();
  static const auto kRowsAndColumns = Toeplitz2dXyCudaImplementations();
  static const auto kImage = Toeplitz2dCudaImplementations();
  if (!IsImage(problem))
    return FindImplementation(kLine, dense ? "dense" : "fft");
  if (NeedsFullImage(problem))
    return FindImplementation(kImage, dense ? "dense" : "fft_sequence");
  return FindImplementation(kRowsAndColumns, dense ? "dense" : "xy");
}

const Implementation& AttentionProgram(const Problem& problem, bool dense) {
  static const auto kSoftmax = SoftmaxAttentionCudaImplementations();
  static const auto kLinear = LinearAttentionCudaImplementations();
  if (IsSoftmax(problem))
    return FindImplementation(kSoftmax, dense ? "dense" : "tiled");
  if (dense) return FindImplementation(kLinear, "dense");
  return FindImplementation(
      kLinear, problem.params.Flag("causal") ? "chunked" : "associative");
}

// Computes FillImageWeights for each head.
template <typename S>
__global__ void CausalImageWeights(const S* rows, int64_t rows_stride,
                                   const S* cols, int64_t cols_stride,
                                   int64_t height, int64_t width,
                                   float* weights) {
  const int64_t pitch = 2 * width - 1, count = (2 * height - 1) * pitch;
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const int64_t row = at / pitch, col = at % pitch;
  const bool visible = row < height - 1 || (row == height - 1 && col < width);
  weights[blockIdx.y * count + at] =
      visible ? ToFloat(rows[blockIdx.y * rows_stride + row]) +
                    ToFloat(cols[blockIdx.y * cols_stride + col])
              : 0.0f;
}

template <typename S, bool kDense>
class SumOfTwo : public DevicePrepared {
 public:
  SumOfTwo(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout) {
    Arrays whole = tensors();
    whole.on_device = true;
    const auto widen = [&](Arrays::Entry& entry, DeviceBuffer<float>& buffer) {
      buffer = DeviceBuffer<float>(layout, entry.count);
      entry.data = buffer.data();
      entry.scalar = Scalar::kFloat32;
    };
    if (kNarrow && kDense)
      for (Arrays::Entry& entry : whole.inputs)
        widen(entry, widened_.emplace_back());
    if (kNarrow) widen(whole.outputs[0], sum_);

    // The baseline uses float32 tensors, widened from narrower types.
    Problem parts = problem;
    if (kDense) parts.scalar = Scalar::kFloat32;
    const Problem attention = AttentionOf(parts);
    attention_ = AttentionProgram(problem, kDense)
                     .prepare(attention, PartOf(attention, whole), layout);

    const Problem product = ProductOf(parts);
    Arrays factors = PartOf(product, whole);
    factors.add = true;
    if (NeedsFullImage(problem)) {
      height_ = problem.Dim("height");
      width_ = problem.Dim("width");
      weight_heads_ = product.SlicesOf("weights").count();
      widen(factors.inputs[static_cast<size_t>(product.InputIndex("weights"))],
            image_weights_);
    }
    product_ =
        ProductProgram(problem, kDense).prepare(product, factors, layout);
  }

  void Launch() override {
    for (size_t i = 0; i < widened_.size(); ++i)
      Convert(static_cast<const S*>(tensors().inputs[i].data),
              widened_[i].size(), widened_[i].data());
    if (image_weights_.size() > 0) {
      const auto rows = In<S>("weights_rows"), cols = In<S>("weights_cols");
      SUBQUAD_LAUNCH(
          CausalImageWeights<S>,
          Grid(PiecesOf(image_weights_.size() / weight_heads_, kThreads),
               weight_heads_),
          kThreads, 0, rows.data, rows.head_stride, cols.data, cols.head_stride,
          height_, width_, image_weights_.data());
    }
    attention_->OnDevice()->Launch();
    product_->OnDevice()->Launch();
    if constexpr (kNarrow)
      Convert(sum_.data(), sum_.size(), Out<S>("out").data);
  }

  double Flops() const override {
    return attention_->Flops() + product_->Flops();
  }

 private:
  static constexpr bool kNarrow = sizeof(S) < sizeof(float);
  int64_t height_ = 0, width_ = 0, weight_heads_ = 1;
  std::vector<DeviceBuffer<float>> widened_;
  DeviceBuffer<float> sum_, image_weights_;
  std::unique_ptr<Prepared> attention_, product_;
};
template <typename S>
using Dense = SumOfTwo<S, true>;
template <typename S>
using Fast = SumOfTwo<S, false>;

RowBound SumBound(const Problem& problem, const Inputs& inputs) {
  return FastRpbBound(problem, inputs, ProductProgram(problem, false));
}

// The attention itself sums directly.
Sums ProductSums(const Problem& problem) {
  return ProductProgram(problem, false).sums(ProductOf(problem));
}

Implementation FastRow(const char* id, const char* what) {
  return {.id = id,
          .what = what,
          .sums = ProductSums,
          .norm_bound = SumBound,
          .prepare = PrepareOnDevice<Fast>()};
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> FastRpbAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "fastrpb_attention",
      {{.id = "dense",
        .what = "attention weights and W in memory, both by cuBLAS",
        .sums = DirectSums,
        .prepare = PrepareOnDevice<Dense>()},
       FastRow("softmax_fft", "tiled softmax attention, and W v by FFT"),
       FastRow("softmax_xy",
               "tiled softmax attention, and W v from row and column sums"),
       FastRow("linear_fft", "linear attention, and W v by FFT"),
       FastRow("linear_xy",
               "linear attention, and W v from row and column sums")});
}

}  // namespace subquad
