#include "reference/contract/kernelized_rpe_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <numbers>

#include "reference/base/pair_tensor.h"
#include "reference/contract/kernelized.h"
#include "reference/contract/norms.h"
#include "reference/kernelized/kernelized.h"

namespace subquad {
namespace {

// One head's features in float64, and the factors that the transforms mix.
struct HeadNorms {
  std::vector<double> keys;           // [f, keys], phi_a(k_j) 2^-scale[a]
  std::vector<int> scale;             // [f]
  std::vector<double> c;              // by offset, at most about 1
  double c_norm;                      // |c|_2
  double c_logarithm;                 // logarithm of the divisor of c
  int64_t count;                      // keys without padding
  std::vector<double> c_units;        // errors of c by offset
  std::vector<double> key_norms;      // [f], |phi_a(k)|_2
  std::vector<double> channel_norms;  // [f, e], |phi_a(k) v_c|_2
  // Errors of the key features, [keys]; absolute errors at the scale of keys.
  std::vector<double> relative, absolute;
};

// phi(q_i) at the scales of the keys, and its errors.
struct QueryFeatures {
  std::vector<double> values;  // [f]
  int top = 0;                 // times 2^top
  double sum = 0;              // |phi(q)|_1
  double relative, absolute;
};

// Sums of a query in the notation of kernelized_rpe_attention.h; errors are in
// units of the roundoff.
struct QuerySums {
  explicit QuerySums(size_t e) : out(e), moved(e), dN(e) {}

  double D = 0;             // sum_j w_ij
  std::vector<double> out;  // [e]
  double e_sum = 0;         // sum_j e_ij
  double largest_relative = 0;
  bool no_digit = false;      // of a weight
  std::vector<double> moved;  // [e], sum_j e_ij |v_j - out|
  std::vector<double> dN;     // [e], from products, later from transforms too
  double dD_products = 0, dD_transforms = 0;
};

class RpeFftBound {
 public:
  RpeFftBound(const Problem& problem, const Inputs& inputs,
              double transform_factor, int64_t keys)
      : problem_(problem),
        inputs_(inputs),
        shape_(problem),
        q_(inputs["q"]),
        v_(inputs["v"]),
        roundoff_(ArithmeticRoundoff(problem.scalar)),
        F_(transform_factor),
        keys_(keys) {}

  void Row(const RowId& id, std::span<double> units) {
    if (heads_.empty()) ReadHeads();
    const HeadNorms& head = heads_[static_cast<size_t>(id.head)];
    const QueryFeatures q = QueryOf(head, id);
    QuerySums sums = SumsOf(head, q, id);
    AddTransforms(head, q, sums);

    // E is the largest error that the transforms may add to the computed D.
    const double E = roundoff_ * sums.dD_transforms;
    const double D = std::abs(sums.D);
    // |D'| is at least D_moved.
    const double D_moved = D - 1.02 * roundoff_ * sums.e_sum;
    // Uncertain features widen both limits.
    const double uncertain =
        D_moved > 0 ? D / D_moved * (1 + roundoff_ * sums.largest_relative)
                    : std::numeric_limits<double>::infinity();
    // Computes eps at the scale of D, and the factor that turns N into an
    // unnormalised output.
    const Normaliser& form = shape_.normaliser;
    if (!form.is_plain() && sums.no_digit) {
      std::ranges::fill(units, std::numeric_limits<double>::infinity());
      return;
    }
    const double unit = UnitOf(head, q);
    const double eps = form.eps > 0 ? form.epsilon() / unit : 0;
    if (!form.normalized) {
      // Covers both cases, direct or not: the error of N is below the sum of
      // both.
      DirectUnits(id, units);
      const double size = unit * form.constant;
      for (size_t x = 0; x < units.size(); ++x)
        units[x] += size * 1.02 * (sums.dN[x] + sums.moved[x]);
      return;
    }
    // Queries with |D| < 2 E are always computed directly, those with |D| > 8 E
    // never.
    const bool always = !(D * uncertain >= 2 * E);
    if (always || D <= 8 * E * uncertain)
      DirectUnits(id, units);
    else
      std::ranges::fill(units, 0.0);
    if (always) return;
    const double dD = sums.dD_products + sums.dD_transforms;
    // |D~| is at least either of these values if D is not computed directly.
    const double D_computed =
        std::max(D_moved - 1.02 * roundoff_ * dD,
                 (D_moved - 1.02 * roundoff_ * sums.dD_products) /
                     (1 + 1 / kLostFactor));
    // eps widens both if it has the sign of D; otherwise only the errors bound
    // what is left of D + eps.
    const bool same_sign = sums.D >= 0;
    const double whole = std::abs(sums.D + eps);
    const double whole_moved =
        same_sign ? D_moved + eps : whole - 1.02 * roundoff_ * sums.e_sum;
    const double whole_computed =
        same_sign ? D_computed + eps : whole_moved - 1.02 * roundoff_ * dD;
    for (size_t x = 0; x < units.size(); ++x) {
      // Bounds |out' - out|, and from it |out'|.
      const double moved = 1.02 * sums.moved[x] / whole_moved;
      const double out = std::abs(sums.out[x]) + roundoff_ * moved;
      // Computes (dN + |out'| dD) / |D~|.
      const double quotient =
          1.02 * uncertain * (sums.dN[x] + out * dD) / whole_computed +
          (form.is_plain() ? 0 : 8 * out);
      units[x] = D_computed > 0 && whole_computed > 0
                     ? std::max(units[x], moved + quotient)
                     : std::numeric_limits<double>::infinity();
    }
  }

 private:
  // Returns the factor of weights relative to the largest bias and feature.
  static double UnitOf(const HeadNorms& head, const QueryFeatures& q) {
    return std::exp2(head.c_logarithm * std::numbers::log2e_v<double> + q.top);
  }

  QueryFeatures QueryOf(const HeadNorms& head, const RowId& id) const {
    const size_t h = static_cast<size_t>(id.head);
    const double* row = q_.Head(id.head) + id.row * shape_.d;
    std::vector<Scaled<double>> phi;
    maps_[h].Row(row, phi);
    int top = 2 * kZeroExponent;
    for (size_t a = 0; a < phi.size(); ++a)
      top = std::max(top, phi[a].exponent + head.scale[a]);
    QueryFeatures q;
    q.top = top;
    for (size_t a = 0; a < phi.size(); ++a) {
      q.values.push_back(
          std::ldexp(phi[a].mantissa, phi[a].exponent + head.scale[a] - top));
      q.sum += std::abs(q.values.back());
    }
    const FeatureError error = errors_[h].Row(row, nullptr);
    q.relative = error.relative;
    q.absolute = std::ldexp(error.absolute.mantissa,
                            error.absolute.exponent + head.scale[0] - top);
    return q;
  }

  // Computes w_ij, m_ij and e_ij of reference/kernelized/bound.h and their
  // sums.
  QuerySums SumsOf(const HeadNorms& head, const QueryFeatures& q,
                   const RowId& id) const {
    const int64_t e = shape_.e, keys = head.count;
    // If no feature is negative, m_ij equals w_ij.
    const bool has_signs = shape_.map.is_signed();
    std::vector<double> w(keys), m(keys), moved(keys);   // moved: e_ij
    std::vector<double> key_sums(has_signs ? keys : 0);  // |phi(k_j)|_1
    for (int64_t a = 0; a < shape_.f; ++a) {
      const double* key = head.keys.data() + a * keys;
      const double query = q.values[a];
      for (int64_t j = 0; j < keys; ++j) w[j] += query * key[j];
      if (!has_signs) continue;
      for (int64_t j = 0; j < keys; ++j) {
        m[j] += std::abs(query * key[j]);
        key_sums[j] += std::abs(key[j]);
      }
    }
    QuerySums sums(static_cast<size_t>(e));
    const double* v = v_.Head(id.head);
    const double products = static_cast<double>(shape_.f) + 10;
    for (int64_t j = 0; j < keys; ++j) {
      const int64_t t = shape_.BiasIndex(id.row, j);
      const double c = head.c[t];
      w[j] *= c;
      m[j] = has_signs ? c * m[j] : w[j];
      const double relative = head.relative[j] + q.relative + head.c_units[t];
      moved[j] = m[j] > 0 ? relative * m[j] : 0;
      if (has_signs)
        moved[j] += c * (q.absolute * key_sums[j] + q.sum * head.absolute[j]);
      sums.largest_relative = std::max(sums.largest_relative, relative);
      sums.no_digit |= HasNoDigit(relative, roundoff_) && shape_.MayBeSeen(t) &&
                       std::isfinite(inputs_["bias"].Head(id.head)[t]);
      sums.D += w[j];
      sums.e_sum += moved[j];
      sums.dD_products += products * m[j];
      for (int64_t x = 0; x < e; ++x) {
        sums.out[x] += w[j] * v[j * e + x];
        sums.dN[x] += products * m[j] * std::abs(v[j * e + x]);
      }
    }
    const Normaliser& form = shape_.normaliser;
    const double unit = UnitOf(head, q);
    const double all = sums.D + (form.eps > 0 ? form.epsilon() / unit : 0);
    // If unnormalised, an error of a weight moves N alone.
    for (double& out : sums.out) out = form.normalized ? out / all : 0;
    for (int64_t j = 0; j < keys; ++j)
      for (int64_t x = 0; x < e && moved[j] > 0; ++x)
        sums.moved[x] += moved[j] * std::abs(v[j * e + x] - sums.out[x]);
    return sums;
  }

  // Adds F |c|_2 sum_a |phi_a(q)| |g|_2 of the channels g.
  void AddTransforms(const HeadNorms& head, const QueryFeatures& q,
                     QuerySums& sums) const {
    const int64_t e = shape_.e;
    for (int64_t a = 0; a < shape_.f; ++a) {
      const double factor = F_ * head.c_norm * std::abs(q.values[a]);
      sums.dD_transforms += factor * head.key_norms[a];
      for (int64_t x = 0; x < e; ++x)
        sums.dN[x] += factor * head.channel_norms[a * e + x];
    }
  }

  // Writes the bound of the plain dense program, which holds for a direct
  // query.
  void DirectUnits(const RowId& id, std::span<double> units) {
    if (!definition_) definition_ = ReferenceIn<double>(problem_, inputs_);
    std::vector<double> value(units.size());
    definition_->Row(id, value.data(), units.data());
  }

  void ReadHeads() {
    for (int64_t h = 0; h < shape_.heads; ++h) {
      const double* omega =
          problem_.HasInput("omega") ? inputs_["omega"].Head(h) : nullptr;
      maps_.emplace_back(shape_.map, omega);
      errors_.emplace_back(shape_.map, omega);
      HeadNorms head;
      head.count = std::min(keys_, shape_.seen.Of(h));
      ReadKeys(h, head);
      ReadBias(h, head);
      heads_.push_back(std::move(head));
    }
  }

  void ReadKeys(int64_t h, HeadNorms& head) const {
    const int64_t f = shape_.f, e = shape_.e, keys = head.count;
    const double* k = inputs_["k"].Head(h);
    const double* v = v_.Head(h);
    std::vector<std::vector<Scaled<double>>> phi(keys);
    head.scale.assign(f, kZeroExponent);
    const PairTensor mask(problem_, inputs_, "mask");
    for (int64_t j = 0; j < keys; ++j) {
      maps_[h].Row(k + j * shape_.d, phi[j]);
      const double* sees = mask.At(h, 0, j);
      if (sees && *sees == 0)
        phi[j].assign(static_cast<size_t>(f), {0, kZeroExponent});
      for (int64_t a = 0; a < f; ++a)
        head.scale[a] = std::max(head.scale[a], phi[j][a].exponent);
    }
    head.keys.resize(keys * f);
    head.key_norms.resize(f);
    head.channel_norms.resize(f * e);
    for (int64_t j = 0; j < keys; ++j) {
      const double* sees = mask.At(h, 0, j);
      const FeatureError error =
          sees && *sees == 0 ? FeatureError{}
                             : errors_[h].Row(k + j * shape_.d, nullptr);
      head.relative.push_back(error.relative);
      head.absolute.push_back(std::ldexp(
          error.absolute.mantissa, error.absolute.exponent - head.scale[0]));
      for (int64_t a = 0; a < f; ++a) {
        const double key =
            std::ldexp(phi[j][a].mantissa, phi[j][a].exponent - head.scale[a]);
        head.keys[a * keys + j] = key;
        head.key_norms[a] += key * key;
        for (int64_t x = 0; x < e; ++x)
          head.channel_norms[a * e + x] +=
              key * v[j * e + x] * (key * v[j * e + x]);
      }
    }
    for (double& norm : head.key_norms) norm = std::sqrt(norm);
    for (double& norm : head.channel_norms) norm = std::sqrt(norm);
  }

  void ReadBias(int64_t h, HeadNorms& head) const {
    const int64_t count = shape_.BiasCount();
    const double* b = inputs_["bias"].Head(h);
    const double shift = BiasShift(b, count);
    const auto counts = [&](int64_t t) {
      return std::isfinite(b[t]) && shape_.MayBeSeen(t);
    };
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < count; ++t)
      if (counts(t)) top = std::max(top, ShiftedBias(b[t], shift));
    for (int64_t t = 0; t < count; ++t) {
      head.c_units.push_back(
          counts(t) ? BiasUnits(b[t], shift, shape_.normaliser) : 0);
      head.c.push_back(counts(t) ? std::exp(ShiftedBias(b[t], shift) - top)
                                 : 0);
    }
    head.c_logarithm = top + shift;
    head.c_norm = Norm(head.c.data(), count);
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const KernelizedShape shape_;
  const Tensor& q_;
  const Tensor& v_;
  const double roundoff_;
  const double F_;  // of the transforms
  const int64_t keys_;
  std::unique_ptr<Reference<double>> definition_;
  std::vector<FeatureMap<double>> maps_;
  std::vector<FeatureErrors<double>> errors_;
  std::vector<HeadNorms> heads_;
};

}  // namespace

RowBound KernelizedFftBound(const Problem& problem, const Inputs& inputs,
                            double transform_factor, int64_t keys) {
  const auto bound =
      std::make_shared<RpeFftBound>(problem, inputs, transform_factor, keys);
  return [bound](const RowId& id, std::span<double> units) {
    bound->Row(id, units);
  };
}

}  // namespace subquad
