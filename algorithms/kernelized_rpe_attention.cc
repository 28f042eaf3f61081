#include "algorithms/kernelized_rpe_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "algorithms/kernelized.h"
#include "algorithms/norms.h"
#include "reference/kernelized_rpe_attention.h"

namespace subquad {
namespace {

// One head's features in float64, and what the transforms mix.
struct HeadNorms {
  std::vector<double> keys;           // [f, keys], scaled by feature
  std::vector<int> scale;             // [f]
  std::vector<double> weights;        // c by offset, at most about 1
  double weight_norm;                 // 2-norm of c
  std::vector<double> bias_units;     // errors of c by offset
  std::vector<double> key_norms;      // [f], of phi_a(k)
  std::vector<double> channel_norms;  // [f, e], of phi_a(k) v_c
  // [keys], errors of the key features, absolute ones at the scale of keys.
  std::vector<double> relative, absolute;
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
        transform_(transform_factor),
        keys_(keys) {}

  void Row(const RowId& id, std::span<double> units) {
    if (heads_.empty()) ReadHeads();
    const HeadNorms& head = heads_[static_cast<size_t>(id.head)];
    const int64_t f = shape_.f, e = shape_.e, i = id.row;
    std::vector<double> query(f);
    std::vector<int> exponent(f);
    FeatureError error;
    maps_[static_cast<size_t>(id.head)].Row(q_.Head(id.head) + i * shape_.d,
                                            nullptr, query.data(),
                                            exponent.data(), &error);
    int top = 2 * kZeroExponent;
    for (int64_t a = 0; a < f; ++a)
      top = std::max(top, exponent[a] + head.scale[a]);
    double q_sum = 0;
    for (int64_t a = 0; a < f; ++a) {
      query[a] = std::ldexp(query[a], exponent[a] + head.scale[a] - top);
      q_sum += std::abs(query[a]);
    }
    const double absolute =
        error.absolute == 0
            ? 0
            : std::ldexp(error.absolute, error.exponent + head.scale[0] - top);
    const double* v = v_.Head(id.head);
    // w_ij, m_ij and e_ij of reference/kernelized/kernelized.h. Features are
    // positive, but for those of trf.
    const bool has_signs = shape_.map.id == FeatureMapId::kTrf;
    std::vector<double> weights(keys_), sizes(keys_), features(keys_);
    std::vector<double> magnitudes(has_signs ? keys_ : 0);  // sum_a |phi_a(k)|
    for (int64_t a = 0; a < f; ++a) {
      const double* key = head.keys.data() + a * keys_;
      for (int64_t j = 0; j < keys_; ++j) weights[j] += query[a] * key[j];
      if (!has_signs) continue;
      for (int64_t j = 0; j < keys_; ++j) {
        sizes[j] += std::abs(query[a] * key[j]);
        magnitudes[j] += std::abs(key[j]);
      }
    }
    double normaliser = 0, size_sum = 0, feature_sum = 0, largest_relative = 0;
    std::vector<double> out(e), n_units(e), feature_units(e);
    const double products = static_cast<double>(f) + 10;
    for (int64_t j = 0; j < keys_; ++j) {
      const int64_t t = shape_.BiasIndex(i, j);
      const double c = head.weights[t];
      weights[j] *= c;
      sizes[j] = has_signs ? c * sizes[j] : weights[j];
      const double relative =
          head.relative[j] + error.relative + head.bias_units[t];
      features[j] = relative * sizes[j];
      if (has_signs)
        features[j] +=
            c * (absolute * magnitudes[j] + q_sum * head.absolute[j]);
      largest_relative = std::max(largest_relative, relative);
      normaliser += weights[j];
      size_sum += sizes[j];
      feature_sum += features[j];
      for (int64_t x = 0; x < e; ++x) {
        out[x] += weights[j] * v[j * e + x];
        n_units[x] += products * sizes[j] * std::abs(v[j * e + x]);
      }
    }
    for (double& value : out) value /= normaliser;
    for (int64_t j = 0; j < keys_; ++j)
      for (int64_t x = 0; x < e && features[j] > 0; ++x)
        feature_units[x] += features[j] * std::abs(v[j * e + x] - out[x]);
    const double product_units = products * size_sum;
    const double factor = transform_ * head.weight_norm;
    double transforms = 0;
    for (int64_t a = 0; a < f; ++a) {
      const double error_of = factor * std::abs(query[a]);
      transforms += error_of * head.key_norms[a];
      for (int64_t x = 0; x < e; ++x)
        n_units[x] += error_of * head.channel_norms[a * e + x];
    }
    const double d_units = product_units + transforms;
    // `units` as they are hold where the query is computed directly.
    const double lost = roundoff_ * transforms;
    const double exact = std::abs(normaliser);
    const double least = exact - 1.02 * roundoff_ * feature_sum;  // of |D'|
    const double uncertain =
        least > 0 ? exact / least * (1 + roundoff_ * largest_relative)
                  : std::numeric_limits<double>::infinity();
    const bool direct = !(exact * uncertain >= 2 * lost);
    if (direct || exact <= 8 * lost * uncertain)
      DirectUnits(id, units);
    else
      std::ranges::fill(units, 0.0);
    if (direct) return;
    const double size = std::max(
        least - 1.02 * roundoff_ * d_units,
        (least - 1.02 * roundoff_ * product_units) / (1 + 1 / kLostFactor));
    for (int64_t x = 0; x < e; ++x) {
      double& bound = units[static_cast<size_t>(x)];
      const double moved = 1.02 * feature_units[x] / least;
      const double quotient = std::abs(out[x]) + roundoff_ * moved;
      const double rest =
          1.02 * uncertain * (n_units[x] + quotient * d_units) / size;
      bound = size > 0 ? std::max(bound, moved + rest)
                       : std::numeric_limits<double>::infinity();
    }
  }

 private:
  void ReadHeads() {
    for (int64_t h = 0; h < shape_.heads; ++h) {
      maps_.emplace_back(shape_.map, problem_.HasInput("omega")
                                         ? inputs_["omega"].Head(h)
                                         : nullptr);
      heads_.push_back(NormsOf(h, inputs_["k"], inputs_["bias"]));
    }
  }

  void DirectUnits(const RowId& id, std::span<double> units) {
    if (!definition_)
      definition_ = std::make_unique<KernelizedRpeAttentionReference<double>>(
          problem_, inputs_);
    std::vector<double> value(units.size());
    definition_->Row(id, value.data(), units.data());
  }

  HeadNorms NormsOf(int64_t h, const Tensor& k, const Tensor& bias) const {
    const int64_t f = shape_.f, e = shape_.e, n_k = keys_;
    HeadNorms head;
    head.keys.resize(n_k * f);
    std::vector<double> key_rows(n_k * f);
    std::vector<int> exponents(n_k * f);
    std::vector<FeatureError> errors(n_k);
    head.scale.assign(f, kZeroExponent);
    for (int64_t j = 0; j < n_k; ++j) {
      maps_.back().Row(k.Head(h) + j * shape_.d, nullptr,
                       key_rows.data() + j * f, exponents.data() + j * f,
                       &errors[j]);
      for (int64_t a = 0; a < f; ++a)
        head.scale[a] = std::max(head.scale[a], exponents[j * f + a]);
      head.relative.push_back(errors[j].relative);
    }
    head.key_norms.resize(f);
    head.channel_norms.resize(f * e);
    const double* v = v_.Head(h);
    for (int64_t j = 0; j < n_k; ++j) {
      head.absolute.push_back(
          errors[j].absolute == 0
              ? 0
              : std::ldexp(errors[j].absolute,
                           errors[j].exponent - head.scale[0]));
      for (int64_t a = 0; a < f; ++a) {
        const double key = std::ldexp(key_rows[j * f + a],
                                      exponents[j * f + a] - head.scale[a]);
        head.keys[a * n_k + j] = key;
        head.key_norms[a] += key * key;
        for (int64_t x = 0; x < e; ++x)
          head.channel_norms[a * e + x] +=
              key * v[j * e + x] * (key * v[j * e + x]);
      }
    }
    for (double& norm : head.key_norms) norm = std::sqrt(norm);
    for (double& norm : head.channel_norms) norm = std::sqrt(norm);
    const int64_t count = shape_.BiasCount();
    const double* b = bias.Head(h);
    const double shift = BiasShift(b, count);
    double top = -std::numeric_limits<double>::infinity();
    for (int64_t t = 0; t < count; ++t) {
      head.bias_units.push_back(std::isfinite(b[t]) ? BiasUnits(b[t], shift)
                                                    : 0);
      if (std::isfinite(b[t]) && shape_.MayBeSeen(t))
        top = std::max(top, ShiftedBias(b[t], shift));
    }
    for (int64_t t = 0; t < count; ++t)
      head.weights.push_back(std::isfinite(b[t]) && shape_.MayBeSeen(t)
                                 ? std::exp(ShiftedBias(b[t], shift) - top)
                                 : 0);
    head.weight_norm = Norm(head.weights.data(), count);
    return head;
  }

  const Problem& problem_;
  const Inputs& inputs_;
  const KernelizedShape shape_;
  const Tensor& q_;
  const Tensor& v_;
  const double roundoff_;
  const double transform_;
  const int64_t keys_;
  std::unique_ptr<Reference<double>> definition_;
  std::vector<FeatureMap<double>> maps_;
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
