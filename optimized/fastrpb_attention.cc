// fastrpb_attention: out = attention(q, k, v) + W v, W_ij = w(j - i) (FastRPB
// eq. 10)
//
//   dense        both matrices in memory, both by GEMM: O(n^2 (d + e)).
//   softmax_fft  tiled softmax attention, and W v by FFT. The attention stays
//                quadratic; the positions cost next to nothing.
//   softmax_xy   the same on an image: W v from row and column sums.
//   linear_fft   linear attention, and W v by FFT: O(n (f e + e log n)).
//                Causal, token by token. On a causal image W is no longer a sum
//                of rows and columns, and is multiplied as one sequence.
//   linear_xy    linear attention, and W v from row and column sums: O(n f e).
//
// Only the sum is computed here: its two terms are implementations of
// softmax_attention, linear_attention, toeplitz_1d, toeplitz_2d_xy and
// toeplitz_2d.
#include "reference/contract/fastrpb_attention.h"

#include "optimized/base/buffer.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "reference/contract/find_implementation.h"

namespace subquad {
namespace {

const Implementation& ProductProgram(const Problem& problem, bool dense) {
  static const auto kLine = Toeplitz1dImplementations();
  static const auto kRowsAndColumns = Toeplitz2dXyImplementations();
  static const auto kImage = Toeplitz2dImplementations();
  if (!IsImage(problem))
    return FindImplementation(kLine, dense ? "dense" : "fft_columns");
  if (NeedsFullImage(problem))
    return FindImplementation(kImage, dense ? "dense" : "fft_sequence");
  return FindImplementation(kRowsAndColumns, dense ? "dense" : "xy");
}

const Implementation& AttentionProgram(const Problem& problem, bool dense) {
  static const auto kSoftmax = SoftmaxAttentionImplementations();
  static const auto kLinear = LinearAttentionImplementations();
  if (IsSoftmax(problem))
    return FindImplementation(kSoftmax, dense ? "dense" : "tiled");
  if (dense) return FindImplementation(kLinear, "dense");
  return FindImplementation(
      kLinear, problem.params.Flag("causal") ? "recurrent" : "associative");
}

template <typename T, bool kDense>
class SumOfTwo : public Prepared {
 public:
  SumOfTwo(const Problem& problem, const Arrays& arrays, Layout& layout)
      : problem_(problem), arrays_(arrays), pool_(layout) {
    const Problem attention = AttentionOf(problem);
    attention_ = AttentionProgram(problem, kDense)
                     .prepare(attention, PartOf(attention, arrays), layout);

    const Problem product = ProductOf(problem);
    Arrays factors = PartOf(product, arrays);
    product_out_ = Buffer<T>(layout, arrays.outputs[0].count);
    factors.outputs[0].data = product_out_.data();
    if (NeedsFullImage(problem)) {
      Arrays::Entry& weights =
          factors.inputs[static_cast<size_t>(product.InputIndex("weights"))];
      weight_slices_ = weights.slices.count();
      image_weights_ = Buffer<T>(layout, weights.count);
      weights.data = image_weights_.data();
    }
    product_ =
        ProductProgram(problem, kDense).prepare(product, factors, layout);
  }

  void Run() override {
    if (image_weights_.size() > 0) {
      const int64_t size = image_weights_.size() / weight_slices_;
      for (int64_t slice = 0; slice < weight_slices_; ++slice)
        FillImageWeights(problem_.Dim("height"), problem_.Dim("width"),
                         arrays_.In<T>("weights_rows").Head(slice),
                         arrays_.In<T>("weights_cols").Head(slice),
                         image_weights_.data() + slice * size);
    }
    product_->Run();
    attention_->Run();
    T* out = arrays_.Out<T>("out").data;
    constexpr int64_t kPiece = 1 << 15;
    const int64_t count = product_out_.size();
    pool_.For((count + kPiece - 1) / kPiece, [&](int64_t piece, int) {
      const int64_t end = std::min(count, (piece + 1) * kPiece);
      for (int64_t x = piece * kPiece; x < end; ++x) out[x] += product_out_[x];
    });
  }

  double Flops() const override {
    return attention_->Flops() + product_->Flops() +
           static_cast<double>(product_out_.size() + image_weights_.size());
  }

 private:
  const Problem problem_;
  const Arrays arrays_;
  ThreadPool pool_;
  int64_t weight_slices_ = 1;
  Buffer<T> product_out_, image_weights_;
  std::unique_ptr<Prepared> attention_, product_;
};

template <typename T>
using DenseSum = SumOfTwo<T, true>;
template <typename T>
using FastSum = SumOfTwo<T, false>;

// The attention itself sums directly.
Sums ProductSums(const Problem& problem) {
  return ProductProgram(problem, false).sums(ProductOf(problem));
}

RowBound SumBound(const Problem& problem, const Inputs& inputs) {
  return FastRpbBound(problem, inputs, ProductProgram(problem, false));
}

Implementation Fast(const char* id, const char* what_it_does) {
  return {.id = id,
          .what = what_it_does,
          .sums = ProductSums,
          .norm_bound = SumBound,
          .prepare = PrepareFor<FastSum>};
}

}  // namespace

std::vector<Implementation> FastRpbAttentionImplementations() {
  return CpuTable(
      "fastrpb_attention",
      {{.id = "dense",
        .what = "attention weights and W in memory, both by GEMM",
        .sums = DirectSums,
        .prepare = PrepareFor<DenseSum>},
       Fast("softmax_fft", "tiled softmax attention, and W v by FFT"),
       Fast("softmax_xy",
            "tiled softmax attention, and W v from row and column sums"),
       Fast("linear_fft", "linear attention, and W v by FFT"),
       Fast("linear_xy",
            "linear attention, and W v from row and column sums")});
}

}  // namespace subquad
