// fastrpb_attention on the GPU: out = attention(q, k, v) + W v, W_ij = w(j - i)
// (FastRPB eq. 10)
//
//   dense                    both matrices in memory, both by cuBLAS
//   softmax_fft, softmax_xy  the tiles of softmax_attention, and W v by FFT or,
//                            on an image, from row and column sums
//   linear_fft, linear_xy    the same with the states of linear_attention
//
// The product is added to the attention where it stands, in float32. A causal
// image has weights of both offsets together and goes through the FFT as one
// sequence.
#include <optional>

#include "algorithms/fastrpb_attention.h"
#include "cuda/base/convert.h"
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/kernelized/dense.h"
#include "cuda/kernelized/linear.h"
#include "cuda/softmax/dense_attention.h"
#include "cuda/softmax/softmax_tiles.h"
#include "cuda/toeplitz/dense_product.h"
#include "cuda/toeplitz/image_sums.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

// ---- the positions

struct PositionShape {
  explicit PositionShape(const Problem& problem)
      : n_q(QueriesOf(problem)),
        n_k(KeysOf(problem)),
        e(problem.Dim("e")),
        heads(problem.heads),
        image(IsImage(problem)),
        causal(problem.params.Flag("causal")) {
    if (!image) {
      vectors = problem.PerHead("weights") ? heads : 1;
      return;
    }
    height = problem.Dim("height");
    width = problem.Dim("width");
    rows_per_head = problem.PerHead("weights_rows");
    cols_per_head = problem.PerHead("weights_cols");
    vectors = rows_per_head || cols_per_head ? heads : 1;
  }
  bool sums() const { return image && !causal; }
  ImageShape Image() const {
    return {height, width, e, heads, rows_per_head, cols_per_head};
  }
  ToeplitzShape Sequence() const {
    return image ? ImageSequenceShape(height, width, e, heads, vectors)
                 : ToeplitzShape{n_q, n_k, e, heads, vectors, causal};
  }
  // Weights of both offsets of a causal image.
  int64_t image_weights() const {
    return image && causal ? (2 * height - 1) * (2 * width - 1) : 0;
  }

  int64_t n_q, n_k, e, heads;
  bool image, causal;
  int64_t height = 0, width = 0, vectors = 1;
  bool rows_per_head = false, cols_per_head = false;
};

// Weights [2H-1, 2W-1] of both offsets; raster order decides what is seen.
template <typename S>
__global__ void FillCausalWeights(const S* rows, int64_t rows_stride,
                                  const S* cols, int64_t cols_stride,
                                  int64_t height, int64_t width,
                                  float* weights) {
  const int64_t pitch = 2 * width - 1, count = (2 * height - 1) * pitch;
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const int64_t row = at / pitch, col = at % pitch;
  const bool seen = row < height - 1 || (row == height - 1 && col < width);
  weights[blockIdx.y * count + at] =
      seen ? ToFloat(rows[blockIdx.y * rows_stride + row]) +
                 ToFloat(cols[blockIdx.y * cols_stride + col])
           : 0.0f;
}

// W v by FFT, or from the sums of an image's rows and columns.
template <typename S>
class PositionProduct {
 public:
  explicit PositionProduct(const PositionShape& positions)
      : positions_(positions),
        image_weights_(positions.image_weights() * positions.vectors) {
    if (positions.sums())
      sums_.emplace(positions.Image());
    else
      transforms_.emplace(positions.Sequence(), positions.width);
  }

  // out += W v
  void AddLine(HeadArray<const S> weights, HeadArray<const S> v,
               HeadArray<float> out) {
    transforms_->Run<S, S, float>(weights, v, out, true);
  }
  void AddImage(HeadArray<const S> rows, HeadArray<const S> cols,
                HeadArray<const S> v, HeadArray<float> out) {
    if (sums_) return sums_->Run<S, float>(rows, cols, v, out, true);
    const int64_t count = positions_.image_weights();
    SUBQUAD_LAUNCH(FillCausalWeights<S>,
                   Grid(PiecesOf(count, kThreads), positions_.vectors),
                   kThreads, 0, rows.data, rows.head_stride, cols.data,
                   cols.head_stride, positions_.height, positions_.width,
                   image_weights_.data());
    transforms_->Run<float, S, float>({image_weights_.data(), count}, v, out,
                                      true);
  }

  static Cost CostOf(const PositionShape& positions) {
    Cost cost;
    if (positions.sums()) {
      cost.flops = ImageSums::Flops(positions.Image());
      cost.workspace_bytes = ImageSums::WorkspaceBytes(positions.Image());
      return cost;
    }
    const ToeplitzShape shape = positions.Sequence();
    cost.flops = ToeplitzProduct::Flops(shape, positions.width);
    cost.workspace_bytes =
        ToeplitzProduct::WorkspaceBytes(shape, positions.width) +
        static_cast<double>(positions.image_weights() * positions.vectors) *
            sizeof(float);
    return cost;
  }

 private:
  const PositionShape positions_;
  DeviceBuffer<float> image_weights_;
  std::optional<ImageSums> sums_;
  std::optional<ToeplitzProduct> transforms_;
};

// ---- the attention

SoftmaxShape SoftmaxOf(const Problem& problem) {
  return {problem.heads,    QueriesOf(problem), KeysOf(problem),
          problem.Dim("d"), problem.Dim("e"),   problem.params.Flag("causal")};
}

// What runs have in common: the sum in float32, in `out` itself where that is
// its type.
template <typename S>
class SumRun : public DevicePrepared {
 public:
  SumRun(const Problem& problem, const Arrays& arrays)
      : DevicePrepared(problem, arrays),
        positions_(problem),
        sums_(kRounds ? Count() : 0),
        has_bias_(problem.HasInput("bias")),
        projects_(problem.HasInput("omega")) {}

  static double SumBytes(const PositionShape& positions) {
    return kRounds ? 4.0 * static_cast<double>(positions.heads * positions.n_q *
                                               positions.e)
                   : 0;
  }

 protected:
  HeadArray<float> Sum() const {
    if constexpr (kRounds)
      return {sums_.data(), positions_.n_q * positions_.e};
    else
      return this->template Out<S>("out");
  }
  void End() const {
    if constexpr (kRounds)
      Convert(sums_.data(), Count(), this->template Out<S>("out").data);
  }
  HeadArray<const S> Bias() const {
    return has_bias_ ? this->template In<S>("bias") : HeadArray<const S>();
  }
  HeadArray<const S> Omega() const {
    return projects_ ? this->template In<S>("omega") : HeadArray<const S>();
  }
  HeadArray<const S> Tensor(const char* name) const {
    return this->template In<S>(name);
  }

  const PositionShape positions_;

 private:
  static constexpr bool kRounds = sizeof(S) < sizeof(float);
  int64_t Count() const {
    return positions_.heads * positions_.n_q * positions_.e;
  }
  DeviceBuffer<float> sums_;
  const bool has_bias_, projects_;
};

template <typename S>
class FastRun : public SumRun<S> {
 public:
  FastRun(const Problem& problem, const Arrays& arrays)
      : SumRun<S>(problem, arrays), product_(this->positions_) {}

  void Launch() final {
    Attend();
    const auto v = this->Tensor("v");
    if (this->positions_.image)
      product_.AddImage(this->Tensor("weights_rows"),
                        this->Tensor("weights_cols"), v, this->Sum());
    else
      product_.AddLine(this->Tensor("weights"), v, this->Sum());
    this->End();
  }

 private:
  // Sum() = attention(q, k, v)
  virtual void Attend() = 0;

  PositionProduct<S> product_;
};

template <typename S>
class SoftmaxFast : public FastRun<S> {
 public:
  SoftmaxFast(const Problem& problem, const Arrays& arrays)
      : FastRun<S>(problem, arrays),
        shape_(SoftmaxOf(problem)),
        scale_(SoftmaxScale<float>(problem)) {}

 private:
  void Attend() override {
    SoftmaxTiles<S, S, S, float>(shape_, scale_, this->Tensor("q"),
                                 this->Tensor("k"), this->Tensor("v"),
                                 this->Bias(), this->Sum());
  }

  const SoftmaxShape shape_;
  const float scale_;
};

template <typename S>
class LinearFast : public FastRun<S> {
 public:
  LinearFast(const Problem& problem, const Arrays& arrays)
      : FastRun<S>(problem, arrays),
        attention_(KernelizedShape(AttentionOf(problem))) {}

 private:
  void Attend() override {
    attention_.Run(this->Tensor("q"), this->Tensor("k"), this->Tensor("v"),
                   this->Omega(), this->Sum());
  }

  LinearKernelized<S, S, float> attention_;
};

// ---- dense

// matrix[i][j] = the weight of the two positions.
template <typename S>
__global__ void MaterializeLine(const S* weights, int64_t head_stride,
                                int64_t n_q, int64_t n_k, bool causal,
                                float* matrix) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= n_q * n_k) return;
  const int64_t i = at / n_k, j = at % n_k;
  const S weight = weights[blockIdx.y * head_stride + j - i + n_q - 1];
  matrix[blockIdx.y * n_q * n_k + at] =
      causal && j > i ? 0.0f : ToFloat(weight);
}

// The mask and the bias of a score.
template <typename S>
struct Biased {
  HeadArray<const S> bias;  // null: none
  int64_t n_q;
  bool causal;

  __device__ int64_t Keys(int64_t i) const {
    return causal ? i + 1 : INT64_MAX;
  }
  __device__ float operator()(int64_t h, int64_t i, int64_t j,
                              float score) const {
    return bias.data
               ? score +
                     ToFloat(bias.data[h * bias.head_stride + j - i + n_q - 1])
               : score;
  }
};

// b += a
__global__ void Add(const float* a, int64_t count, float* b) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < count) b[i] += a[i];
}

// W v with W in memory, added to a sum.
class DensePositions {
 public:
  explicit DensePositions(const PositionShape& shape)
      : shape_(shape),
        product_(shape.n_q, shape.n_k, shape.e, shape.heads, shape.vectors),
        out_(shape.heads * shape.n_q * shape.e) {}

  float* matrix() const { return product_.matrix(); }
  dim3 grid() const {
    return Grid(PiecesOf(shape_.n_q * shape_.n_k, kThreads), shape_.vectors);
  }

  void AddTo(HeadArray<const float> v, HeadArray<float> sum) {
    product_.Run(v, {out_.data(), shape_.n_q * shape_.e});
    SUBQUAD_LAUNCH(Add, Grid(PiecesOf(out_.size(), kThreads)), kThreads, 0,
                   out_.data(), out_.size(), sum.data);
  }

  static double WorkspaceBytes(const PositionShape& shape) {
    return DenseProduct<float>::WorkspaceBytes(shape.n_q, shape.n_k, shape.e,
                                               shape.heads, shape.vectors) +
           4.0 * static_cast<double>(shape.heads * shape.n_q * shape.e);
  }

 private:
  const PositionShape shape_;
  DenseProduct<float> product_;
  DeviceBuffer<float> out_;
};

int64_t CountOf(const Problem& problem, const char* name) {
  return problem.HasInput(name)
             ? ElementCount(problem.InputShape(
                   static_cast<size_t>(problem.InputIndex(name))))
             : 0;
}

template <typename S>
class Dense : public SumRun<S> {
 public:
  Dense(const Problem& problem, const Arrays& arrays)
      : SumRun<S>(problem, arrays),
        product_(this->positions_),
        v_(CountOf(problem, "v")) {
    if (IsSoftmax(problem)) {
      softmax_.emplace(SoftmaxOf(problem));
      scale_ = SoftmaxScale<float>(problem);
      return;
    }
    linear_.emplace(KernelizedShape(AttentionOf(problem)));
    q_.emplace(CountOf(problem, "q"));
    k_.emplace(CountOf(problem, "k"));
    omega_.emplace(CountOf(problem, "omega"));
  }

  void Launch() override {
    const PositionShape& shape = this->positions_;
    const auto v = v_.Run(this->Tensor("v"));
    if (softmax_)
      softmax_->Run(Biased<S>{this->Bias(), shape.n_q, shape.causal}, scale_,
                    this->Tensor("q"), this->Tensor("k"), v, this->Sum());
    else
      linear_->Run(q_->Run(this->Tensor("q")), k_->Run(this->Tensor("k")), v,
                   this->Omega().data ? omega_->Run(this->Omega())
                                      : HeadArray<const float>(),
                   {}, this->Sum());
    if (shape.image) {
      MaterializeImage(this->Tensor("weights_rows"),
                       this->Tensor("weights_cols"), shape.height, shape.width,
                       shape.vectors, shape.causal, product_.matrix());
    } else {
      const auto weights = this->Tensor("weights");
      SUBQUAD_LAUNCH(MaterializeLine<S>, product_.grid(), kThreads, 0,
                     weights.data, weights.head_stride, shape.n_q, shape.n_k,
                     shape.causal, product_.matrix());
    }
    product_.AddTo(v, this->Sum());
    this->End();
  }

 private:
  DensePositions product_;
  std::optional<DenseAttention<float>> softmax_;
  std::optional<DenseKernelized<float>> linear_;
  Widened<S> v_;
  std::optional<Widened<S>> q_, k_, omega_;
  float scale_ = 1;
};

// ---- costs

template <bool kSoftmax>
Cost FastCost(const Problem& problem, int) {
  const PositionShape positions(problem);
  Cost cost = PositionProduct<float>::CostOf(positions);
  cost.bytes = TensorBytes(problem);
  cost.workspace_bytes += WithStorage(problem.scalar, [&]<typename S>() {
    return SumRun<S>::SumBytes(positions);
  });
  if constexpr (kSoftmax) {
    cost.flops += SoftmaxTilesFlops(SoftmaxOf(problem));
  } else {
    const Cost attention = LinearKernelized<float, float, float>::CostOf(
        KernelizedShape(AttentionOf(problem)));
    cost.flops += attention.flops;
    cost.workspace_bytes += attention.workspace_bytes;
  }
  return cost;
}

Cost DenseCost(const Problem& problem, int) {
  const PositionShape positions(problem);
  Cost cost;
  double widened = static_cast<double>(CountOf(problem, "v"));
  if (IsSoftmax(problem)) {
    const SoftmaxShape shape = SoftmaxOf(problem);
    cost.flops = DenseAttention<float>::Flops(shape);
    cost.workspace_bytes = DenseAttention<float>::WorkspaceBytes(shape, 4);
  } else {
    cost =
        DenseKernelized<float>::CostOf(KernelizedShape(AttentionOf(problem)));
    for (const char* name : {"q", "k", "omega"})
      widened += static_cast<double>(CountOf(problem, name));
  }
  cost.flops += 2.0 * static_cast<double>(positions.n_q * positions.n_k) *
                static_cast<double>(positions.e * positions.heads);
  cost.bytes = TensorBytes(problem);
  cost.workspace_bytes +=
      DensePositions::WorkspaceBytes(positions) +
      Widened<float>::WorkspaceBytes(
          widened, static_cast<double>(Info(problem.scalar).bytes)) +
      WithStorage(problem.scalar,
                  [&]<typename S>() { return SumRun<S>::SumBytes(positions); });
  return cost;
}

// The device's own program for W v, whose bound counts.
const Implementation& ProductProgram(const Problem& problem) {
  static const auto kLine = Toeplitz1dCudaImplementations();
  static const auto kRowsAndColumns = Toeplitz2dXyCudaImplementations();
  static const auto kImage = Toeplitz2dCudaImplementations();
  const auto find = [](const std::vector<Implementation>& table,
                       const std::string& id) -> const Implementation& {
    for (const Implementation& one : table)
      if (one.id == id) return one;
    throw InvalidInput("implementation", "one of its operator", id);
  };
  if (!IsImage(problem)) return find(kLine, "fft");
  return NeedsFullImage(problem) ? find(kImage, "fft_sequence")
                                 : find(kRowsAndColumns, "xy");
}

RowBound SumBound(const Problem& problem, const Inputs& inputs) {
  return FastRpbBound(problem, inputs, ProductProgram(problem));
}

template <template <typename> class Run, bool kSoftmax>
Implementation Fast(const char* id, const char* what) {
  return {.id = id,
          .what = what,
          .cost = FastCost<kSoftmax>,
          .norm_bound = SumBound,
          .prepare = PrepareOnDevice<Run>()};
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
        .cost = DenseCost,
        .prepare = PrepareOnDevice<Dense>()},
       Fast<SoftmaxFast, true>("softmax_fft",
                               "tiled softmax attention, and W v by FFT"),
       Fast<SoftmaxFast, true>(
           "softmax_xy",
           "tiled softmax attention, and W v from row and column sums"),
       Fast<LinearFast, false>("linear_fft",
                               "linear attention, and W v by FFT"),
       Fast<LinearFast, false>(
           "linear_xy", "linear attention, and W v from row and column sums")});
}

}  // namespace subquad
