#include "optimized/kernelized_fft_bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>

#include "optimized/kernelized_fft.h"
#include "optimized/kernelized_quadratic.h"
#include "optimized/materialized.h"
#include "reference/kernelized_rpe_attention.h"
#include "reference/norms.h"

namespace subquad {
namespace {

// One head's features in float64, and what the transforms mix.
struct HeadNorms {
  std::vector<double> keys;           // [keys, f], scaled by feature
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
    using Vector = Eigen::VectorXd;
    using Eigen::OuterStride;
    const int64_t n_k = keys_;
    const Eigen::Map<const Vector> q(query.data(), f);
    const ConstMatrixMap<double> keys(head.keys.data(), n_k, f,
                                      OuterStride<>(f));
    const ConstMatrixMap<double> v(v_.Head(id.head), n_k, e, OuterStride<>(e));
    Vector c(n_k);
    for (int64_t j = 0; j < n_k; ++j)
      c[j] = head.weights[static_cast<size_t>(Index(i, j))];
    // w_ij, m_ij and e_ij of reference/kernelized.h.
    const Vector weights = c.cwiseProduct(keys * q);
    Vector sizes = weights;  // features are positive, but for trf's
    Vector features;
    Vector relative =
        Eigen::Map<const Vector>(head.relative.data(), n_k).array() +
        error.relative;
    for (int64_t j = 0; j < n_k; ++j)
      relative[j] += head.bias_units[static_cast<size_t>(Index(i, j))];
    if (shape_.map.id == FeatureMapId::kTrf) {
      sizes = c.cwiseProduct(keys.cwiseAbs() * q.cwiseAbs());
      features = relative.cwiseProduct(sizes) +
                 absolute * c.cwiseProduct(keys.cwiseAbs().rowwise().sum()) +
                 q_sum * c.cwiseProduct(Eigen::Map<const Vector>(
                             head.absolute.data(), n_k));
    } else {
      features = relative.cwiseProduct(sizes);
    }
    const double normaliser = weights.sum();
    const double products = static_cast<double>(f) + 10;
    const double product_units = products * sizes.sum();
    const Vector out = v.transpose() * weights / normaliser;
    Vector n_units = products * (v.cwiseAbs().transpose() * sizes);
    Vector feature_units = Vector::Zero(e);
    for (int64_t j = 0; j < n_k; ++j)
      for (int64_t x = 0; x < e && features[j] > 0; ++x)
        feature_units[x] += features[j] * std::abs(v(j, x) - out[x]);
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
    const double least = exact - 1.02 * roundoff_ * features.sum();  // of |D'|
    const double uncertain =
        least > 0 ? exact / least * (1 + roundoff_ * relative.maxCoeff())
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

  int64_t Index(int64_t i, int64_t j) const {
    const int64_t width = shape_.image_width;
    if (width == 0) return j - i + shape_.n_q - 1;
    return (j / width - i / width + shape_.n_q / width - 1) * (2 * width - 1) +
           j % width - i % width + width - 1;
  }

  HeadNorms NormsOf(int64_t h, const Tensor& k, const Tensor& bias) const {
    const int64_t f = shape_.f, e = shape_.e, n_k = keys_;
    HeadNorms head;
    head.keys.resize(n_k * f);
    std::vector<int> exponents(n_k * f);
    std::vector<FeatureError> errors(n_k);
    head.scale.assign(f, kZeroExponent);
    for (int64_t j = 0; j < n_k; ++j) {
      maps_.back().Row(k.Head(h) + j * shape_.d, nullptr,
                       head.keys.data() + j * f, exponents.data() + j * f,
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
        double& key = head.keys[j * f + a];
        key = std::ldexp(key, exponents[j * f + a] - head.scale[a]);
        head.key_norms[a] += key * key;
        for (int64_t x = 0; x < e; ++x)
          head.channel_norms[a * e + x] +=
              key * v[j * e + x] * (key * v[j * e + x]);
      }
    }
    for (double& norm : head.key_norms) norm = std::sqrt(norm);
    for (double& norm : head.channel_norms) norm = std::sqrt(norm);
    head.weights.resize(static_cast<size_t>(BiasTable<double>::Count(shape_)));
    BiasWeights(shape_, bias.Head(h), head.weights.data());
    const int64_t count = static_cast<int64_t>(head.weights.size());
    const double shift = BiasShift(bias.Head(h), count);
    for (int64_t t = 0; t < count; ++t) {
      const double b = bias.Head(h)[t];
      head.bias_units.push_back(std::isfinite(b) ? BiasUnits(b, shift) : 0);
    }
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
