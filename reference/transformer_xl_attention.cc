#include "reference/transformer_xl_attention.h"

#include <cmath>
#include <vector>

#include "reference/base/flag_on.h"
#include "reference/base/operator_with.h"
#include "reference/softmax/softmax_rows.h"

namespace subquad {
namespace {

template <typename Real>
class TransformerXlAttentionReference : public Reference<Real> {
 public:
  TransformerXlAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        k_(inputs["k"]),
        v_(inputs["v"]),
        u_(inputs["u"]),
        t_(inputs["t"]),
        memory_(problem.Dim("M")),
        n_k_(problem.Dim("M") + problem.Dim("L")),
        causal_(problem.params.Flag("causal")),
        before_(causal_ ? 0 : problem.Dim("L") - 1),
        distances_(n_k_ + before_),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        scale_(SoftmaxScale<Real>(problem)) {
    for (int64_t h = 0; h < problem.heads; ++h)
      Project(inputs["r"].Head(h), inputs["w_kr"].Head(h), problem.Dim("p"));
    for (size_t row = 0; row < projected_.size();
         row += static_cast<size_t>(d_))
      AsRow(&projected_[row], d_);
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const int64_t i = id.row;
    const double* q = q_.Head(id.head) + i * d_;
    const double* u = u_.Head(id.head);
    const double* t = t_.Head(id.head);
    const double* v = v_.Head(id.head);
    std::vector<Real> by_content, by_position;
    for (int64_t a = 0; a < d_; ++a) {
      by_content.push_back(static_cast<Real>(q[a]) + static_cast<Real>(u[a]));
      by_position.push_back(static_cast<Real>(q[a]) + static_cast<Real>(t[a]));
    }
    AsRow(by_content.data(), d_);
    AsRow(by_position.data(), d_);
    SoftmaxRow<Real> row(problem_);
    for (int64_t j = 0; j < (causal_ ? memory_ + i + 1 : n_k_); ++j) {
      const double* k = k_.Head(id.head) + j * d_;
      const int64_t distance =
          (id.head * distances_ + before_ + memory_ + i - j) * d_;
      const Real* projected = &projected_[distance];
      double error = 0;
      for (int64_t a = 0; a < d_ && !kCarriesBounds<Real>; ++a)
        error += static_cast<double>(d_ + 6) *
                     ((std::abs(q[a]) + std::abs(u[a])) * std::abs(k[a]) +
                      (std::abs(q[a]) + std::abs(t[a])) *
                          std::abs(static_cast<double>(projected[a]))) +
                 (std::abs(q[a]) + std::abs(t[a])) * units_[distance + a];
      row.See(j, {scale_ * (Dot<Real>(by_content.data(), k, d_) +
                            Dot<Real>(by_position.data(), projected, d_)),
                  1.01 * static_cast<double>(scale_) * error});
    }
    row.Write(
        e_, [&](int64_t j) { return v + j * e_; }, value, units);
  }

 private:
  // Computes w_kr r for every distance, one after another, with the bound of
  // its error.
  void Project(const double* r, const double* w_kr, int64_t p) {
    for (int64_t x = 0; x < distances_; ++x)
      for (int64_t a = 0; a < d_; ++a) {
        projected_.push_back(Dot<Real>(w_kr + a * p, r + x * p, p));
        double magnitude = 0;
        for (int64_t b = 0; b < p; ++b)
          magnitude += std::abs(w_kr[a * p + b] * r[x * p + b]);
        units_.push_back(1.01 * static_cast<double>(p) * magnitude);
      }
  }

  const Problem& problem_;
  const Tensor& q_;
  const Tensor& k_;
  const Tensor& v_;
  const Tensor& u_;
  const Tensor& t_;
  const int64_t memory_, n_k_;
  const bool causal_;
  const int64_t before_, distances_;  // negative distances, and all distances
  const int64_t d_, e_;
  const Real scale_;
  std::vector<Real> projected_;
  std::vector<double> units_;
};

class TransformerXlAttentionOperator final
    : public OperatorWith<TransformerXlAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "transformer_xl_attention",
        "s_ij = (q_i+u).k_j + (q_i+t).(w_kr r[M+i-j]), j <= M+i; "
        "out = softmax(scale s) v",
        "Transformer-XL appendix B; Transformers II eq. 8"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return {FlagOn("causal", "query i sees keys j <= M+i only"),
            ParamRule::Scale("1/sqrt(d)")};
  }

  Signature ForwardSignature(const Params& params) const override {
    const bool causal = IsOn(params, "causal");
    Signature signature;
    signature.sizes = {
        SizeRule::Length("L", "queries"),
        SizeRule::Length("M", "positions of the memory before them", 0),
        {"d", 64, "width of a query and a key"},
        {"e", 64, "width of a value"},
        {"p", 64, "width of a distance's embedding"}};
    TensorRule r{"r", {causal ? "M+L" : "M+2*L-1", "p"}, Role::kParameter};
    r.offset_axes = {{0, causal ? "0" : "1-L"}};
    signature.inputs = {{"q", {"L", "d"}},
                        {"k", {"M+L", "d"}},
                        TensorRule::Linear("v", {"M+L", "e"}),
                        r,
                        {"w_kr", {"d", "p"}, Role::kParameter, Draw::kMixing},
                        {"u", {"d"}, Role::kParameter},
                        {"t", {"d"}, Role::kParameter}};
    signature.outputs = {{"out", {"L", "e"}}};
    signature.queries = "L";
    signature.keys = "M+L";
    return signature;
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.Dim("M") + problem.Dim("L")) *
           static_cast<double>(2 * problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace

const Operator& TransformerXlAttention() {
  static const TransformerXlAttentionOperator op;
  return op;
}

}  // namespace subquad
