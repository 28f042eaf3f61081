#include "reference/linear_attention.h"

#include "reference/base/operator_with.h"
#include "reference/base/pair_tensor.h"
#include "reference/kernelized/kernelized.h"

namespace subquad {
namespace {

template <typename Real>
class LinearAttentionReference : public Reference<Real> {
 public:
  LinearAttentionReference(const Problem& problem, const Inputs& inputs)
      : rows_(problem, inputs) {}

  void Row(const RowId& id, Real* value, double* units) override {
    rows_.Row(id.head, id.row, value, units);
  }

 private:
  const KernelizedRows<Real> rows_;
};

class LinearAttentionOperator final
    : public OperatorWith<LinearAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "linear_attention",
        "out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j) "
        "over the keys that mask and parameters leave visible",
        "FastRPB eq. 3; Transformers II eq. 18-20; LRPE section II"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    std::vector<ParamRule> rules = FeatureMapParams(params);
    std::ranges::move(
        VisibleKeysParams({.windows = true, .packed = true, .bias = false}),
        std::back_inserter(rules));
    std::ranges::move(NormaliserParams(), std::back_inserter(rules));
    rules.push_back(ParamRule::Scale("1"));
    return rules;
  }

  Signature ForwardSignature(const Params& params) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n_q", "queries"),
                       SizeRule::Length("n_k", "keys"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {{"q", {"n_q", "d"}},
                        {"k", {"n_k", "d"}},
                        TensorRule::Linear("v", {"n_k", "e"})};
    AddOmega(params, signature);
    signature.inputs.push_back(MaskRule("n_q", "n_k"));
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    SequencesOf(problem.params, problem.queries, problem.keys);  // checks them
  }

  void CompleteParams(int64_t, uint64_t, Params& params) const override {
    CompleteFeatureMap(params);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("n_k")) *
           static_cast<double>(FeatureMapOf(problem).features() +
                               problem.Dim("e"));
  }
};

}  // namespace

const Operator& LinearAttention() {
  static const LinearAttentionOperator op;
  return op;
}

}  // namespace subquad
