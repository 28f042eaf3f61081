#include "reference/sinkhorn_attention.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/base/long_sums.h"
#include "reference/base/operator_with.h"
#include "reference/base/term_order.h"
#include "reference/softmax/reduced_keys.h"
#include "reference/softmax/sinkhorn_matrix.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {
namespace {

template <typename Real>
class SinkhornAttentionReference : public Reference<Real> {
 public:
  SinkhornAttentionReference(const Problem& problem, const Inputs& inputs)
      : problem_(problem),
        q_(inputs["q"]),
        k_(inputs["k"]),
        v_(inputs["v"]),
        block_(problem.Dim("block")),
        blocks_(problem.Dim("n") / block_),
        d_(problem.Dim("d")),
        e_(problem.Dim("e")),
        scale_(SoftmaxScale<Real>(problem)),
        roundoff_(ArithmeticRoundoff(problem.scalar)) {
    for (int64_t h = 0; h < problem.heads; ++h)
      matrices_.emplace_back(inputs["logits"].Head(h), blocks_,
                             problem.params.Integer("iterations"));
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const int64_t own = id.row / block_;
    const ReducedRows<Real> keys = Seen(id.head, own, k_, d_);
    const ReducedRows<Real> values = Seen(id.head, own, v_, e_);
    AttendToReduced(problem_, q_.Head(id.head) + id.row * d_, d_, e_, scale_,
                    2 * block_, keys, values, value, units);
  }

 private:
  // Returns the rows of a block, followed by those of its mixture.
  ReducedRows<Real> Seen(int64_t head, int64_t own, const Tensor& tensor,
                         int64_t width) const {
    const SinkhornMatrix<Real>& matrix = matrices_[static_cast<size_t>(head)];
    const double* rows = tensor.Head(head);
    const auto size = static_cast<size_t>(block_ * width);
    std::vector<Real> exact(size);
    for (size_t x = 0; x < size; ++x)
      exact[x] = static_cast<Real>(rows[own * block_ * width + x]);
    LongSums<Real> sums(size);
    std::vector<double> units(size);
    ForTerms(static_cast<size_t>(blocks_), [&](size_t at) {
      const auto other = static_cast<int64_t>(at);
      const Real weight = matrix.At(own, other);
      const double* source = rows + other * block_ * width;
      sums.AddRow(weight, source, size);
      sums.Next();
      const double weight_units =
          matrix.UnitsAt(own, other, roundoff_) +
          1.01 * static_cast<double>(blocks_ + 1) * static_cast<double>(weight);
      for (size_t x = 0; x < size; ++x)
        units[x] += source[x] == 0 ? 0 : weight_units * std::abs(source[x]);
    });
    std::vector<Real> mixed(size);
    for (size_t x = 0; x < size; ++x) mixed[x] = sums.Total(x);
    ReducedRows<Real> seen(2 * block_, width);
    const std::vector<double> none(static_cast<size_t>(width));
    for (int64_t r = 0; r < block_; ++r) {
      seen.Set(r, &exact[r * width], none.data());
      seen.Set(block_ + r, &mixed[r * width], &units[r * width]);
    }
    return seen;
  }

  const Problem& problem_;
  const Tensor &q_, &k_, &v_;
  const int64_t block_, blocks_, d_, e_;
  const Real scale_;
  const double roundoff_;
  std::vector<SinkhornMatrix<Real>> matrices_;  // of each head
};

class SinkhornAttentionOperator final
    : public OperatorWith<SinkhornAttentionReference> {
 public:
  const Description& description() const override {
    static const Description kDescription = {
        "sinkhorn_attention",
        "out_i = softmax(scale q_i.[k_B, (P k)_B]) [v_B, (P v)_B] for i in "
        "block B",
        "Transformers II, \"Making the attention matrix sparse\""};
    return kDescription;
  }

  std::vector<ParamRule> ParamRules(const Params&) const override {
    ParamRule iterations = ParamRule::Integer(
        "iterations", "normalisations of all rows and all columns", 0);
    iterations.max = 1000;
    return {ParamRule::Integer("block", "tokens in a block", 1), iterations,
            ParamRule::Scale("1/sqrt(d)")};
  }

  Signature ForwardSignature(const Params&) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {{"q", {"n", "d"}},
                        {"k", {"n", "d"}},
                        TensorRule::Linear("v", {"n", "e"}),
                        {"logits", {"n/block", "n/block"}, Role::kParameter}};
    signature.outputs = {{"out", {"n", "e"}}};
    signature.queries = signature.keys = "n";
    return signature;
  }

  void CheckSizes(const Problem& problem) const override {
    const int64_t n = problem.Dim("n"), block = problem.Dim("block");
    if (n % block != 0)
      throw InvalidInput("n", "a multiple of block " + std::to_string(block),
                         std::to_string(n));
  }

  // The default blocks have 64 rows, or the largest divisor of n below 64.
  void CompleteParams(int64_t n, uint64_t, Params& params) const override {
    if (!params.Has("iterations")) params.Set("iterations", int64_t{5});
    if (params.Has("block")) return;
    int64_t block = std::clamp<int64_t>(n / 4, 1, 64);
    while (n % block != 0) --block;
    params.Set("block", block);
  }

  double RowWork(const Problem& problem, int) const override {
    return static_cast<double>(problem.keys + 2 * problem.Dim("block")) *
           static_cast<double>(problem.Dim("d") + problem.Dim("e"));
  }
};

}  // namespace

const Operator& SinkhornAttention() {
  static const SinkhornAttentionOperator op;
  return op;
}

}  // namespace subquad
