// Rows of gmlp_mixing (gmlp_mixing.h), which its definition and the bound of a
// transform in it (contract/gmlp_mixing.h) share.
#pragma once

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/base/long_sums.h"
#include "reference/base/operator.h"
#include "reference/base/term_order.h"
#include "reference/softmax/reduced_keys.h"

namespace subquad {

template <typename Real>
class GmlpMixingReference : public Reference<Real> {
 public:
  GmlpMixingReference(const Problem& problem, const Inputs& inputs)
      : inputs_(inputs),
        psi_(problem.HasInput("psi") ? &inputs["psi"] : nullptr),
        weights_(problem.HasInput("weights") ? &inputs["weights"] : nullptr),
        n_(problem.Dim("n")),
        token_(problem.Dim("D")),
        m_(problem.Dim("m")),
        e_(problem.Dim("e")),
        roundoff_(ArithmeticRoundoff(problem.scalar)),
        least_(SmallestNormal(ArithmeticOf(problem.scalar))) {
    for (int64_t h = 0; h < problem.heads; ++h)
      numbers_.push_back(Products(h, 0, n_, "phi_u2"));
  }

  void Row(const RowId& id, Real* value, double* units) override {
    Compute(id, nullptr, value, units);
  }

  // Returns x phi_u2 of a head, the values that Psi mixes.
  const ReducedRows<Real>& Numbers(int64_t head) const {
    return numbers_[static_cast<size_t>(head)];
  }

  // Writes the bound for a mixing whose own error is at most `mixing_units` [m]
  // (that of a transform) instead of a plain sum's.
  void UnitsWithMixing(const RowId& id, const double* mixing_units,
                       double* units) {
    std::vector<Real> value(static_cast<size_t>(e_));
    Compute(id, mixing_units, value.data(), units);
  }

 private:
  void Compute(const RowId& id, const double* mixing_units, Real* value,
               double* units) const {
    const ReducedRows<Real> path = Products(id.head, id.row, 1, "phi_u1");
    const ReducedRows<Real> mixed = Mixed(id, mixing_units);
    const double* phi_v = inputs_["phi_v"].Head(id.head);
    std::fill_n(value, e_, Real{0});
    std::vector<double> bound(static_cast<size_t>(e_));
    for (int64_t b = 0; b < m_; ++b) {
      const Real gate = 1 / (1 + exp(-path.Row(0)[b]));
      const Real product = gate * mixed.Row(0)[b];
      const double product_units = UnitsOf(
          static_cast<double>(gate), path.Units(0)[b],
          std::abs(static_cast<double>(mixed.Row(0)[b])), mixed.Units(0)[b]);
      for (int64_t c = 0; c < e_; ++c) {
        const Real term = product * static_cast<Real>(phi_v[b * e_ + c]);
        value[c] += term;
        bound[c] += 1.01 * static_cast<double>(m_) *
                        std::abs(static_cast<double>(term)) +
                    product_units * std::abs(phi_v[b * e_ + c]);
      }
    }
    if (units) std::ranges::copy(bound, units);
  }

  // Multiplies `rows` rows of x, from `first` on, by a matrix [D, m].
  ReducedRows<Real> Products(int64_t head, int64_t first, int64_t rows,
                             const char* matrix) const {
    const double* x = inputs_["x"].Head(head) + first * token_;
    const double* phi = inputs_[matrix].Head(head);
    ReducedRows<Real> products(rows, m_);
    for (int64_t i = 0; i < rows; ++i)
      for (int64_t a = 0; a < token_; ++a)
        products.Add(i, x[i * token_ + a], phi + a * m_, token_);
    products.Finish();
    return products;
  }

  // Computes a row of Psi y.
  ReducedRows<Real> Mixed(const RowId& id, const double* mixing_units) const {
    const ReducedRows<Real>& y = numbers_[static_cast<size_t>(id.head)];
    ReducedRows<Real> mixed(1, m_);
    if (!psi_ && !weights_) {
      mixed.Set(0, y.Row(id.row), y.Units(id.row));
      return mixed;
    }
    const double* row = psi_ ? psi_->Head(id.head) + id.row * n_
                             : weights_->Head(id.head) + n_ - 1 - id.row;
    const auto width = static_cast<size_t>(m_);
    LongSums<Real> sums(width);
    std::vector<double> units(width);
    ForTerms(static_cast<size_t>(n_), [&](size_t j) {
      const Real weight = static_cast<Real>(row[j]);
      const Real* numbers = y.Row(static_cast<int64_t>(j));
      const double* inherited = y.Units(static_cast<int64_t>(j));
      sums.AddRow(weight, numbers, width);
      sums.Next();
      for (size_t b = 0; b < width; ++b) {
        const double own = mixing_units
                               ? 0
                               : 1.01 * static_cast<double>(n_) *
                                     std::abs(static_cast<double>(numbers[b]));
        units[b] += std::abs(row[j]) * (own + inherited[b]);
      }
    });
    std::vector<Real> totals(width);
    for (size_t b = 0; b < width; ++b) {
      totals[b] = sums.Total(b);
      if (mixing_units) units[b] += mixing_units[b];
    }
    mixed.Set(0, totals.data(), units.data());
    return mixed;
  }

  // Bounds the error of gate times mixed, if the gate's argument is off by
  // `path_units`.
  double UnitsOf(double gate, double path_units, double mixed,
                 double mixed_units) const {
    // The error is not linearised: huge arguments have no digit left.
    const double moved =
        gate * (1 - gate) * std::expm1(path_units * roundoff_) / roundoff_;
    // A gate is at most one, and a gate below the normal range may be lost.
    const double most = 1 / roundoff_;
    const double lost = 2 * least_ / roundoff_;
    const double gate_units =
        (moved < most ? std::min(most, 1.01 * moved + 4 * gate) : most) + lost;
    return gate_units * (mixed + mixed_units * roundoff_) +
           gate * (mixed_units + 1.01 * mixed);
  }

  const Inputs& inputs_;
  const Tensor *const psi_, *const weights_;
  const int64_t n_, token_, m_, e_;
  const double roundoff_, least_;
  std::vector<ReducedRows<Real>> numbers_;  // x phi_u2 of each head
};

}  // namespace subquad
