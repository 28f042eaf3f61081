#include <algorithm>

#include "cuda/kernelized/direct_rows.h"
#include "cuda/kernelized/feature_rows.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;
constexpr int kWarps = kThreads / kWarp;
// Keys whose weights a block computes at a time.
constexpr int kKeys = 64;
// The approximate number of blocks that a device runs at once.
constexpr int64_t kMostBlocks = 1024;
// Smaller than the exponents of all weights, including zeros.
constexpr int kUnseen = 3 * kExponentOfZero;

struct KeyWeights {
  Scaled of[kKeys];
};

template <typename X, typename O>
struct Tokens {
  HeadArray<const X> q, k;
  HeadArray<const O> omega;
  FeatureMapId map;
  int d, arguments;  // sizes of a row before features
  float root_scale;
  bool normalize;
};

// One row of q or k under a map; its projection is computed on demand.
template <FeatureMapId kMap, typename X, typename O>
class DirectRow {
 public:
  static constexpr int kEach = FeaturesOfArgument(kMap);

  // Constructed by a whole warp.
  __device__ DirectRow(const Tokens<X, O>& tokens, const X* x, const O* omega)
      : x_(x),
        omega_(omega),
        d_(tokens.d),
        scale_(ScaleOfRow(x, tokens.d, tokens.root_scale, tokens.normalize)) {}

  __device__ void Of(int a, Scaled (&features)[kEach]) const {
    if constexpr (Projects(kMap)) {
      const O* row = omega_ + static_cast<int64_t>(a) * d_;
      float y = 0.0f;
      for (int c = 0; c < d_; ++c) y = fmaf(ToFloat(row[c]), ToFloat(x_[c]), y);
      MapArgument<kMap>(scale_.factor * y, scale_.half_square, features);
    } else {
      MappedRow<kMap, X>(x_, d_, scale_).Of(a, features);
    }
  }

 private:
  const X* x_;
  const O* omega_;
  const int d_;
  const RowScale scale_;
};

// Writes features[f] of a row; executed by the block.
template <FeatureMapId kMap, typename X, typename O>
__device__ void WriteFeatures(const Tokens<X, O>& tokens, const X* x,
                              const O* omega, Scaled* features) {
  constexpr int kEach = FeaturesOfArgument(kMap);
  const DirectRow<kMap, X, O> row(tokens, x, omega);
  for (int a = static_cast<int>(threadIdx.x); a < tokens.arguments;
       a += kThreads) {
    Scaled each[kEach];
    row.Of(a, each);
#pragma unroll
    for (int o = 0; o < kEach; ++o)
      features[o * tokens.arguments + a] = each[o];
  }
}

// Returns query . phi(x) in every lane; executed by a warp.
template <FeatureMapId kMap, typename X, typename O>
__device__ Scaled Product(const Tokens<X, O>& tokens, const Scaled* query,
                          const X* x, const O* omega) {
  constexpr int kEach = FeaturesOfArgument(kMap);
  const DirectRow<kMap, X, O> row(tokens, x, omega);
  float sum = 0.0f;  // relative to 2^top
  int top = kUnseen;
  for (int a = static_cast<int>(threadIdx.x) % kWarp; a < tokens.arguments;
       a += kWarp) {
    Scaled each[kEach];
    row.Of(a, each);
#pragma unroll
    for (int o = 0; o < kEach; ++o) {
      const Scaled of_query = query[o * tokens.arguments + a];
      const float product = of_query.mantissa * each[o].mantissa;
      if (product == 0.0f) continue;
      const int exponent = of_query.exponent + each[o].exponent;
      const int largest = max(top, exponent);
      sum = sum * PowerOfTwo(top - largest) +
            product * PowerOfTwo(exponent - largest);
      top = largest;
    }
  }
  const int largest = LargestOfLanes(top);
  const Scaled scaled =
      ScaledValue(SumOfLanes(sum * PowerOfTwo(top - largest)));
  return {scaled.mantissa, scaled.mantissa == 0.0f ? kExponentOfZero
                                                   : scaled.exponent + largest};
}

// A block processes one marked row after another.
template <typename X, typename O, typename S, typename Out>
__global__ void __launch_bounds__(kThreads)
    DirectPairs(Tokens<X, O> tokens, BiasWeights bias, bool causal,
                HeadArray<const S> values, int64_t heads, int64_t n_q,
                int64_t n_k, int f, int64_t e, const RowMark* marks,
                Scaled* features, float* sums, HeadArray<Out> out) {
  SUBQUAD_SHARED(KeyWeights, weights);
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int warp = static_cast<int>(threadIdx.x) / kWarp;
  features += static_cast<int64_t>(blockIdx.x) * f;
  sums += blockIdx.x * e;
  const auto direct = [&](int64_t head, int64_t i) {
    const X* query = tokens.q.data + head * tokens.q.head_stride + i * tokens.d;
    const X* keys = tokens.k.data + head * tokens.k.head_stride;
    const O* omega = tokens.omega.data + head * tokens.omega.head_stride;
    const S* v = values.data + head * values.head_stride;
    const Scaled* table =
        bias.at ? bias.at + head * bias.head_stride - bias.positions.Of(i)
                : nullptr;
    __syncthreads();  // the previous row is done
    WithMap(tokens.map, [&]<FeatureMapId kMap>() {
      WriteFeatures<kMap>(tokens, query, omega, features);
    });
    for (int64_t x = threadIdx.x; x < e; x += kThreads) sums[x] = 0.0f;
    float total = 0.0f;
    int top = kUnseen;
    const int64_t visible = causal ? min(i + 1, n_k) : n_k;
    for (int64_t j0 = 0; j0 < visible; j0 += kKeys) {
      __syncthreads();  // features are written and weights have been read
      for (int k = warp; k < kKeys; k += kWarps) {
        Scaled weight = {0.0f, kUnseen};
        if (j0 + k < visible) {
          WithMap(tokens.map, [&]<FeatureMapId kMap>() {
            weight = Product<kMap>(tokens, features, keys + (j0 + k) * tokens.d,
                                   omega);
          });
          if (table) {
            const Scaled c = table[bias.positions.Of(j0 + k)];
            weight.mantissa *= c.mantissa;
            weight.exponent += c.exponent;
          }
          if (weight.mantissa == 0.0f) weight.exponent = kUnseen;
        }
        if (lane == 0) weights.of[k] = weight;
      }
      __syncthreads();
      // All warps compute the same values.
      static_assert(kKeys == 2 * kWarp);
      const Scaled first = weights.of[lane], second = weights.of[lane + kWarp];
      const int largest =
          max(top, LargestOfLanes(max(first.exponent, second.exponent)));
      const float factor = PowerOfTwo(top - largest);
      top = largest;
      total =
          total * factor +
          SumOfLanes(first.mantissa * PowerOfTwo(first.exponent - largest) +
                     second.mantissa * PowerOfTwo(second.exponent - largest));
      for (int64_t x = threadIdx.x; x < e; x += kThreads) {
        float sum = sums[x] * factor;
        for (int k = 0; k < kKeys && j0 + k < visible; ++k)
          sum = fmaf(weights.of[k].mantissa *
                         PowerOfTwo(weights.of[k].exponent - largest),
                     ToFloat(v[(j0 + k) * e + x]), sum);
        sums[x] = sum;
      }
    }
    Out* to = out.data + head * out.head_stride + i * e;
    for (int64_t x = threadIdx.x; x < e; x += kThreads)
      Store(QuotientOrZero(sums[x], total), to + x);
  };
  // Each lane reads one mark; all warps read the same marks.
  for (int64_t row0 = static_cast<int64_t>(blockIdx.x) * kWarp;
       row0 < heads * n_q; row0 += static_cast<int64_t>(gridDim.x) * kWarp) {
    const int64_t row = row0 + lane;
    int left = row < heads * n_q && marks[row] == RowMark::kForPairs
                   ? kWarp - lane
                   : 0;
    // Takes the first of the remaining rows until none is left.
    for (int first = LargestOfLanes(left); first > 0;
         first = LargestOfLanes(left)) {
      const int64_t marked = row0 + kWarp - first;
      direct(marked / n_q, marked % n_q);
      if (left == first) left = 0;
    }
  }
}

}  // namespace

int64_t DirectRows::Blocks(const DeviceKernelizedShape& shape) {
  return std::min(kMostBlocks, PiecesOf(shape.heads * shape.n_q, kWarp));
}

DirectRows::DirectRows(Layout& layout, const DeviceKernelizedShape& shape)
    : shape_(shape),
      marks_(layout, shape.heads * shape.n_q),
      features_(layout, Blocks(shape) * shape.f),
      sums_(layout, Blocks(shape) * shape.e) {}

template <typename X, typename O, typename S, typename Out>
void DirectRows::Run(HeadArray<const X> q, HeadArray<const X> k,
                     HeadArray<const O> omega, const BiasWeights& bias,
                     HeadArray<const S> values, HeadArray<Out> out) {
  const FeatureMapSpec& map = shape_.map;
  const Tokens<X, O> tokens = {
      .q = q,
      .k = k,
      .omega = omega,
      .map = map.id,
      .d = static_cast<int>(map.d),
      .arguments = static_cast<int>(shape_.f / FeaturesOfArgument(map.id)),
      .root_scale = static_cast<float>(map.root_scale),
      .normalize = map.normalize};
  SUBQUAD_LAUNCH((DirectPairs<X, O, S, Out>), Grid(Blocks(shape_)), kThreads,
                 sizeof(KeyWeights), tokens, bias, shape_.causal, values,
                 shape_.heads, shape_.n_q, shape_.n_k,
                 static_cast<int>(shape_.f), shape_.e, marks(),
                 features_.data(), sums_.data(), out);
}

#define SUBQUAD_DIRECT_ROWS(X, O, S, Out)                               \
  template void DirectRows::Run(HeadArray<const X>, HeadArray<const X>, \
                                HeadArray<const O>, const BiasWeights&, \
                                HeadArray<const S>, HeadArray<Out>);
SUBQUAD_DIRECT_ROWS(float, float, float, float)
SUBQUAD_DIRECT_ROWS(__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16)
SUBQUAD_DIRECT_ROWS(__half, __half, __half, __half)
// Instances for features of q^ and k^.
SUBQUAD_DIRECT_ROWS(float, __nv_bfloat16, __nv_bfloat16, __nv_bfloat16)
SUBQUAD_DIRECT_ROWS(float, __half, __half, __half)
// Instances whose sums are processed further.
SUBQUAD_DIRECT_ROWS(__nv_bfloat16, __nv_bfloat16, __nv_bfloat16, float)
SUBQUAD_DIRECT_ROWS(__half, __half, __half, float)
#undef SUBQUAD_DIRECT_ROWS

}  // namespace subquad::device
