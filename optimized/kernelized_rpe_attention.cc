// kernelized_rpe_attention:
//   out_i = phi(q_i)^T sum_j c(j-i) phi(k_j) v_j^T
//           / phi(q_i)^T sum_j c(j-i) phi(k_j)     (NPRF eq. 10-13)
//
//   dense           ((phi(Q) phi(K)^T) o C) V by GEMM, everything in memory:
//                   O(n^2 (f+e)). The baseline that speed-ups are quoted
//                   against.
//   tiled           the same sums in tiles of 12 x 128 pairs, in registers, the
//                   bias applied in the tile: O(n^2 (f+e)) time, O(n (f+e))
//                   memory. Beats every FFT while n is small.
//   fft             algorithm 1 as printed: f (e+1) channels transformed at
//                   once. O(n f e log n) time, O(n f e) memory.
//   fft_streamed    the same sums, one block of SIMD lanes of channels at a
//                   time, made on the way in and summed on the way out:
//                   O(n (f+e)) memory. A tenth of the time of fft at n = 16384
//                   and f = e = 64, and a fortieth of its memory.
//   fft_streamed64  fft_streamed with its transforms in float64, the remedy for
//                   normalisers that are small against the norms they come
//                   from. Cost: 1.7 times the time, the same memory. Bound:
//                   that of fft_streamed with 2^-53 for the roundoff of
//                   transforms. Gain: with a bias that falls by e in 50
//                   positions, n = 2048 and keys that drop by 1e-6 half-way,
//                   fft_streamed has 1000 times the error of the plain program,
//                   this one less than it.
//   auto            tiled or fft_streamed, whichever the sizes say is faster.
//
// The quadratic ones are as accurate as the plain program. The FFTs are not
// always: see RpeFftBound. Where they may have lost a query altogether it is
// computed directly (kernelized_columns.h), so that no answer is without digits
// and the time depends on the numbers: at worst, that of tiled comes on top.
#include "reference/kernelized_rpe_attention.h"

#include <cmath>
#include <limits>

#include "optimized/kernelized_auto.h"
#include "optimized/kernelized_fft.h"
#include "optimized/kernelized_quadratic.h"
#include "optimized/materialized.h"
#include "optimized/norms.h"

namespace subquad {
namespace {

template <typename T>
using Streamed = StreamedFft<T, T>;
template <typename T>
using Streamed64 = StreamedFft<T, double>;

// One head's features in float64, and what the transforms mix.
struct HeadNorms {
  std::vector<double> keys;           // [n_k, f], scaled by feature
  std::vector<int> scale;             // [f]
  std::vector<double> weights;        // c by offset, at most about 1
  double weight_norm;                 // 2-norm of c
  std::vector<double> bias_units;     // errors of c by offset
  std::vector<double> key_norms;      // [f], of phi_a(k)
  std::vector<double> channel_norms;  // [f, e], of phi_a(k) v_c
  // [n_k], errors of the key features, absolute ones at the scale of keys.
  std::vector<double> relative, absolute;
};

// Each channel g = phi_a(k) v_c comes back from its transforms with an error of
// at most F u |c|_2 |g|_2 in every element, F = 2 log2 L (see toeplitz_1d.cc).
// The query adds channels: the numerator is off by
//   dN = F u |c|_2 sum_a |phi_a(q)| |phi_a(k) v_c|_2
// plus (f + 10) u sum_j c_ij sum_a |phi_a(q) phi_a(k)| |v_j| for products and
// the sum over f, the normaliser likewise with v = 1. Errors of the features,
// as in reference/kernelized.h, come first: they make D' and out' of D and out,
//   |D'| >= |D| - sum_j e_ij,  |out' - out| <= sum_j e_ij |v_j - out| / |D'|,
// and then the quotient is off by (dN + |out'| dD) / |D~|, D~ as computed.
//
// What can be lost: where the bias decays and keys shrink along the sequence, D
// of a late query is much smaller than |c|_2 |phi_a(k)|_2. Its relative error
// grows by that quotient, to 1 / (kLostFactor - 1) at worst: queries whose E =
// dD's transform part reaches |D| / kLostFactor as computed are computed
// directly (kernelized_fft.h), with the plain program's element-wise bound. An
// exact |D| > 8 E never is, one < 2 E always, and between them the larger of
// the two bounds holds. Both limits are wider where features are uncertain.
// Where a query is not computed directly, |D~| > kLostFactor E is known, so
// that not only |D~| >= |D'| - dD, but |D~| (1 + 1 / kLostFactor) >= |D'| less
// what products add. Transforms in float64 divide E by 2^29.
class RpeFftBound {
 public:
  RpeFftBound(const Problem& problem, const Inputs& inputs, double gain)
      : problem_(problem),
        inputs_(inputs),
        shape_(problem),
        q_(inputs["q"]),
        v_(inputs["v"]),
        roundoff_(Info(problem.scalar).unit_roundoff) {
    transform_ = TransformFactor(shape_) * gain;
  }

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
    const int64_t n_k = shape_.n_k;
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
    const int64_t f = shape_.f, e = shape_.e, n_k = shape_.n_k;
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
  double transform_;
  std::unique_ptr<Reference<double>> definition_;
  std::vector<FeatureMap<double>> maps_;
  std::vector<HeadNorms> heads_;
};

RowBound FftBound(const Problem& problem, const Inputs& inputs) {
  const auto bound = std::make_shared<RpeFftBound>(problem, inputs, 1);
  return [bound](const RowId& id, std::span<double> units) {
    bound->Row(id, units);
  };
}

RowBound Fft64Bound(const Problem& problem, const Inputs& inputs) {
  const auto bound = std::make_shared<RpeFftBound>(problem, inputs, 0x1p-29);
  return [bound](const RowId& id, std::span<double> units) {
    bound->Row(id, units);
  };
}

// Where the tiles are chosen, the plain program's bound holds.
RowBound AutoBound(const Problem& problem, const Inputs& inputs) {
  const KernelizedShape shape(problem);
  const bool transforms =
      problem.scalar == Scalar::kFloat64
          ? KernelizedEstimate<double>(shape).UseTransforms()
          : KernelizedEstimate<float>(shape).UseTransforms();
  return transforms ? FftBound(problem, inputs) : RowBound();
}

}  // namespace

std::vector<Implementation> KernelizedRpeAttentionImplementations() {
  const std::vector<Scalar> both = {Scalar::kFloat32, Scalar::kFloat64};
  return {
      {.op = "kernelized_rpe_attention",
       .id = "dense",
       .scalars = both,
       .what = "all weights in memory: two GEMMs and the bias between them",
       .source = "NPRF eq. 10",
       .time = "O(n^2 (f + e))",
       .memory = "O(n^2 + n f)",
       .time_class = "n^2",
       .memory_class = "n^2",
       .cost = KernelizedCost<DenseKernelized>,
       .prepare = PrepareKernelized<DenseKernelized>},
      {.op = "kernelized_rpe_attention",
       .id = "tiled",
       .scalars = both,
       .what = "12 x 128 weights at a time, in registers",
       .source = "NPRF eq. 10",
       .time = "O(n^2 (f + e))",
       .memory = "O(n (f + e))",
       .time_class = "n^2",
       .memory_class = "n",
       .cost = KernelizedCost<TiledKernelized>,
       .prepare = PrepareKernelized<TiledKernelized>},
      {.op = "kernelized_rpe_attention",
       .id = "fft",
       .scalars = both,
       .what = "all f (e + 1) channels through FFTW at once",
       .source = "NPRF algorithm 1",
       .time = "O(n f e log n)",
       .memory = "O(n f e)",
       .time_class = "n log n",
       .memory_class = "n",
       .cost = KernelizedCost<FftKernelized>,
       .norm_bound = FftBound,
       .prepare = PrepareKernelized<FftKernelized>},
      {.op = "kernelized_rpe_attention",
       .id = "fft_streamed",
       .scalars = both,
       .what = "a block of channels at a time, made and summed on the fly",
       .source = "NPRF algorithm 1",
       .time = "O(n f e log n)",
       .memory = "O(n (f + e))",
       .time_class = "n log n",
       .memory_class = "n",
       .cost = KernelizedCost<Streamed>,
       .norm_bound = FftBound,
       .prepare = PrepareKernelized<Streamed>},
      {.op = "kernelized_rpe_attention",
       .id = "fft_streamed64",
       .scalars = {Scalar::kFloat32},
       .what = "fft_streamed with its transforms in float64",
       .source = "NPRF algorithm 1; for small normalisers",
       .time = "O(n f e log n)",
       .memory = "O(n (f + e))",
       .time_class = "n log n",
       .memory_class = "n",
       .cost = KernelizedCost<Streamed64>,
       .norm_bound = Fft64Bound,
       .prepare = PrepareKernelized<Streamed64>},
      {.op = "kernelized_rpe_attention",
       .id = "auto",
       .scalars = both,
       .what = "tiled or fft_streamed, by an estimate of their times",
       .source = "NPRF eq. 10 and algorithm 1",
       .time = "O(min(n^2 (f + e), n f e log n))",
       .memory = "O(n (f + e))",
       .time_class = "n log n",
       .memory_class = "n",
       .cost = KernelizedCost<AutoKernelized>,
       .norm_bound = AutoBound,
       .prepare = PrepareKernelized<AutoKernelized>},
  };
}

}  // namespace subquad
