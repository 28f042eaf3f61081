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
// and a query is scaled afresh for each run that it sees. A product that is
// small at that scale is made again at one of its own: another key may be
// larger by far and hidden by the bias. Whatever is common to a query's sums
// cancels in the quotient.
//
// Bound. Products and sums: a weight w_ij = c_ij sum_a phi_a(q) phi_a(k) is off
// by (f + 12) u c_ij sum_a |phi_a(q) phi_a(k)| = (f + 12) u m_ij to first
// order, and each of the two sums over n keys adds n u times the sum of
// magnitudes; the quotient N / D makes of this (dN + |out| dD) / |D|. Features
// and c: each is computed once and serves numerator and normaliser alike, so
// that an error e_ij of a weight moves the quotient by e_ij (v_j - out) / D
// only. Features have (rel_q + rel_k + u rel_q rel_k) u m_ij with the errors of
// feature_map.h, and their absolute ones (trf only) times the other side's
// 1-norm; exp(b) has BiasUnits(b) u m_ij. Where q and k are computed (SPE), a
// feature's own error m_a adds
//   sum_a |phi_a(q)| m_a(k) + m_a(q) |phi_a(k)| + u m_a(q) m_a(k),
// and angles y, z of trf that are off by u t and u s: sine and cosine of one
// projection make F cos(y - z) of a pair, which moves by at most
//   F (|sin(y - z)| (t + s) + u (t + s)^2 / 2) u,
// and not by F (t + s) u, so that angles near each other, the heaviest weights,
// are good to the second order. Underflow: features and weights are held
// relative to the largest that a query sees, at a scale that may be off by
// 2^42, and programs may take what is not a normal number for zero; each of f
// products of a weight may be off by 2^42 times the smallest normal number,
// relative to the largest. All together, with dD the whole error of D:
//   |error| <= (sum_j (f + n + 12) u m_ij (|v_j| + |out|)
//               + sum_j e_ij |v_j - out|) / (|D| - dD).
#pragma once

#include <functional>
#include <limits>
#include <string>
#include <vector>

#include "reference/kernelized/feature_map.h"

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
        bytes_(Info(ArithmeticOf(problem.scalar)).bytes),
        roundoff_(ArithmeticRoundoff(problem.scalar)),
        smallest_(SmallestNormal(ArithmeticOf(problem.scalar))) {
    for (int64_t head = 0; head < problem.heads; ++head) {
      const double* omega =
          spec_.projects() ? inputs["omega"].Head(head) : nullptr;
      maps_.emplace_back(spec_, omega, roundoff_);
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
      Bias one{std::vector<Real>(count), std::vector<int>(count),
               std::vector<double>(count)};
      const double shift = BiasShift(bias.Head(head), count);
      for (int64_t t = 0; t < count; ++t) {
        const double b = bias.Head(head)[t];
        one.exponent[t] = kZeroExponent;
        if (!std::isfinite(b)) continue;
        one.mantissa[t] = SplitExp(static_cast<Real>(ShiftedBias(b, shift)),
                                   &one.exponent[t]);
        one.units[t] = BiasUnits(b, shift);
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
    // Weights are products[j] times c_ij times 2^exponents[j].
    std::vector<Real> products(seen);
    std::vector<int> exponents(seen);
    std::vector<double> magnitudes(units ? seen : 0);
    // Of the query's error times the key: absolutes[j] 2^absolute_powers[j].
    std::vector<double> absolutes(units ? seen : 0);
    std::vector<int> absolute_powers(units ? seen : 0);
    std::vector<Scaled> moved(units ? seen : 0);
    const Flat flat_query = Flatten(mantissa.data(), exponent, q_error);
    constexpr int kNothing = std::numeric_limits<int>::min();
    int weight_top = kNothing;
    for (size_t run = 0; run < keys.runs.size(); ++run) {
      const int64_t first = keys.runs[run].first;
      if (first >= seen) break;
      const int64_t last = run + 1 < keys.runs.size()
                               ? std::min(keys.runs[run + 1].first, seen)
                               : seen;
      const std::vector<int>& scale = keys.runs[run].scale;
      int top = 2 * kZeroExponent;
      bool spread = false;
      for (int64_t a = 0; a < f_; ++a)
        top = std::max(top, exponent[a] + scale[a]);
      for (int64_t a = 0; a < f_; ++a) {
        const int power = exponent[a] + scale[a] - top;
        spread |=
            mantissa[a] != 0 && scale[a] != kZeroExponent && power < -kNarrow;
        query[a] = std::ldexp(mantissa[a], power);
      }
      for (int64_t j = first; j < last; ++j) {
        if (BiasExponent(head, i, j) == kZeroExponent) continue;
        const Real* k = keys.values.data() + j * f_;
        Pair pair = {query.data(), k, top + keys.exponent[j]};
        Real product = Product(pair);
        std::vector<Real> own_query, own_key;
        if ((spread || keys.spread[j]) &&
            !(std::abs(product) >= std::ldexp(Real{1}, -kNarrow))) {
          pair =
              OwnScale(head, j, mantissa, exponent, pair, own_query, own_key);
          product = Product(pair);
        }
        products[j] = product;
        exponents[j] = pair.exponent + BiasExponent(head, i, j);
        if (product != 0)
          weight_top = std::max(weight_top, exponents[j] + std::ilogb(product));
        if (!units) continue;
        for (int64_t a = 0; a < f_; ++a)
          magnitudes[j] +=
              std::abs(static_cast<double>(pair.query[a] * pair.key[a]));
        if (!q_error.angles.empty())
          moved[j] = MovedAngles(q_error.angles, keys.error[j].angles, pair);
        if (!q_error.moved.empty())
          moved[j] = MovedFeatures(flat_query, keys.flat[j]);
        if (q_error.absolute == 0) continue;
        const int scale_top = *std::max_element(scale.begin(), scale.end());
        for (int64_t a = 0; a < f_; ++a)
          absolutes[j] +=
              std::ldexp(q_error.absolute * std::abs(static_cast<double>(k[a])),
                         scale[a] - scale_top);
        absolute_powers[j] = q_error.exponent + scale_top + keys.exponent[j];
      }
    }
    if (weight_top == kNothing) weight_top = 0;

    std::fill_n(value, e_, Real{0});
    Real denominator = 0;
    for (int64_t j = 0; j < seen; ++j) {
      if (products[j] == 0) continue;
      const Real weight = products[j] * std::ldexp(BiasMantissa(head, i, j),
                                                   exponents[j] - weight_top);
      denominator += weight;
      for (int64_t x = 0; x < e_; ++x)
        value[x] += weight * static_cast<Real>(v[j * e_ + x]);
    }
    // In the problem's own type a sum may cancel to zero that is none.
    if (denominator == 0 && static_cast<int64_t>(sizeof(Real)) > bytes_)
      throw InvalidInput("query " + std::to_string(i) + HeadName(head),
                         "a normaliser other than zero", "zero");
    for (int64_t x = 0; x < e_; ++x) value[x] /= denominator;
    if (!units) return;

    std::vector<double> numerator_units(e_);
    double denominator_units = 0, all_units = 0, largest = 0;
    std::vector<double> feature_units(seen);
    const int query_top = *std::max_element(exponent.begin(), exponent.end());
    double query_sum = 0;  // sum_a |phi_a(q)| / 2^query_top
    for (int64_t a = 0; a < f_; ++a)
      query_sum += std::ldexp(std::abs(static_cast<double>(mantissa[a])),
                              exponent[a] - query_top);
    for (int64_t j = 0; j < seen; ++j) {
      const int bias_exponent = BiasExponent(head, i, j);
      if (bias_exponent == kZeroExponent) continue;
      const double c = static_cast<double>(BiasMantissa(head, i, j));
      const double magnitude =
          magnitudes[j] == 0
              ? 0
              : c * std::ldexp(magnitudes[j], exponents[j] - weight_top);
      // |phi_a(q)| times the key's error and the other way round.
      const FeatureError& k_error = keys.error[j];
      const double absolute =
          std::ldexp(
              k_error.absolute * query_sum,
              k_error.exponent + query_top + bias_exponent - weight_top) +
          std::ldexp(absolutes[j],
                     absolute_powers[j] + bias_exponent - weight_top) +
          std::ldexp(moved[j].size,
                     moved[j].exponent + bias_exponent - weight_top);
      const double weight_units =
          (static_cast<double>(f_ + seen) + 12) * magnitude;
      feature_units[j] = (q_error.relative + k_error.relative +
                          roundoff_ * q_error.relative * k_error.relative +
                          BiasErrorUnits(head, i, j)) *
                             magnitude +
                         c * absolute;
      largest = std::max(largest, magnitude);
      denominator_units += weight_units;
      all_units += weight_units + feature_units[j];
      for (int64_t x = 0; x < e_; ++x)
        numerator_units[x] += weight_units * std::abs(v[j * e_ + x]);
    }
    const double lost =
        static_cast<double>(f_) * largest * smallest_ * 0x1p42 / roundoff_;
    for (int64_t j = 0; j < seen; ++j) {
      if (BiasExponent(head, i, j) == kZeroExponent) continue;
      all_units += lost;
      for (int64_t x = 0; x < e_; ++x)
        numerator_units[x] +=
            (feature_units[j] + lost) *
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
  // What errors of q and k themselves do to phi(q) . phi(k), in units of the
  // roundoff: size 2^exponent.
  using Scaled = FeatureError::Moved;

  // Features, without their signs, and what moved them: value[a] 2^top and
  // moved[a] 2^top; or, where not all of them are within 2^400 of the largest,
  // as they are.
  struct Flat {
    std::vector<double> value, moved;
    int top = 0;
    bool fits = false;
    std::vector<Scaled> values, errors;
  };

  // phi_a(k_j) = values[j, a] 2^(exponent[j] + scale[a])
  struct Keys {
    std::vector<Run> runs;
    std::vector<Real> values;
    std::vector<int> exponent;
    std::vector<bool> spread;         // features more than 2^kNarrow apart
    std::vector<FeatureError> error;  // of phi(k_j), not of its mantissas
    std::vector<Flat> flat;           // where k_j is not exact
  };
  struct Bias {
    std::vector<Real> mantissa;
    std::vector<int> exponent;
    std::vector<double> units;  // of the error of its exponential
  };

  // The product of two numbers of this size is a normal number of any type.
  static constexpr int kNarrow = 60;

  // phi(q_i) . phi(k_j) = sum_a query[a] key[a] 2^exponent
  struct Pair {
    const Real* query;
    const Real* key;
    int exponent;
  };

  static Flat Flatten(const Real* mantissa, const std::vector<int>& exponent,
                      const FeatureError& error) {
    Flat flat;
    const size_t f = error.moved.size();
    if (f == 0) return flat;
    int top = std::numeric_limits<int>::min();
    int least = std::numeric_limits<int>::max();
    for (size_t a = 0; a < f; ++a) {
      flat.values.push_back(
          {std::abs(static_cast<double>(mantissa[a])), exponent[a]});
      for (const Scaled& one : {flat.values.back(), error.moved[a]}) {
        if (one.size == 0) continue;
        top = std::max(top, one.exponent);
        least = std::min(least, one.exponent);
      }
    }
    const bool any = least <= top;
    flat.top = any ? top : 0;
    flat.fits = !any || int64_t{top} - least < 400;
    if (!flat.fits) {
      flat.errors = error.moved;
      return flat;
    }
    const auto scaled = [&](const Scaled& one) {
      return one.size == 0 ? 0 : std::ldexp(one.size, one.exponent - flat.top);
    };
    for (size_t a = 0; a < f; ++a) {
      flat.value.push_back(scaled(flat.values[a]));
      flat.moved.push_back(scaled(error.moved[a]));
    }
    flat.values.clear();
    return flat;
  }

  // |phi_a(q)| m_a(k) + m_a(q) |phi_a(k)| + u m_a(q) m_a(k) over all a.
  Scaled MovedFeatures(const Flat& q, const Flat& k) const {
    Scaled total;
    if (q.fits && k.fits) {
      total.exponent = q.top + k.top;
      for (size_t a = 0; a < q.value.size(); ++a)
        total.size += q.value[a] * k.moved[a] +
                      q.moved[a] * (k.value[a] + roundoff_ * k.moved[a]);
      return total;
    }
    const auto value = [](const Flat& flat, size_t a) {
      return flat.fits ? Scaled{flat.value[a], flat.top} : flat.values[a];
    };
    const auto moved = [](const Flat& flat, size_t a) {
      return flat.fits ? Scaled{flat.moved[a], flat.top} : flat.errors[a];
    };
    // Terms may be anywhere: the sum keeps the scale of the largest so far.
    const auto add = [&](double factor, const Scaled& x, const Scaled& y) {
      const double size = factor * x.size * y.size;
      if (size == 0) return;
      const int exponent = x.exponent + y.exponent;
      if (total.size == 0) total.exponent = exponent;
      if (exponent > total.exponent) {
        total.size = std::ldexp(total.size, total.exponent - exponent);
        total.exponent = exponent;
      }
      total.size += std::ldexp(size, exponent - total.exponent);
    };
    for (int64_t a = 0; a < f_; ++a) {
      add(1, value(q, a), moved(k, a));
      add(1, moved(q, a), value(k, a));
      add(roundoff_, moved(q, a), moved(k, a));
    }
    return total;
  }

  // The same of angles.
  Scaled MovedAngles(const std::vector<double>& q, const std::vector<double>& k,
                     const Pair& pair) const {
    const size_t p = q.size();
    const auto query = [&](size_t a) {
      return static_cast<double>(pair.query[a]);
    };
    const auto key = [&](size_t a) { return static_cast<double>(pair.key[a]); };
    const double factor =
        std::hypot(query(0), query(p)) * std::hypot(key(0), key(p));
    Scaled total{0, pair.exponent};
    for (size_t a = 0; a < p; ++a) {
      const double angle = q[a] + k[a];
      total.size +=
          angle * (std::abs(query(a) * key(a + p) - query(a + p) * key(a)) +
                   factor * roundoff_ * angle / 2);
    }
    return total;
  }

  Real Product(const Pair& pair) const {
    Real product = 0;
    for (int64_t a = 0; a < f_; ++a) product += pair.query[a] * pair.key[a];
    return product;
  }

  // The same pair at the scale of its own largest product; as it is where all
  // are zero.
  Pair OwnScale(int64_t head, int64_t j, const std::vector<Real>& mantissa,
                const std::vector<int>& exponent, const Pair& pair,
                std::vector<Real>& query, std::vector<Real>& key) const {
    std::vector<int> key_exponent(f_);
    key.resize(f_);
    query.resize(f_);
    FeatureError error;
    FeaturesOf(k_, head, j, key.data(), key_exponent.data(), &error);
    bool any = false;
    int top = 0;
    for (int64_t a = 0; a < f_; ++a) {
      if (mantissa[a] == 0 || key[a] == 0) continue;
      const int power = exponent[a] + key_exponent[a];
      top = any ? std::max(top, power) : power;
      any = true;
    }
    if (!any) return pair;
    for (int64_t a = 0; a < f_; ++a)
      query[a] =
          mantissa[a] == 0 || key[a] == 0
              ? Real{0}
              : std::ldexp(mantissa[a], exponent[a] + key_exponent[a] - top);
    return {query.data(), key.data(), top};
  }

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
      if (!error.moved.empty())
        keys.flat.push_back(Flatten(values, exponent, error));
      error.moved = {};  // in there
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
        if (values[a] != 0) top = std::max(top, exponent[a] - scale[a]);
      bool spread = false;
      for (int64_t a = 0; a < f_; ++a)
        spread |= values[a] != 0 && exponent[a] - scale[a] < top - kNarrow;
      keys.spread.push_back(spread);
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
  double BiasErrorUnits(int64_t head, int64_t i, int64_t j) const {
    if (bias_.empty()) return 0;
    return bias_[bias_.size() == 1 ? 0 : head].units[BiasIndex(i, j)];
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
  const int64_t bytes_;  // of the arithmetic
  const double roundoff_, smallest_;
  int64_t image_width_ = 0;
  std::vector<FeatureMap<Real>> maps_;
  std::vector<Keys> keys_;
  std::vector<Bias> bias_;
};

}  // namespace subquad
