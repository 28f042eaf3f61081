// The sums that all kernelized attention shares, row by row:
//
//   out_i = sum_j c_ij (phi(q_i) . phi(k_j)) v_j / sum_j c_ij (phi(q_i) .
//   phi(k_j))
//
// with c_ij = exp(bias(j - i)), or 1 without a bias, and 0 where key j is not
// seen (causal, bias -inf). linear_attention, kernelized_rpe_attention and the
// linear half of fastrpb_attention are this.
//
// Range. phi(k_ja) and phi(q_ia) are mantissas and powers of two. Keys are
// stored as multiples of a scale 2^K_a per feature, the running maximum over
// the keys so far: a later key may be exp(192) times larger, and a causal query
// must not lose its own small ones to it. So keys come in runs of one scale,
// and a query is scaled afresh for each run that it sees. Whatever is common to
// a query's sums cancels in the quotient.
//
// Bound. Products and sums: a weight w_ij = c_ij sum_a phi_a(q) phi_a(k) is off
// by (f + 12) u c_ij sum_a |phi_a(q) phi_a(k)| = (f + 12) u m_ij to first
// order, and each of the two sums over n keys adds n u times the sum of
// magnitudes; the quotient N / D makes of this (dN + |out| dD) / |D|. Features:
// each is computed once and serves numerator and normaliser alike, so that an
// error e_ij of a weight, (rel_q + rel_k) u m_ij with the errors of
// feature_map.h and their absolute ones (trf only) times the other side's
// 1-norm, moves the quotient by e_ij (v_j - out) / D only. All together, with
// dD the whole error of D:
//   |error| <= (sum_j (f + n + 12) u m_ij (|v_j| + |out|)
//               + sum_j e_ij |v_j - out|) / (|D| - dD).
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "reference/feature_map.h"

namespace subquad {

// Queries and keys of a problem; on an image both are its pixels.
inline int64_t QueriesOf(const Problem& problem) {
  return problem.params.Has("height")
             ? problem.Dim("height") * problem.Dim("width")
             : problem.Dim("n_q");
}
inline int64_t KeysOf(const Problem& problem) {
  return problem.params.Has("height") ? QueriesOf(problem) : problem.Dim("n_k");
}

// Writes a row of queries or keys that an operator computes, and the bounds of
// its errors in units of the roundoff.
template <typename Real>
using ComputedRow =
    std::function<void(int64_t head, int64_t row, Real* x, double* units)>;

template <typename Real>
class KernelizedRows {
 public:
  // Queries and keys are inputs, or computed.
  KernelizedRows(const Problem& problem, const Inputs& inputs)
      : KernelizedRows(problem, inputs, nullptr, nullptr) {}
  KernelizedRows(const Problem& problem, const Inputs& inputs,
                 ComputedRow<Real> query, ComputedRow<Real> key)
      : spec_(FeatureMapOf(problem)),
        q_{query ? nullptr : &inputs["q"], std::move(query)},
        k_{key ? nullptr : &inputs["k"], std::move(key)},
        v_(inputs["v"]),
        n_q_(QueriesOf(problem)),
        n_k_(KeysOf(problem)),
        e_(problem.Dim("e")),
        f_(spec_.features()),
        causal_(problem.params.Flag("causal")),
        head_axis_(problem.head_axis),
        roundoff_(Info(problem.scalar).unit_roundoff) {
    for (int64_t head = 0; head < problem.heads; ++head) {
      const double* omega =
          spec_.projects() ? inputs["omega"].Head(head) : nullptr;
      maps_.emplace_back(spec_, omega);
      keys_.push_back(MakeKeys(head));
    }
  }

  // A bias by offset, or by both offsets of an image.
  void SetBias(const Tensor& bias, int64_t heads, int64_t image_width) {
    image_width_ = image_width;
    for (int64_t head = 0; head < heads; ++head) {
      if (head > 0 && bias.head_stride == 0) break;
      const int64_t count = static_cast<int64_t>(bias.values.size()) /
                            (bias.head_stride == 0 ? 1 : heads);
      Bias one{std::vector<Real>(count), std::vector<int>(count)};
      const double shift = BiasShift(bias.Head(head), count);
      for (int64_t t = 0; t < count; ++t) {
        const double b = bias.Head(head)[t];
        one.exponent[t] = kZeroExponent;
        if (std::isfinite(b))
          one.mantissa[t] = SplitExp(static_cast<Real>(ShiftedBias(b, shift)),
                                     &one.exponent[t]);
      }
      bias_.push_back(std::move(one));
    }
  }

  void Row(int64_t head, int64_t i, Real* value, double* units) const {
    const Keys& keys = keys_[head];
    const double* v = v_.Head(head);
    std::vector<Real> mantissa(f_), query(f_);
    std::vector<int> exponent(f_);
    FeatureError q_error;
    if (!FeaturesOf(q_, head, i, mantissa.data(), exponent.data(), &q_error))
      throw InvalidInput("q: query " + std::to_string(i) + HeadName(head),
                         "a row of a length other than zero to normalise",
                         "zero");
    const int64_t seen = causal_ ? std::min(i + 1, n_k_) : n_k_;
    size_t runs = 0;
    while (runs < keys.runs.size() && keys.runs[runs].first < seen) ++runs;
    // The largest product of two features of each run, and the largest factor
    // of a key that is seen.
    std::vector<int> tops(runs, 2 * kZeroExponent);
    int factor_top = 8 * kZeroExponent;
    for (size_t run = 0; run < runs; ++run) {
      for (int64_t a = 0; a < f_; ++a)
        tops[run] = std::max(tops[run], exponent[a] + keys.runs[run].scale[a]);
      const int64_t last = run + 1 < runs ? keys.runs[run + 1].first : seen;
      for (int64_t j = keys.runs[run].first; j < last; ++j)
        if (const int b = BiasExponent(head, i, j); b != kZeroExponent)
          factor_top = std::max(factor_top, tops[run] + keys.exponent[j] + b);
    }

    std::fill_n(value, e_, Real{0});
    std::vector<double> numerator_units(units ? e_ : 0);
    Real denominator = 0;
    double denominator_units = 0, all_units = 0;
    std::vector<double> feature_units(units ? seen : 0);
    for (size_t run = 0; run < runs; ++run) {
      const int64_t first = keys.runs[run].first;
      const int64_t last = run + 1 < runs ? keys.runs[run + 1].first : seen;
      const int top = tops[run];
      for (int64_t a = 0; a < f_; ++a)
        query[a] = std::ldexp(mantissa[a],
                              exponent[a] + keys.runs[run].scale[a] - top);
      for (int64_t j = first; j < last; ++j) {
        const int bias_exponent = BiasExponent(head, i, j);
        if (bias_exponent == kZeroExponent) continue;
        const Real c =
            std::ldexp(BiasMantissa(head, i, j),
                       top + keys.exponent[j] + bias_exponent - factor_top);
        const Real* k = keys.values.data() + j * f_;
        Real product = 0;
        for (int64_t a = 0; a < f_; ++a) product += query[a] * k[a];
        const Real weight = c * product;
        denominator += weight;
        for (int64_t x = 0; x < e_; ++x)
          value[x] += weight * static_cast<Real>(v[j * e_ + x]);
        if (!units) continue;
        double magnitude = 0, absolute = 0;
        for (int64_t a = 0; a < f_; ++a)
          magnitude += std::abs(static_cast<double>(query[a] * k[a]));
        // |phi_a(q)| times the key's error and the other way round, scaled as
        // the product is.
        if (const FeatureError& error = keys.error[j]; error.absolute > 0)
          for (int64_t a = 0; a < f_; ++a)
            absolute += std::ldexp(
                error.absolute * std::abs(static_cast<double>(mantissa[a])),
                error.exponent + exponent[a] - keys.exponent[j] - top);
        if (q_error.absolute > 0)
          for (int64_t a = 0; a < f_; ++a)
            absolute += std::ldexp(
                q_error.absolute * std::abs(static_cast<double>(k[a])),
                q_error.exponent + keys.runs[run].scale[a] - top);
        const double weight_units = static_cast<double>(c) *
                                    (static_cast<double>(f_ + seen) + 12) *
                                    magnitude;
        feature_units[j] =
            static_cast<double>(c) *
            ((q_error.relative + keys.error[j].relative) * magnitude +
             absolute);
        denominator_units += weight_units;
        all_units += weight_units + feature_units[j];
        for (int64_t x = 0; x < e_; ++x)
          numerator_units[x] += weight_units * std::abs(v[j * e_ + x]);
      }
    }
    if (denominator == 0)
      throw InvalidInput("query " + std::to_string(i) + HeadName(head),
                         "a normaliser other than zero", "zero");
    for (int64_t x = 0; x < e_; ++x) value[x] /= denominator;
    if (!units) return;
    for (int64_t j = 0; j < seen; ++j) {
      if (feature_units[j] == 0) continue;
      for (int64_t x = 0; x < e_; ++x)
        numerator_units[x] +=
            feature_units[j] *
            std::abs(v[j * e_ + x] - static_cast<double>(value[x]));
    }
    const double size = std::abs(static_cast<double>(denominator)) -
                        1.02 * roundoff_ * all_units;
    for (int64_t x = 0; x < e_; ++x) {
      const double out = std::abs(static_cast<double>(value[x]));
      units[x] =
          size > 0
              ? 1.02 * (numerator_units[x] + out * denominator_units) / size +
                    2 * out
              : std::numeric_limits<double>::infinity();
    }
  }

 private:
  // Keys from `first` on are multiples of 2^scale[a].
  struct Run {
    int64_t first;
    std::vector<int> scale;
  };
  // phi_a(k_j) = values[j, a] 2^(exponent[j] + scale[a])
  struct Keys {
    std::vector<Run> runs;
    std::vector<Real> values;
    std::vector<int> exponent;
    std::vector<FeatureError> error;  // of phi(k_j), not of its mantissas
  };
  struct Bias {
    std::vector<Real> mantissa;
    std::vector<int> exponent;
  };

  // Where queries or keys come from.
  struct Source {
    const Tensor* tensor;
    ComputedRow<Real> compute;
  };

  bool FeaturesOf(const Source& source, int64_t head, int64_t row,
                  Real* mantissa, int* exponent, FeatureError* error) const {
    if (source.tensor)
      return maps_[head].Row(source.tensor->Head(head) + row * spec_.d, nullptr,
                             mantissa, exponent, error);
    std::vector<Real> x(static_cast<size_t>(spec_.d));
    std::vector<double> units(x.size());
    source.compute(head, row, x.data(), units.data());
    return maps_[head].Row(x.data(), units.data(), mantissa, exponent, error);
  }

  std::string HeadName(int64_t head) const {
    return head_axis_ ? " of head " + std::to_string(head) : "";
  }

  // A key may exceed the scale of its run by this power of two.
  static constexpr int kSlack = 30;

  Keys MakeKeys(int64_t head) const {
    Keys keys;
    keys.values.resize(static_cast<size_t>(n_k_ * f_));
    std::vector<int> exponent(f_);
    for (int64_t j = 0; j < n_k_; ++j) {
      Real* values = keys.values.data() + j * f_;
      FeatureError error;
      if (!FeaturesOf(k_, head, j, values, exponent.data(), &error))
        throw InvalidInput("k: key " + std::to_string(j) + HeadName(head),
                           "a row of a length other than zero to normalise",
                           "zero");
      bool fits = !keys.runs.empty();
      for (int64_t a = 0; fits && a < f_; ++a)
        fits = exponent[a] <=
               keys.runs.back().scale[a] +
                   (keys.runs.back().scale[a] == kZeroExponent ? 0 : kSlack);
      if (!fits) {
        Run run{j, exponent};
        if (!keys.runs.empty())
          for (int64_t a = 0; a < f_; ++a)
            run.scale[a] = std::max(run.scale[a], keys.runs.back().scale[a]);
        keys.runs.push_back(std::move(run));
      }
      const std::vector<int>& scale = keys.runs.back().scale;
      int top = 2 * kZeroExponent;
      for (int64_t a = 0; a < f_; ++a)
        if (exponent[a] != kZeroExponent)
          top = std::max(top, exponent[a] - scale[a]);
      for (int64_t a = 0; a < f_; ++a)
        values[a] = std::ldexp(values[a], exponent[a] - scale[a] - top);
      keys.exponent.push_back(top);
      keys.error.push_back(error);
    }
    return keys;
  }

  int64_t BiasIndex(int64_t i, int64_t j) const {
    if (image_width_ == 0) return j - i + n_q_ - 1;
    const int64_t width = image_width_, height = n_q_ / width;
    return (j / width - i / width + height - 1) * (2 * width - 1) +
           (j % width - i % width + width - 1);
  }
  int BiasExponent(int64_t head, int64_t i, int64_t j) const {
    if (bias_.empty()) return 0;
    return bias_[bias_.size() == 1 ? 0 : head].exponent[BiasIndex(i, j)];
  }
  Real BiasMantissa(int64_t head, int64_t i, int64_t j) const {
    if (bias_.empty()) return 1;
    return bias_[bias_.size() == 1 ? 0 : head].mantissa[BiasIndex(i, j)];
  }

  const FeatureMapSpec spec_;
  const Source q_, k_;
  const Tensor& v_;
  const int64_t n_q_, n_k_, e_, f_;
  const bool causal_, head_axis_;
  const double roundoff_;
  int64_t image_width_ = 0;
  std::vector<FeatureMap<Real>> maps_;
  std::vector<Keys> keys_;
  std::vector<Bias> bias_;
};

}  // namespace subquad
