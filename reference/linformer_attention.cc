#include "reference/linformer_attention.h"

#include <vector>

#include "reference/base/operator_with.h"
#include "reference/softmax/reduced_keys.h"

namespace subquad {
namespace {

template <typename Real>
class LinformerAttentionReference : public Reference<Real> {
 public:
  LinformerAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        p_(problem.Dim("p")),
        scale_(SoftmaxScale<Real>(problem)) {
    for (int64_t h = 0; h < problem.heads; ++h) {
      keys_.push_back(
          Project(inputs["proj_k"].Head(h), inputs["k"].Head(h), d_));
      values_.push_back(
          Project(inputs["proj_v"].Head(h), inputs["v"].Head(h), e_));
    }
  }

  void Row(const RowId& id, Real* value, double* units) override {
    AttendToReduced(problem_, q_.Head(id.head) + id.row * d_, d_, e_, scale_,
                    p_, keys_[id.head], values_[id.head], value, units);
  }

 private:
  ReducedRows<Real> Project(const double* projection, const double* rows,
                            int64_t width) const {
    const int64_t n_k = problem_.Dim("n_k");
    ReducedRows<Real> reduced(p_, width);
    for (int64_t j = 0; j < n_k; ++j)
      for (int64_t a = 0; a < p_; ++a)
        reduced.Add(a, projection[a * n_k + j], rows + j * width, n_k);
    reduced.Finish();
    return reduced;
  }

  const Problem& problem_;
  const Tensor& q_;
  const int64_t d_, e_, p_;
  const Real scale_;
  std::vector<ReducedRows<Real>> keys_, values_;  // of each head
};

class LinformerAttentionOperator final
    : public OperatorWith<LinformerAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "linformer_attention", "out = softmax(scale q (proj_k k)^T) (proj_v v)",
        "Transformers II eq. 15"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return {ParamRule::Scale("1/sqrt(d)")};
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"},
                       {"p", 64, "keys after the projection"}};
    signature.inputs = {
        {"q", {"n_q", "d"}},
        {"k", {"n_k", "d"}},
        TensorRule::Linear("v", {"n_k", "e"}),
        {"proj_k", {"p", "n_k"}, Role::kParameter, Draw::kMixing},
        {"proj_v", {"p", "n_k"}, Role::kParameter, Draw::kMixing}};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("p")) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace

const Operator& LinformerAttention() {
  static const LinformerAttentionOperator op;
  return op;
}

}  // namespace subquad
