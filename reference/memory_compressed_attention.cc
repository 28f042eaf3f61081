#include "reference/memory_compressed_attention.h"

#include <algorithm>
#include <string>
#include <vector>

#include "reference/base/operator_with.h"
#include "reference/softmax/reduced_keys.h"

namespace subquad {
namespace {

template <typename Real>
class MemoryCompressedAttentionReference : public Reference<Real> {
 public:
  MemoryCompressedAttentionReference(const Problem& problem,
                                     const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        stride_(problem.params.Integer("stride")),
        count_(problem.Dim("n_k") / stride_),
        scale_(SoftmaxScale<Real>(problem)) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      keys_.push_back(
          Compress(inputs["theta_k"].Head(h), inputs["k"].Head(h), d_));
      values_.push_back(
          Compress(inputs["theta_v"].Head(h), inputs["v"].Head(h), e_));
    }
  }

  void Row(const RowId& id, Real* value, double* units) override {
    AttendToReduced(problem_, q_.Head(id.head) + id.row * d_, d_, e_, scale_,
                    count_, keys_[id.head], values_[id.head], value, units);
  }

 private:
  ReducedRows<Real> Compress(const double* theta, const double* rows,
                             int64_t width) const {
    ReducedRows<Real> reduced(count_, width);
    for (int64_t a = 0; a < count_; ++a)
      for (int64_t b = 0; b < stride_; ++b)
        reduced.Add(a, theta[b], rows + (a * stride_ + b) * width, stride_);
    reduced.Finish();
    return reduced;
  }

  const Problem& problem_;
  const Tensor& q_;
  const int64_t d_, e_, stride_, count_;
  const Real scale_;
  std::vector<ReducedRows<Real>> keys_, values_;  // of each head
};

class MemoryCompressedAttentionOperator final
    : public OperatorWith<MemoryCompressedAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "memory_compressed_attention",
        "out = softmax(scale q k'^T) v', k'[a] = sum_b theta_k[b] k[a s + b]",
        "Transformers II eq. 14"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return {ParamRule::Scale("1/sqrt(d)"),
            ParamRule::Integer("stride", "keys combined into one", 1)};
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {
        {"q", {"n_q", "d"}},
        {"k", {"n_k", "d"}},
        TensorRule::Linear("v", {"n_k", "e"}),
        {"theta_k", {"stride"}, Role::kParameter, Draw::kMixing},
        {"theta_v", {"stride"}, Role::kParameter, Draw::kMixing}};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    const int64_t n_k = problem.Dim("n_k");
    const int64_t stride = problem.params.Integer("stride");
    if (n_k < stride)
      throw InvalidInput(
          "input k",
          "at least as many keys as the stride of " + std::to_string(stride),
          std::to_string(n_k));
  }

  // The default is the paper's stride.
  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    if (!params.Has("stride"))
      params.Set("stride", std::clamp<int64_t>(n, 1, 3));
  }

  double RowWork(const Problem& problem, int) const override {
    const int64_t keys = problem.Dim("n_k") / problem.params.Integer("stride");
    return static_cast<double>(keys) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace

const Operator& MemoryCompressedAttention() {
  static const MemoryCompressedAttentionOperator op;
  return op;
}

}  // namespace subquad
