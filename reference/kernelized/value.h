// The value of kernelized attention, row by row:
//
//   out_i = sum_j c_ij phi(q_i).phi(k_j) v_j
//           / (eps + sum_j c_ij phi(q_i).phi(k_j))
//
// with c_ij = exp(bias(j - i)), or 1 without a bias, over the keys that query i
// sees (visible_keys.h) and that its mask does not hide; unnormalised, the
// numerator alone. It defines
// linear_attention, kernelized_rpe_attention and the linear half of
// fastrpb_attention.
//
// Range. Every feature, product and weight has an exponent of its own
// (scaled.h), and the two sums are computed relative to the largest weight,
// which cancels in their quotient. eps is brought to that scale, or where it is
// larger the sums are brought to its scale; an unnormalised sum is scaled back.
// So nothing overflows, and a small weight is lost only beside one that is
// larger by the type's whole range.
//
// A query that sees no key has empty sums and the value zero, whatever eps is.
// One that sees keys whose features cancel has none.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "reference/base/functions.h"
#include "reference/base/long_sums.h"
#include "reference/base/offset_bias.h"
#include "reference/base/pair_tensor.h"
#include "reference/base/term_order.h"
#include "reference/base/visible_keys.h"
#include "reference/kernelized/feature_map.h"
#include "reference/kernelized/feature_row.h"

namespace subquad {

// Returns the shift that is subtracted from a bias before its exponential and
// restored where it does not cancel. It is zero, so that nothing is rounded,
// unless the largest entry is far from zero.
inline double BiasShift(const double* bias, int64_t count) {
  if (count == 0) return 0;
  const double largest = *std::max_element(bias, bias + count);
  return std::abs(largest) > 1e5 && isfinite(largest) ? largest : 0;
}

// Subtracts the shift. Entries 1e6 below the largest of a sequence are as good
// as masked; near 1e9, float32 values are 64 apart.
template <typename Real>
Real ShiftedBias(Real bias, Real shift) {
  const Real most = static_cast<Real>(kMaxLogarithm);
  return std::clamp(bias - shift, -most, most);
}

// The entries of a bias by offset that belong to one of the packed sequences,
// and their shift. Without packing, they are all entries.
struct SequenceBias {
  int64_t first, count;
  double shift;
};

// Lists these parts of a slice of the bias, in the order of the sequences.
inline std::vector<SequenceBias> SequenceBiases(const Problem& problem,
                                                const VisibleKeys& visible,
                                                std::span<const double> bias) {
  std::vector<SequenceBias> parts;
  if (!problem.params.Has("packed_q")) {
    const auto count = static_cast<int64_t>(bias.size());
    return {{0, count, BiasShift(bias.data(), count)}};
  }
  const int64_t before = OffsetsOf(visible.sequences()).before;
  for (const Sequence& one : visible.sequences()) {
    if (one.queries == 0 || one.keys == 0) {
      parts.push_back({0, 0, 0});
      continue;
    }
    const OffsetRange own = OffsetsOf({one});
    const int64_t first = before - own.before, count = own.count();
    parts.push_back({first, count, BiasShift(bias.data() + first, count)});
  }
  return parts;
}

// Writes a row of queries or keys that an operator computes and, if `units` is
// not null, the bounds of its errors in units of the roundoff.
template <typename Real>
using ComputedRow =
    std::function<void(int64_t head, int64_t row, Real* x, double* units)>;

template <typename Real>
class KernelizedValue {
 public:
  // The source of queries or keys: an input, or `compute` if that is null.
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
        mask_(problem, inputs, "mask"),
        e_(problem.Dim("e")),
        visible_(problem),
        bias_index_(problem, visible_),
        normaliser_(NormaliserOf(problem)),
        bytes_(Info(ArithmeticOf(problem.scalar)).bytes) {
    for (int64_t head = 0; head < problem.heads; ++head) {
      maps_.emplace_back(
          spec_, spec_.projects() ? inputs["omega"].Head(head) : nullptr);
      keys_.emplace_back();
      for (int64_t j = 0; j < visible_.Length(head); ++j)
        keys_.back().push_back(Phi(k_, head, j));
    }
    if (!problem.HasInput("bias")) return;
    const Tensor& bias = inputs["bias"];
    bias_ = bias.slices;
    for (int64_t slice = 0; slice < bias_.count(); ++slice) {
      const double* b = bias.Slice(slice);
      for (const SequenceBias& part : SequenceBiases(
               problem, visible_, {b, static_cast<size_t>(bias.SliceSize())})) {
        const Real shift = static_cast<Real>(part.shift);
        // Beyond this limit there are only zeros and infinities.
        Weights& weights = c_.emplace_back();
        weights.unit =
            SplitExp(static_cast<Real>(std::clamp(part.shift, -1e8, 1e8)));
        weights.first = part.first;
        for (int64_t t = part.first; t < part.first + part.count; ++t)
          weights.c.push_back(
              isfinite(b[t])
                  ? SplitExp(ShiftedBias(static_cast<Real>(b[t]), shift))
                  : Scaled<Real>());
      }
    }
  }

  // Writes out_i [e] and returns its divisor; if unnormalised, the reciprocal
  // of the factor that was applied to the sums.
  Scaled<Real> Row(int64_t head, int64_t i, Real* out) const {
    const FeatureRow<Real> phi_q = Query(head, i);
    std::vector<Scaled<Real>> weights;
    int top = 2 * kZeroExponent;
    if (SeesNothing(head, i)) {
      std::fill_n(out, e_, Real{0});
      return {1, 0};
    }
    const int64_t first = First(head, i);
    for (int64_t j = first; j < End(head, i); ++j) {
      weights.push_back(Weight(head, i, j, phi_q));
      if (weights.back().mantissa != 0)
        top = std::max(
            top, weights.back().exponent + ilogb(weights.back().mantissa));
    }
    const double* v = v_.Head(head) + first * e_;
    const auto width = static_cast<size_t>(e_);
    LongSums<Real> sums(width + 1);  // the last sum is the normaliser
    ForTerms(weights.size(), [&](size_t j) {
      const Scaled<Real>& w = weights[j];
      const Real weight = ldexp(w.mantissa, w.exponent - top);
      sums.Add(width, weight);
      sums.AddRow(weight, v + j * width, width);
      sums.Next();
    });
    for (size_t x = 0; x < width; ++x) out[x] = sums.Total(x);
    Real normaliser = Divisor(sums.Total(width));
    // The weights of this loop lack the factor `unit`.
    const Scaled<Real> unit = Unit(head, i, top);
    if (!normaliser_.normalized) {
      for (int64_t x = 0; x < e_; ++x)
        out[x] = ldexp(out[x] * unit.mantissa, unit.exponent);
      return {1 / unit.mantissa, top - unit.exponent};
    }
    if (normaliser_.eps > 0) {
      const Real eps = static_cast<Real>(normaliser_.eps) / unit.mantissa;
      const int over = std::max(0, ilogb(eps) - unit.exponent);
      normaliser = ldexp(normaliser, -over) + ldexp(eps, -unit.exponent - over);
      for (int64_t x = 0; x < e_; ++x) out[x] = ldexp(out[x], -over);
      top += over;
    }
    // In the problem's own type, rounding may cancel a nonzero sum to zero.
    if (normaliser == 0 && static_cast<int64_t>(sizeof(Real)) > bytes_)
      throw InvalidInput("query " + std::to_string(i) + problem_.HeadName(head),
                         "a normaliser other than zero", "zero");
    for (int64_t x = 0; x < e_; ++x) out[x] /= normaliser;
    return {normaliser, top};
  }

  // The operands of the sums, for their bound.
  const Source& queries() const { return q_; }
  const Source& keys() const { return k_; }
  int64_t KeyCount(int64_t head) const { return visible_.Length(head); }
  // Keys outside First <= j < End are hidden from query i; of those between
  // them, C is zero where the mask or a bias of -inf hides one.
  int64_t First(int64_t head, int64_t i) const {
    return visible_.First(head, i);
  }
  int64_t End(int64_t head, int64_t i) const { return visible_.End(head, i); }
  bool SeesNothing(int64_t head, int64_t i) const {
    for (int64_t j = First(head, i); j < End(head, i); ++j)
      if (C(head, i, j).mantissa != 0) return false;
    return true;
  }
  const Normaliser& normaliser() const { return normaliser_; }
  FeatureRow<Real> Query(int64_t head, int64_t i) const {
    return Phi(q_, head, i);
  }
  const FeatureRow<Real>& Key(int64_t head, int64_t j) const {
    return keys_[static_cast<size_t>(head)][static_cast<size_t>(j)];
  }
  Scaled<Real> C(int64_t head, int64_t i, int64_t j) const {
    if (const double* sees = mask_.At(head, i, j); sees && *sees == 0)
      return {0, 0};
    if (c_.empty()) return {1, 0};
    const Weights& weights = c_[BiasPart(head, i)];
    return weights.c[static_cast<size_t>(BiasIndex(i, j) - weights.first)];
  }
  // Returns which of the slices' SequenceBiases, one slice after another,
  // belongs to a head and a query.
  size_t BiasPart(int64_t head, int64_t i) const {
    return static_cast<size_t>(bias_.Of(head)) * visible_.sequences().size() +
           visible_.SequenceIndex(i);
  }
  const VisibleKeys& visible() const { return visible_; }
  // Returns the index of the bias entry for query i and key j.
  int64_t BiasIndex(int64_t i, int64_t j) const { return bias_index_.Of(i, j); }

 private:
  // exp(bias) of the entries from `first` on that belong to one sequence,
  // divided by `unit`, the exponential of their shift.
  struct Weights {
    int64_t first = 0;
    Scaled<Real> unit;
    std::vector<Scaled<Real>> c;
  };

  // Returns 2^top with the features' constants and the shift of the bias.
  Scaled<Real> Unit(int64_t head, int64_t i, int top) const {
    const Scaled<Real> constant = {static_cast<Real>(normaliser_.constant),
                                   top};
    if (c_.empty()) return constant;
    return constant * c_[BiasPart(head, i)].unit;
  }

  // Returns c_ij phi(q_i).phi(k_j).
  Scaled<Real> Weight(int64_t head, int64_t i, int64_t j,
                      const FeatureRow<Real>& phi_q) const {
    const Scaled<Real> c = C(head, i, j);
    if (c.mantissa == 0) return c;
    return c * DotOfFeatures(phi_q, Key(head, j));
  }

  FeatureRow<Real> Phi(const Source& from, int64_t head, int64_t row) const {
    const FeatureMap<Real>& map = maps_[static_cast<size_t>(head)];
    std::vector<Scaled<Real>> phi;
    bool exists;
    if (from.tensor) {
      exists = map.Row(from.tensor->Head(head) + row * spec_.d, phi);
    } else {
      std::vector<Real> x(static_cast<size_t>(spec_.d));
      from.compute(head, row, x.data(), nullptr);
      exists = map.Row(x.data(), phi);
    }
    if (!exists)
      throw InvalidInput(
          from.name + std::to_string(row) + problem_.HeadName(head),
          "a row with a norm above zero, to normalise it", "zero");
    return FeatureRow<Real>(phi);
  }

  const Problem& problem_;
  const FeatureMapSpec spec_;
  const Source q_, k_;
  const Tensor& v_;
  const PairTensor mask_;
  const int64_t e_;
  const VisibleKeys visible_;
  const OffsetBiasIndex bias_index_;
  const Normaliser normaliser_;
  const int64_t bytes_;  // of the problem's arithmetic
  std::vector<FeatureMap<Real>> maps_;
  std::vector<std::vector<FeatureRow<Real>>> keys_;  // [heads][keys]
  Slices bias_;
  std::vector<Weights> c_;  // [slices][sequences], or empty without a bias
};

}  // namespace subquad
