// sinkhorn_attention: softmax attention within blocks, and to a mixture of all
// blocks that a doubly stochastic matrix forms for each block (Transformers II,
// learned sparsity; Sparse Sinkhorn Attention, Tay et al. 2020)
//
//   q, k [n, d], v [n, e], out [n, e]; n = b block
//   logits [b, b]  P = exp(logits); then `iterations` times each row of P is
//                  divided by its sum, and after that each column
//   k'_B = sum_C P_BC k_C, block by block, v' likewise
//   a query of block B sees the keys of block B and those of k'_B
//   scale          default 1/sqrt(d)
//
// Test inputs: after a few iterations P is far from uniform and from a
// permutation, so that transposed logits, columns before rows and an iteration
// too many or too few all change k'.
//
// P is computed as exp(logits_BC + f_B + g_C), where no sum can overflow or
// vanish: f_B = -log sum_C exp(logits_BC + g_C), then g_C likewise.
//
// Bound: one such logarithm is off by u times max|a| + |log sum| + 3 log b + b
// + 6, a the exponents: their rounding, that of the sum of b exponentials, each
// off by 3 gap + 4 for its gap to the largest (on average over the weights at
// most log b), and of the result. It passes on errors of g without enlarging
// them; so f and g are off by at most the sum of these over all steps before,
// and an exponent of P by both, and its own roundings. k'_B is a sum of b
// products with such weights. The rest is as in softmax_rows.h and
// reduced_keys.h.
#pragma once

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "reference/base/long_sums.h"
#include "reference/base/operator.h"
#include "reference/base/term_order.h"
#include "reference/softmax/reduced_keys.h"
#include "reference/softmax/softmax_scale.h"

namespace subquad {

// Computes exp(logits) with rows and columns divided by their sums alternately.
template <typename Real>
class SinkhornMatrix {
 public:
  SinkhornMatrix(const double* logits, int64_t blocks, int64_t iterations)
      : logits_(logits),
        blocks_(blocks),
        rows_(static_cast<size_t>(blocks)),
        columns_(static_cast<size_t>(blocks)) {
    for (int64_t t = 0; t < iterations; ++t) {
      Normalise(rows_, columns_, blocks, 1);
      Normalise(columns_, rows_, 1, blocks);
    }
  }

  Real At(int64_t row, int64_t column) const {
    return std::exp(ExponentAt(row, column));
  }
  // Returns the error of an entry in units of the roundoff.
  double UnitsAt(int64_t row, int64_t column, double roundoff) const {
    const auto exponent = static_cast<double>(ExponentAt(row, column));
    const double units =
        2 * steps_units_ +
        6 * (std::abs(exponent) + std::abs(logits_[row * blocks_ + column]) +
             std::abs(static_cast<double>(rows_[row]))) +
        4;
    // The error is not linearised: large exponents have no digit left, but an
    // entry that is certainly zero stays so.
    const double off = units * roundoff;
    return (off < 1 ? std::exp(exponent) * std::expm1(off)
                    : std::exp(exponent + off)) /
           roundoff;
  }

 private:
  Real ExponentAt(int64_t row, int64_t column) const {
    return static_cast<Real>(logits_[row * blocks_ + column]) + rows_[row] +
           columns_[column];
  }

  // Computes of_own[x] = -log sum_y exp(logits + of_others[y]); entry (x, y) of
  // the logits is at x own_stride + y stride.
  void Normalise(std::vector<Real>& of_own, const std::vector<Real>& of_others,
                 int64_t own_stride, int64_t stride) {
    double largest = 0;
    for (int64_t x = 0; x < blocks_; ++x) {
      const auto exponent = [&](int64_t y) {
        return static_cast<Real>(logits_[x * own_stride + y * stride]) +
               of_others[y];
      };
      Real top = exponent(0);
      for (int64_t y = 1; y < blocks_; ++y) top = std::max(top, exponent(y));
      LongSums<Real> sum(1);
      ForTerms(static_cast<size_t>(blocks_), [&](size_t y) {
        const Real term = exponent(static_cast<int64_t>(y));
        largest = std::max(largest, std::abs(static_cast<double>(term)));
        sum.Add(0, std::exp(term - top));
        sum.Next();
      });
      of_own[x] = -(top + std::log(sum.Total(0)));
      largest = std::max(largest, std::abs(static_cast<double>(of_own[x])));
    }
    const auto count = static_cast<double>(blocks_);
    steps_units_ += 1.01 * (2 * largest + 3 * std::log(count) + count + 6);
  }

  const double* const logits_;
  const int64_t blocks_;
  std::vector<Real> rows_, columns_;  // f, g
  double steps_units_ = 0;
};

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
        roundoff_(Info(problem.scalar).unit_roundoff) {
    for (int64_t h = 0; h < problem.heads; ++h)
      matrices_.emplace_back(inputs["logits"].Head(h), blocks_,
                             problem.params.Integer("iterations"));
  }

  void Row(const RowId& id, Real* value, double* units) override {
    const int64_t own = id.row / block_;
    const ReducedRows<Real> keys = Seen(id.head, own, k_, d_);
    const ReducedRows<Real> values = Seen(id.head, own, v_, e_);
    AttendToReduced(problem_, id, q_.Head(id.head) + id.row * d_, d_, e_,
                    scale_, 2 * block_, keys, values, value, units);
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

class SinkhornAttention final
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

  Signature SignatureFor(const Params&, bool) const override {
    Signature signature;
    signature.sizes = {SizeRule::Length("n", "tokens"),
                       {"d", 64, "width of a query and a key"},
                       {"e", 64, "width of a value"}};
    signature.inputs = {{"q", {"n", "d"}},
                        {"k", {"n", "d"}},
                        {"v", {"n", "e"}},
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

}  // namespace subquad
