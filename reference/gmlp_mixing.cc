#include "reference/gmlp_mixing.h"

#include "reference/base/operator_with.h"
#include "reference/gmlp_mixing_rows.h"

namespace subquad {
namespace {

class GmlpMixingOperator final : public OperatorWith<GmlpMixingReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "gmlp_mixing", "out = (sigmoid(x phi_u1) o (Psi x phi_u2)) phi_v",
        "Transformers II eq. 24, 25"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override { return {}; }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"D", 64, "width of a token"},
                       {"m", 64, "gates of a token"},
                       {"e", 64, "width of a row of the output"}};
    TensorRule psi{"psi", {"n", "n"}, Role::kParameter, Draw::kMixing};
    TensorRule weights{"weights", {"2*n-1"}, Role::kParameter, Draw::kMixing};
    psi.optional = weights.optional = true;
    weights.offset_axes = {OffsetAxis::OfIndices(0, "n")};
    signature.inputs = {
        {"x", {"n", "D"}},
        {"phi_u1", {"D", "m"}, Role::kParameter, Draw::kMixingRows},
        {"phi_u2", {"D", "m"}, Role::kParameter, Draw::kMixingRows},
        TensorRule::Linear("phi_v", {"m", "e"}, Role::kParameter,
                           Draw::kMixingRows),
        psi,
        weights};
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    if (problem.HasInput("psi") && problem.HasInput("weights"))
      throw InvalidInput("inputs psi and weights", "one of them", "both");
  }

  double RowWork(const Problem& problem, int) const override {
    const bool mixes = problem.HasInput("psi") || problem.HasInput("weights");
    return static_cast<double>(problem.Dim("m")) *
           static_cast<double>(problem.Dim("D") + problem.Dim("e") +
                               (mixes ? problem.Dim("n") : 0));
  }
};

}  // namespace

const Operator& GmlpMixing() {
  static const GmlpMixingOperator op;
  return op;
}

}  // namespace subquad
