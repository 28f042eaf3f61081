// linformer_attention on the GPU: out = softmax(scale q (proj_k k)^T) (proj_v
// v)
//
//   dense      the projections, then two products by cuBLAS with the scores
//              [n_q, p] in memory
//   projected  the projections, then one kernel with the scores in registers
//              (softmax_tiles.h)
#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/softmax/projection.h"
#include "cuda/softmax/reduced_attention.h"
#include "reference/contract/softmax_scale.h"

namespace subquad::device {
namespace {

SoftmaxShape ShapeOf(const Problem& problem) {
  return {problem.heads, problem.Dim("n_q"), problem.Dim("p"), problem.Dim("d"),
          problem.Dim("e")};
}

ProjectionShape ProjectionOf(const Problem& problem, const char* width) {
  return {problem.heads, problem.Dim("p"), problem.Dim("n_k"),
          problem.Dim(width)};
}

template <typename S, template <typename> class Attention>
class Linformer : public DevicePrepared {
 public:
  Linformer(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        scale_(ScoreScale<float>(problem)),
        keys_(layout, ProjectionOf(problem, "d")),
        values_(layout, ProjectionOf(problem, "e")),
        shape_(ShapeOf(problem)),
        attention_(layout, shape_) {}

  void Launch() override {
    const auto keys = keys_.Run(In<S>("proj_k"), In<S>("k"));
    const auto values = values_.Run(In<S>("proj_v"), In<S>("v"));
    attention_.Run(scale_, In<S>("q"), keys, values, Out<S>("out"));
  }

  double Flops() const override {
    return keys_.Flops() + values_.Flops() + Attention<S>::Flops(shape_);
  }

 private:
  const float scale_;
  Projection<S> keys_, values_;
  const SoftmaxShape shape_;
  Attention<S> attention_;
};

template <typename S>
using Dense = Linformer<S, DenseToReduced>;
template <typename S>
using Projected = Linformer<S, TiledToReduced>;

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> LinformerAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "linformer_attention",
      {{.id = "dense",
        .what = "projections, then two GEMMs (cuBLAS), scores in memory",
        .sums = DirectSums,
        .bound_factor = DenseToReduced<float>::kBoundFactor,
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "projected",
        .what = "projections, then online softmax, scores in registers",
        .sums = DirectSums,
        .bound_factor = TiledToReduced<float>::kBoundFactor,
        .prepare = PrepareOnDevice<Projected>()}});
}

}  // namespace subquad
