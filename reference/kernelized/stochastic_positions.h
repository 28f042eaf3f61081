// Stochastic positional encoding (SPE; FastRPB eq. 8): queries and keys are
// multiplied by noise whose covariance depends on the offset alone.
//
//   sine  qbar_a(i) = sum_c g_ac (cos(2 pi f_ac i + t_ac) z_a,2c
//                                 + sin(2 pi f_ac i + t_ac) z_a,2c+1)
//         kbar_a(j) the same with t = 0
//   conv  qbar_a(i) = sum_p filters_q[a,p] z_a,i+p,  kbar_a(j) with filters_k
//   q^_i[r] = sum_a q_i[a] qbar_a(i,r) / sqrt(R),    k^_j[r] likewise
//
// for R independent draws r of the noise z. The expectation of q^_i . k^_j is
// sum_a q_i[a] P_a(i,j) k_j[a] with the covariances
//   sine  P_a(i,j) = sum_c g_ac^2 cos(2 pi f_ac (i-j) + t_ac)
//   conv  P_a(i,j) = sum_p filters_q[a,p] filters_k[a,p+i-j]
//
// Bound of one q^_i[r], in units of the roundoff. A sum of m terms, in whatever
// order, has m - 1 partial sums between that of its negative terms, -N, and
// that of its positive ones, P, each rounded once: (m - 1) max(P, N), which is
// half of what (m - 1) (P + N) is. The root and the division add 3 |q^|.
//   sine  one sum of 2 d C terms of four factors, each off by three roundings
//         and its cosine's error: the turns f i are taken modulo one before
//         anything is rounded (Turns), so that an angle is off by at most
//         (10 + pi + |t|) u and its cosine by (24 + 2|t|) u with the function's
//         own error.
//   conv  qbar_a, a sum of P products, each rounded once, is rounded in its
//         product with q_i[a]; then a sum of d such terms. Not one sum of d P:
//         that is worse by the factor d P / (d + P).
#pragma once

#include <algorithm>
#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/problem.h"

namespace subquad {

// Returns f i modulo 1 for an integer i, rounded once: whole turns are removed
// from f first, exactly, and the product's low part is kept.
template <typename Real>
Real Turns(Real frequency, Real position) {
  frequency -= nearbyint(frequency);
  const Real product = frequency * position;
  const Real low = fma(frequency, position, -product);
  return (product - nearbyint(product)) + low;
}

// Computes the rows q^_i and k^_j of one problem.
template <typename Real>
class StochasticPositions {
 public:
  StochasticPositions(const Problem& problem, const Inputs& inputs)
      : inputs_(inputs),
        sine_(problem.params.Text("kind") == "sine"),
        d_(problem.Dim("d")),
        draws_(problem.Dim("draws")),
        steps_(problem.Dim(sine_ ? "components" : "taps")) {}

  int64_t draws() const { return draws_; }

  // Writes `draws` values and, if `units` is not null, the bounds of their
  // errors.
  void Query(int64_t head, int64_t i, Real* row, double* units) const {
    Write(inputs_["q"], sine_ ? "" : "filters_q", sine_, head, i, row, units);
  }
  void Key(int64_t head, int64_t j, Real* row, double* units) const {
    Write(inputs_["k"], sine_ ? "" : "filters_k", false, head, j, row, units);
  }

 private:
  // Sums over the terms t of every draw: of |t|, of t, and of the errors of t.
  // max(P, N) is half of sum |t| + |sum t|.
  struct Sums {
    std::vector<double> sizes, totals, units;

    explicit Sums(size_t draws) : sizes(draws), totals(draws), units(draws) {}
    bool empty() const { return sizes.empty(); }
    void Add(int64_t r, double term, double term_units) {
      sizes[r] += std::abs(term);
      totals[r] += term;
      units[r] += term_units;
    }
    double Units(int64_t r, int64_t terms) const {
      return units[r] + static_cast<double>(terms - 1) *
                            (sizes[r] + std::abs(totals[r])) / 2;
    }
  };

  void Write(const Tensor& tokens, const std::string& filters, bool phases,
             int64_t head, int64_t i, Real* row, double* units) const {
    std::fill_n(row, draws_, Real{0});
    Sums sums(units ? static_cast<size_t>(draws_) : 0);
    const double* x = tokens.Head(head) + i * d_;
    for (int64_t a = 0; a < d_; ++a)
      if (sine_)
        AddSine(static_cast<Real>(x[a]), phases, head, a, i, row, sums);
      else
        AddConv(static_cast<Real>(x[a]), filters, head, a, i, row, sums);
    const Real root = sqrt(static_cast<Real>(draws_));
    for (int64_t r = 0; r < draws_; ++r) row[r] /= root;
    AsRow(row, draws_);
    for (int64_t r = 0; r < draws_; ++r) {
      if (!units) continue;
      units[r] = 1.01 * (sums.Units(r, sine_ ? 2 * d_ * steps_ : d_) /
                             static_cast<double>(root) +
                         3 * std::abs(static_cast<double>(row[r])));
    }
  }

  void AddSine(Real x, bool phases, int64_t head, int64_t a, int64_t i,
               Real* row, Sums& sums) const {
    const Tensor& noise = inputs_["z"];
    for (int64_t c = 0; c < steps_; ++c) {
      const int64_t at = a * steps_ + c;
      const Real frequency = static_cast<Real>(inputs_["freqs"].Head(head)[at]);
      const Real gain = static_cast<Real>(inputs_["gains"].Head(head)[at]);
      const Real phase =
          phases ? static_cast<Real>(inputs_["phases"].Head(head)[at])
                 : Real{0};
      const Real angle = 2 * std::numbers::pi_v<Real> *
                             Turns(frequency, static_cast<Real>(i)) +
                         phase;
      const Real cosine = cos(angle), sine = sin(angle);
      const double* z = noise.Head(head) + 2 * at * draws_;
      const double function = 24 + 2 * std::abs(static_cast<double>(phase));
      const double weight = std::abs(static_cast<double>(x * gain));
      for (const Real& factor : {cosine, sine}) {
        AddScaledRow(row, x * gain * factor, z, draws_);
        for (int64_t r = 0; r < draws_ && !sums.empty(); ++r) {
          const double term = static_cast<double>(x * gain * factor) * z[r];
          sums.Add(r, term,
                   3 * std::abs(term) + function * weight * std::abs(z[r]));
        }
        z += draws_;
      }
    }
  }

  void AddConv(Real x, const std::string& filters, int64_t head, int64_t a,
               int64_t i, Real* row, Sums& sums) const {
    const Tensor& noise = inputs_["z"];
    const int64_t length = noise.shape[noise.shape.size() - 2];
    const double* filter = inputs_[filters].Head(head) + a * steps_;
    const double* z = noise.Head(head) + (a * length + i) * draws_;
    std::vector<Real> channel(static_cast<size_t>(draws_));  // qbar_a
    Sums taps(sums.sizes.size());
    for (int64_t p = 0; p < steps_; ++p) {
      const double* draws = z + p * draws_;
      AddScaledRow(channel.data(), static_cast<Real>(filter[p]), draws, draws_);
      for (int64_t r = 0; r < draws_ && !taps.empty(); ++r) {
        const double term = filter[p] * draws[r];
        taps.Add(r, term, std::abs(term));
      }
    }
    AsRow(channel.data(), draws_);
    AddScaledRow(row, x, channel.data(), draws_);
    for (int64_t r = 0; r < draws_ && !sums.empty(); ++r) {
      const double term =
          static_cast<double>(x) * static_cast<double>(channel[r]);
      sums.Add(r, term,
               std::abs(term) +
                   std::abs(static_cast<double>(x)) * taps.Units(r, steps_));
    }
  }

  const Inputs& inputs_;
  const bool sine_;
  const int64_t d_, draws_, steps_;
};

}  // namespace subquad
