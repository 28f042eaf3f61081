#include "reference/clipped_rpe_product.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "reference/base/gradients.h"
#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"
#include "reference/base/visible_keys.h"

namespace subquad {
namespace {

template <typename Real>
class ClippedRpeProductReference : public Reference<Real> {
 public:
  ClippedRpeProductReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        rpe_(inputs["rpe"]),
        v_(inputs["v"]),
        grad_(problem.backward ? &inputs["grad"] : nullptr),
        n_q_(problem.Dim("n_q")),
        n_k_(problem.Dim("n_k")),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        r_(problem.Dim("r")),
        visible_(problem),
        subnormal_(Subnormal(problem.scalar) /
                   Info(problem.scalar).unit_roundoff) {}

  void Row(const RowId& id, Real* value, double* units) override {
    if (!problem_.backward) return Out(id, value, units);
    const std::string& name = problem_.outputs[id.output].name;
    if (name == "grad_q") return GradQueries(id, value, units);
    if (name == "grad_v") return GradValues(id, value, units);
    GradEmbeddings(id, value, units);
  }

 private:
  static double Subnormal(Scalar scalar) {
    return scalar == Scalar::kFloat64 ? 0x1p-1074 : 0x1p-149;
  }

  const double* Query(int64_t head, int64_t i) const {
    return q_.Head(head) + i * d_;
  }
  const double* Value(int64_t head, int64_t j) const {
    return v_.Head(head) + j * e_;
  }
  const double* Grad(int64_t head, int64_t i) const {
    return grad_->Head(head) + i * e_;
  }
  // The row of rpe for query i and key j.
  int64_t Embedding(int64_t i, int64_t j) const {
    return std::clamp(j - i - visible_.offset(), -r_, r_) + r_;
  }
  const double* EmbeddingOf(int64_t head, int64_t i, int64_t j) const {
    return rpe_.Head(head) + Embedding(i, j) * d_;
  }

  // A sum of up to `terms` rows [width], each times a dot product.
  class Sum {
   public:
    Sum(int64_t width, int64_t terms, double subnormal, double* units)
        : width_(width),
          terms_(static_cast<double>(terms)),
          subnormal_(subnormal),
          units_(units),
          sums_(static_cast<size_t>(width)) {
      if (units) std::fill_n(units, width, 0.0);
    }

    void Add(const double* x, const double* y, int64_t count,
             const double* row) {
      Real dot = 0;
      double magnitude = 0;
      for (int64_t a = 0; a < count; ++a) {
        const Real product = static_cast<Real>(x[a]) * static_cast<Real>(y[a]);
        dot += product;
        magnitude += std::abs(static_cast<double>(product));
      }
      sums_.AddRow(dot, row, static_cast<size_t>(width_));
      sums_.Next();
      if (!units_) return;
      const auto length = static_cast<double>(count);
      const double factor =
          1.01 * (terms_ + length + 2) * magnitude + length * subnormal_;
      for (int64_t c = 0; c < width_; ++c)
        units_[c] += factor * std::abs(row[c]) + subnormal_;
    }

    void Write(Real* value) const {
      for (int64_t c = 0; c < width_; ++c)
        value[c] = sums_.Total(static_cast<size_t>(c));
    }

   private:
    const int64_t width_;
    const double terms_, subnormal_;
    double* const units_;
    LongSums<Real> sums_;
  };

  void Out(const RowId& id, Real* value, double* units) const {
    Sum sum(e_, n_k_, subnormal_, units);
    for (int64_t j = 0; visible_.Sees(id.head, id.row, j); ++j)
      sum.Add(Query(id.head, id.row), EmbeddingOf(id.head, id.row, j), d_,
              Value(id.head, j));
    sum.Write(value);
  }

  void GradQueries(const RowId& id, Real* value, double* units) const {
    const std::vector<int64_t> heads = q_.slices.Readers(id.head);
    Sum sum(d_, n_k_ * Count(heads), subnormal_, units);
    for (int64_t head : heads)
      for (int64_t j = 0; visible_.Sees(head, id.row, j); ++j)
        sum.Add(Grad(head, id.row), Value(head, j), e_,
                EmbeddingOf(head, id.row, j));
    sum.Write(value);
  }

  void GradValues(const RowId& id, Real* value, double* units) const {
    const std::vector<int64_t> heads = v_.slices.Readers(id.head);
    Sum sum(e_, n_q_ * Count(heads), subnormal_, units);
    for (int64_t head : heads)
      for (int64_t i = 0; i < n_q_; ++i)
        if (visible_.Sees(head, i, id.row))
          sum.Add(Query(head, i), EmbeddingOf(head, i, id.row), d_,
                  Grad(head, i));
    sum.Write(value);
  }

  // Adds at most n_k pairs for one query, then all queries.
  void GradEmbeddings(const RowId& id, Real* value, double* units) const {
    const std::vector<int64_t> heads = rpe_.slices.Readers(id.head);
    Sum sum(d_, n_k_ + n_q_ * Count(heads), subnormal_, units);
    for (int64_t head : heads)
      for (int64_t i = 0; i < n_q_; ++i)
        for (int64_t j = 0; visible_.Sees(head, i, j); ++j)
          if (Embedding(i, j) == id.row)
            sum.Add(Grad(head, i), Value(head, j), e_, Query(head, i));
    sum.Write(value);
  }

  static int64_t Count(const std::vector<int64_t>& heads) {
    return static_cast<int64_t>(heads.size());
  }

  const Problem& problem_;
  const Tensor& q_;
  const Tensor& rpe_;
  const Tensor& v_;
  const Tensor* grad_;
  const int64_t n_q_, n_k_, d_, e_, r_;
  const VisibleKeys visible_;
  const double subnormal_;  // in units of the roundoff
};

class ClippedRpeProductOperator final
    : public OperatorWith<ClippedRpeProductReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "clipped_rpe_product",
        "out[i] = sum_j (q_i . rpe[clip(j-i,-r,r)+r]) v[j]",
        "LRPE section III; Shaw 2018"};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    return VisibleKeysParams();
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {
        SizeRule::Length("n_q", "queries"),
        SizeRule::Length("n_k", "keys"),
        {"d", 64, "width of a query"},
        {"e", 64, "width of a value"},
        {"r", 16, "largest offset; larger ones are clipped to it", 0}};
    TensorRule rpe{"rpe", {"2*r+1", "d"}, Role::kParameter};
    rpe.offset_axes = {{0, "-r"}};
    signature.inputs = {{"q", {"n_q", "d"}}, rpe, {"v", {"n_k", "e"}}};
    signature.outputs = {{"out", {"n_q", "e"}}};
    return signature;
  }

  bool HasGradientProgram() const override { return true; }

  // Up to half of all pairs may use the same embedding.
  double RowWork(const Problem& problem, int output) const override {
    const auto n_q = static_cast<double>(problem.Dim("n_q"));
    const auto n_k = static_cast<double>(problem.Dim("n_k"));
    const double terms =
        static_cast<double>(problem.Dim("d") + problem.Dim("e"));
    if (!problem.backward) return n_k * terms;
    return problem.outputs[output].name == "grad_rpe"
               ? n_q * n_k * terms * static_cast<double>(problem.heads)
               : std::max(n_q, n_k) * terms;
  }
};

}  // namespace

const Operator& ClippedRpeProduct() {
  static const ClippedRpeProductOperator op;
  return op;
}

}  // namespace subquad
