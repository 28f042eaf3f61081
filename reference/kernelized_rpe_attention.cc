#include "reference/kernelized_rpe_attention.h"

#include "reference/base/offset_bias.h"
#include "reference/base/operator_with.h"
#include "reference/base/pair_tensor.h"
#include "reference/kernelized/kernelized.h"

namespace subquad {
namespace {

template <typename Real>
class KernelizedRpeAttentionReference : public Reference<Real> {
 public:
  KernelizedRpeAttentionReference(const Problem& problem, const Inputs& inputs)
      : rows_(problem, inputs) {}

  void Row(const RowId& id, Real* value, double* units) override {
    rows_.Row(id.head, id.row, value, units);
  }

 private:
  const KernelizedRows<Real> rows_;
};

class KernelizedRpeAttentionOperator final
    : public OperatorWith<KernelizedRpeAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "kernelized_rpe_attention",
        "out_i = phi(q_i)^T sum_j exp(b(j-i)) phi(k_j) v_j^T / phi(q_i)^T "
        "sum_j exp(b(j-i)) phi(k_j) over the keys that mask and parameters "
        "leave visible",
        "NPRF eq. 10-13, algorithm 1"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params& params) const override {
    std::vector<ParamRule> rules = FeatureMapParams(params);
    rules.push_back(ParamRule::Flag(
        "normalize", "divide queries and keys by their 2-norms first"));
    // An image needs both height and width, a sequence has neither.
    const bool image = params.Has("height") || params.Has("width");
    // An image has no padding, so key_lengths does not apply.
    for (ParamRule& rule : VisibleKeysParams(
             {.query_offset = !image, .windows = true, .packed = true}))
      if (!image || rule.name != "key_lengths")
        rules.push_back(std::move(rule));
    std::ranges::move(NormaliserParams(), std::back_inserter(rules));
    rules.push_back(ParamRule::Scale("1"));
    for (ParamRule& rule : ImageParams()) {
      rule.required = image;
      rules.push_back(std::move(rule));
    }
    return rules;
  }

  Signature ForwardSignature(const Params& params) const override {
    const bool image = params.Has("height");
    const std::string n_q = image ? kPixels : "n_q";
    const std::string n_k = image ? kPixels : "n_k";
    Signature signature;
    if (!image)
      signature.sizes = {SizeRule::Length("n_q", "queries"),
                         SizeRule::Length("n_k", "keys")};
    signature.sizes.push_back({"d", 64, "width of a query and a key"});
    signature.sizes.push_back({"e", 64, "width of a value"});
    signature.inputs = {{"q", {n_q, "d"}},
                        {"k", {n_k, "d"}},
                        TensorRule::Linear("v", {n_k, "e"})};
    AddOmega(params, signature);
    signature.inputs.push_back(BiasRule(params));
    signature.inputs.push_back(MaskRule(n_q, n_k));
    signature.outputs = {{"out", {n_q, "e"}}};
    signature.queries = n_q;
    signature.keys = n_k;
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    SequencesOf(problem.params, problem.queries, problem.keys);  // checks them
  }

  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    CompleteFeatureMap(params);
    // N(0, 1) draws of width 64 have norm 8, and their features are so far
    // apart (e^-50) that a single key dominates. With softmax's scale for that
    // width they are of comparable size.
    if (params.Text("feature_map").starts_with("prf") && !params.Has("scale") &&
        !params.Flag("normalize"))
      params.Set("scale", 0.125);
    if (params.Has("height") || params.Has("width")) CompleteImage(n, params);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(KeysOf(problem)) *
           static_cast<double>(FeatureMapOf(problem).features() +
                               problem.Dim("e"));
  }
};

}  // namespace

const Operator& KernelizedRpeAttention() {
  static const KernelizedRpeAttentionOperator op;
  return op;
}

}  // namespace subquad
