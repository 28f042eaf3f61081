// The value of kernelized attention, row by row:
//
//   out_i = sum_j c_ij phi(q_i).phi(k_j) v_j / sum_j c_ij phi(q_i).phi(k_j)
//
// with c_ij = exp(bias(j - i)), or 1 without a bias, over the keys that query i
// sees (causal: j <= i). linear_attention, kernelized_rpe_attention and the
// linear half of fastrpb_attention are this.
//
// Range. Every feature, product and weight has an exponent of its own
// (scaled.h), and the two sums are taken relative to the largest weight, which
// cancels in their quotient. So nothing overflows, and a small weight is lost
// only beside one that is larger by the type's whole range.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "reference/kernelized/feature_map.h"
#include "reference/kernelized/feature_row.h"

namespace subquad {

// Taken from a bias before its exponential, which changes nothing in a
// normalised attention: nothing, so that nothing is rounded, unless the largest
// entry is far off.
inline double BiasShift(const double* bias, int64_t count) {
  const double largest = *std::max_element(bias, bias + count);
  return std::abs(largest) > 1e5 && std::isfinite(largest) ? largest : 0;
}

// Entries 1e6 below are as good as equal: at 1e9 float32 counts in steps of 64.
inline double ShiftedBias(double bias, double shift) {
  return std::clamp(bias - shift, -kMaxLogarithm, kMaxLogarithm);
}

// Writes a row of queries or keys that an operator computes, and where `units`
// is not null the bounds of its errors in units of the roundoff.
template <typename Real>
using ComputedRow =
    std::function<void(int64_t head, int64_t row, Real* x, double* units)>;

template <typename Real>
class KernelizedValue {
 public:
  // Where queries or keys come from: an input, or where that is null `compute`.
  struct Source {
    const Tensor* tensor;
    ComputedRow<Real> compute;
    std::string name;  // "k: key "
  };

  KernelizedValue(const Problem& problem, const Inputs& inputs,
                  ComputedRow<Real> query, ComputedRow<Real> key)
      : problem_(problem),
        spec_(FeatureMapOf(problem)),
        q_{query ? nullptr : &inputs["q"], std::move(query), "q: query "},
        k_{key ? nullptr : &inputs["k"], std::move(key), "k: key "},
        v_(inputs["v"]),
        n_q_(QueriesOf(problem)),
        n_k_(KeysOf(problem)),
        e_(problem.Dim("e")),
        width_(problem.params.Has("width") ? problem.Dim("width") : 0),
        causal_(problem.params.Flag("causal")),
        bytes_(Info(ArithmeticOf(problem.scalar)).bytes) {
    for (int64_t head = 0; head < problem.heads; ++head) {
      maps_.emplace_back(
          spec_, spec_.projects() ? inputs["omega"].Head(head) : nullptr);
      keys_.emplace_back();
      for (int64_t j = 0; j < n_k_; ++j)
        keys_.back().push_back(Phi(k_, head, j));
    }
    if (!problem.HasInput("bias")) return;
    const Tensor& bias = inputs["bias"];
    bias_ = bias.slices;
    const int64_t count = bias.SliceSize();
    for (int64_t slice = 0; slice < bias_.count(); ++slice) {
      const double* b = bias.Slice(slice);
      const double shift = BiasShift(b, count);
      c_.emplace_back();
      for (int64_t t = 0; t < count; ++t)
        c_.back().push_back(std::isfinite(b[t]) ? SplitExp(static_cast<Real>(
                                                      ShiftedBias(b[t], shift)))
                                                : Scaled<Real>());
    }
  }

  // Writes out_i [e]; returns its normaliser sum_j c_ij phi(q_i).phi(k_j).
  Scaled<Real> Row(int64_t head, int64_t i, Real* out) const {
    const FeatureRow<Real> phi_q = Query(head, i);
    std::vector<Scaled<Real>> weights;
    int top = 2 * kZeroExponent;
    for (int64_t j = 0; j < Seen(i); ++j) {
      weights.push_back(Weight(head, i, j, phi_q));
      if (weights.back().mantissa != 0)
        top = std::max(
            top, weights.back().exponent + std::ilogb(weights.back().mantissa));
    }
    const double* v = v_.Head(head);
    std::fill_n(out, e_, Real{0});
    Real normaliser = 0;
    for (int64_t j = 0; j < Seen(i); ++j) {
      const Scaled<Real>& w = weights[static_cast<size_t>(j)];
      const Real weight = std::ldexp(w.mantissa, w.exponent - top);
      normaliser += weight;
      for (int64_t x = 0; x < e_; ++x)
        out[x] += weight * static_cast<Real>(v[j * e_ + x]);
    }
    // In the problem's own type, rounding may cancel a nonzero sum to zero.
    if (normaliser == 0 && static_cast<int64_t>(sizeof(Real)) > bytes_)
      throw InvalidInput("query " + std::to_string(i) + problem_.HeadName(head),
                         "a normaliser other than zero", "zero");
    for (int64_t x = 0; x < e_; ++x) out[x] /= normaliser;
    return {normaliser, top};
  }

  // The parts of the sums, for their bound.
  const Source& queries() const { return q_; }
  const Source& keys() const { return k_; }
  int64_t Seen(int64_t i) const {
    return causal_ ? std::min(i + 1, n_k_) : n_k_;
  }
  FeatureRow<Real> Query(int64_t head, int64_t i) const {
    return Phi(q_, head, i);
  }
  const FeatureRow<Real>& Key(int64_t head, int64_t j) const {
    return keys_[static_cast<size_t>(head)][static_cast<size_t>(j)];
  }
  Scaled<Real> C(int64_t head, int64_t i, int64_t j) const {
    if (c_.empty()) return {1, 0};
    return c_[static_cast<size_t>(bias_.Of(head))]
             [static_cast<size_t>(BiasIndex(i, j))];
  }
  // The entry of the bias for query i and key j.
  int64_t BiasIndex(int64_t i, int64_t j) const {
    if (width_ == 0) return j - i + n_q_ - 1;
    const int64_t rows = j / width_ - i / width_ + n_q_ / width_ - 1;
    const int64_t columns = j % width_ - i % width_ + width_ - 1;
    return rows * (2 * width_ - 1) + columns;
  }

 private:
  // c_ij phi(q_i).phi(k_j)
  Scaled<Real> Weight(int64_t head, int64_t i, int64_t j,
                      const FeatureRow<Real>& phi_q) const {
    const Scaled<Real> c = C(head, i, j);
    if (c.mantissa == 0) return c;
    return c * SumOverFeatures(phi_q, Key(head, j),
                               [](Real q, Real k) { return q * k; });
  }

  FeatureRow<Real> Phi(const Source& from, int64_t head, int64_t row) const {
    const FeatureMap<Real>& map = maps_[static_cast<size_t>(head)];
    std::vector<Scaled<Real>> phi;
    bool found;
    if (from.tensor) {
      found = map.Row(from.tensor->Head(head) + row * spec_.d, phi);
    } else {
      std::vector<Real> x(static_cast<size_t>(spec_.d));
      from.compute(head, row, x.data(), nullptr);
      found = map.Row(x.data(), phi);
    }
    if (!found)
      throw InvalidInput(
          from.name + std::to_string(row) + problem_.HeadName(head),
          "a row of a length other than zero to normalise", "zero");
    return FeatureRow<Real>(phi);
  }

  const Problem& problem_;
  const FeatureMapSpec spec_;
  const Source q_, k_;
  const Tensor& v_;
  const int64_t n_q_, n_k_, e_;
  const int64_t width_;  // of an image; 0: a sequence
  const bool causal_;
  const int64_t bytes_;  // of the problem's arithmetic
  std::vector<FeatureMap<Real>> maps_;
  std::vector<std::vector<FeatureRow<Real>>> keys_;  // [heads][n_k]
  Slices bias_;
  std::vector<std::vector<Scaled<Real>>> c_;  // [slices][bias], or empty
};

}  // namespace subquad
