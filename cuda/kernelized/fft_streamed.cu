#include <algorithm>
#include <cmath>

#include "cuda/base/warp.h"
#include "cuda/kernelized/fft_streamed.h"
#include "cuda/kernelized/tiled.h"
#include "reference/contract/kernelized_rpe_attention.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;
constexpr int kSide = 32;
constexpr int kRows = 8;
// Columns of sums per thread.
constexpr int kColumns = 16;
// Keys per partial sum of squares.
constexpr int64_t kPiece = 1024;

struct Square {
  float at[kSide][kSide + 1];
};

// Features are numbered across all heads. A launch processes features [first,
// first + count), and each of its blocks those of one head.
struct FeatureRange {
  int64_t first, count, f;
  int64_t heads() const { return (first + count - 1) / f - first / f + 1; }
  __device__ int64_t Head() const { return first / f + blockIdx.z; }
  __device__ int Begin(int64_t head) const {
    return static_cast<int>(max(first - head * f, int64_t{0}));
  }
  __device__ int End(int64_t head) const {
    return static_cast<int>(min(first + count - head * f, f));
  }
};

// Fills in the first column of the circulant: at m the weight of positions of a
// query and a key that are m apart, m taken modulo L. Relative to 2^top.
__global__ void LoadWeights(BiasWeights bias, const int* tops,
                            int64_t positions_q, int64_t positions_k,
                            bool causal, int64_t length, float* vectors) {
  const int64_t m = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (m >= length) return;
  const Scaled* weights = bias.at + blockIdx.y * bias.head_stride;
  Scaled weight = {0.0f, 0};
  if (m < positions_q)
    weight = weights[-m];
  else if (!causal && length - m < positions_k)
    weight = weights[length - m];
  vectors[blockIdx.y * length + m] =
      weight.mantissa * PowerOfTwo(weight.exponent - tops[blockIdx.y]);
}

// Computes channels[feature][x][position] = phi_a(k) v_x, and phi_a(k) for x =
// e; zero where there is no token. A block has 32 positions and 32 columns of
// one head, reads its values once, and writes them for all features; blocks of
// the last columns write x = e too.
template <typename S>
__global__ void FillChannels(FeatureRange range, const float* keys,
                             const int* row_exponents, int64_t n_k,
                             TokenPositions positions, int64_t positions_k,
                             const S* values, int64_t value_stride, int64_t e,
                             int64_t length, float* channels) {
  SUBQUAD_SHARED(Square, tile);
  const int64_t head = range.Head();
  const int64_t p0 = static_cast<int64_t>(blockIdx.x) * kSide;
  const int64_t x0 = static_cast<int64_t>(blockIdx.y) * kSide;
  values += head * value_stride;
#pragma unroll
  for (int k = threadIdx.y; k < kSide; k += kRows) {
    const int64_t x = x0 + threadIdx.x;
    const int64_t token = p0 + k < positions_k ? positions.TokenAt(p0 + k) : -1;
    tile.at[k][threadIdx.x] =
        token >= 0 && x < e ? ToFloat(values[token * e + x]) : 0.0f;
  }
  __syncthreads();
  const int64_t p = p0 + threadIdx.x;
  if (p >= length) return;
  const int64_t token = p < positions_k ? positions.TokenAt(p) : -1;
  const float power =
      token >= 0 ? PowerOfTwo(row_exponents[head * n_k + token]) : 0.0f;
  keys += (head * n_k + token) * range.f;
  float value[kSide / kRows];
#pragma unroll
  for (int k = 0; k < kSide / kRows; ++k)
    value[k] = tile.at[threadIdx.x][threadIdx.y + k * kRows];
  for (int a = range.Begin(head); a < range.End(head); ++a) {
    const float key = token >= 0 ? keys[a] * power : 0.0f;
    float* to =
        channels + (head * range.f + a - range.first) * (e + 1) * length + p;
    if (x0 + kSide >= e && threadIdx.y == 0) to[e * length] = key;
#pragma unroll
    for (int k = 0; k < kSide / kRows; ++k) {
      const int64_t x = x0 + threadIdx.y + k * kRows;
      if (x < e) to[x * length] = key * value[k];
    }
  }
}

// Computes sums[head][x][i] += sum over the features of phi_a(q_i)
// channels[a][x][i]; the first features of a head start its sums.
__global__ void __launch_bounds__(kThreads)
    AddQueries(FeatureRange range, const float* queries, int64_t n_q,
               TokenPositions positions, int64_t e, int64_t length,
               const float* channels, float* sums) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= n_q) return;
  const int64_t head = range.Head();
  const int64_t x0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  const int columns = static_cast<int>(min(e + 1 - x0, int64_t{kColumns}));
  queries += (head * n_q + i) * range.f;
  sums += (head * (e + 1) + x0) * n_q + i;
  const int begin = range.Begin(head), end = range.End(head);
  float sum[kColumns];
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    sum[c] = begin > 0 && c < columns ? sums[c * n_q] : 0.0f;
  const float* from =
      channels +
      ((head * range.f + begin - range.first) * (e + 1) + x0) * length +
      positions.Of(i);
  for (int a = begin; a < end; ++a, from += (e + 1) * length) {
    const float query = queries[a];
#pragma unroll
    for (int c = 0; c < kColumns; ++c)
      if (c < columns) sum[c] = fmaf(query, from[c * length], sum[c]);
  }
#pragma unroll
  for (int c = 0; c < kColumns; ++c)
    if (c < columns) sums[c * n_q] = sum[c];
}

// Computes squares[head][piece][a] = sum of phi_a(k_j)^2 over a piece of the
// keys.
__global__ void SumSquares(const float* keys, const int* row_exponents,
                           int64_t n_k, int f, float* squares) {
  SUBQUAD_SHARED(Square, tile);
  const int a = static_cast<int>(blockIdx.y) * kSide + threadIdx.x;
  const int64_t head = blockIdx.z;
  const int64_t first = blockIdx.x * kPiece;
  const int64_t last = min(first + kPiece, n_k);
  float sum = 0.0f;
  if (a < f)
    for (int64_t j = head * n_k + first + threadIdx.y; j < head * n_k + last;
         j += kRows) {
      const float key = keys[j * f + a] * PowerOfTwo(row_exponents[j]);
      sum = fmaf(key, key, sum);
    }
  tile.at[threadIdx.y][threadIdx.x] = sum;
  __syncthreads();
  if (threadIdx.y != 0 || a >= f) return;
  for (int y = 1; y < kRows; ++y) sum += tile.at[y][threadIdx.x];
  squares[(head * gridDim.x + blockIdx.x) * f + a] = sum;
}

__global__ void KeyNorms(const float* squares, int64_t pieces, int64_t f,
                         float* norms) {
  const int64_t a = static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (a >= f) return;
  float sum = 0.0f;
  for (int64_t p = 0; p < pieces; ++p)
    sum += squares[(blockIdx.y * pieces + p) * f + a];
  norms[blockIdx.y * f + a] = sqrtf(sum);
}

// Marks queries whose normaliser is within the possible error of the
// transforms,
//   factor |c|_2 sum_a |phi_a(q_i)| |phi_a(k)|_2.
// Uses one warp per query.
__global__ void MarkLost(const float* queries, int64_t n_q, int64_t f,
                         const float* norms, const float* weight_norms,
                         bool per_head, float factor, const float* sums,
                         int64_t e, RowMark* marks) {
  const int64_t i = static_cast<int64_t>(blockIdx.x) * (kThreads / kWarp) +
                    threadIdx.x / kWarp;
  if (i >= n_q) return;
  const int64_t head = blockIdx.y;
  const int lane = threadIdx.x % kWarp;
  queries += (head * n_q + i) * f;
  norms += head * f;
  float sum = 0.0f;
  for (int64_t a = lane; a < f; a += kWarp)
    sum = fmaf(fabsf(queries[a]), norms[a], sum);
  sum = SumOfLanes(sum);
  if (lane != 0) return;
  const float error = factor * weight_norms[per_head ? head : 0] * sum;
  const float normaliser = sums[(head * (e + 1) + e) * n_q + i];
  // Does not mark NaN: errors must show.
  marks[head * n_q + i] =
      fabsf(normaliser) <= error ? RowMark::kForTiles : RowMark::kDone;
}

// Computes out[i][x] = sums[x][i] / sums[e][i].
template <typename S>
__global__ void StoreQuotients(const float* sums, int64_t n_q, int64_t e,
                               S* out, int64_t out_stride) {
  SUBQUAD_SHARED(Square, tile);
  const int64_t i0 = static_cast<int64_t>(blockIdx.x) * kSide;
  const int64_t x0 = static_cast<int64_t>(blockIdx.y) * kSide;
  sums += blockIdx.z * (e + 1) * n_q;
  const int64_t i = i0 + threadIdx.x;
  const float normaliser = i < n_q ? sums[e * n_q + i] : 1.0f;
  for (int k = threadIdx.y; k < kSide; k += kRows)
    tile.at[k][threadIdx.x] =
        i < n_q && x0 + k < e
            ? QuotientOrZero(sums[(x0 + k) * n_q + i], normaliser)
            : 0.0f;
  __syncthreads();
  const int64_t x = x0 + threadIdx.x;
  for (int k = threadIdx.y; k < kSide; k += kRows)
    if (i0 + k < n_q && x < e)
      Store(tile.at[threadIdx.x][k],
            out + blockIdx.z * out_stride + (i0 + k) * e + x);
}

// Returns how many positions n tokens occupy.
int64_t PositionsOf(const DeviceKernelizedShape& shape, int64_t n) {
  return shape.positions.Of(n - 1) + 1;
}

}  // namespace

template <typename S>
int64_t StreamedFftKernelized<S>::Length(const DeviceKernelizedShape& shape) {
  return GoodFftLength(PositionsOf(shape, shape.n_q) +
                       PositionsOf(shape, shape.n_k) - 1);
}

template <typename S>
int64_t StreamedFftKernelized<S>::FeaturesAtOnce(
    const DeviceKernelizedShape& shape) {
  // The size is about half of a Hopper's second-level cache, as in
  // toeplitz_product.cu.
  constexpr int64_t kBytes = 24 << 20;
  constexpr int64_t kMostChannels = 32768;
  const int64_t channels = shape.e + 1;
  const int64_t bytes =
      channels * Length(shape) * static_cast<int64_t>(sizeof(float));
  const int64_t fit =
      std::max<int64_t>(std::min(kBytes / bytes, kMostChannels / channels), 1);
  return EqualGroup(shape.heads * shape.f, fit, 1);
}

template <typename S>
double StreamedFftKernelized<S>::TransformFactor(
    const DeviceKernelizedShape& shape) {
  return 2 * std::log2(static_cast<double>(Length(shape)));
}

template <typename S>
double StreamedFftKernelized<S>::Flops(const DeviceKernelizedShape& shape) {
  const auto length = static_cast<double>(Length(shape));
  const auto channels =
      static_cast<double>(shape.heads * shape.f * (shape.e + 1));
  return Features::Flops(shape.features()) +
         channels * (2 * 2.5 * length * std::log2(length) + 3 * length +
                     2 * static_cast<double>(shape.n_q));
}

template <typename S>
StreamedFftKernelized<S>::StreamedFftKernelized(
    Layout& layout, const DeviceKernelizedShape& shape)
    : shape_(shape),
      length_(Length(shape)),
      features_at_once_(FeaturesAtOnce(shape)),
      features_(layout, shape.features(), KeyScaling::kRows),
      bias_(layout, shape),
      vectors_(layout, shape.bias_vectors * length_),
      channels_(layout, features_at_once_ * (shape.e + 1) * length_),
      sums_(layout, shape.heads * (shape.e + 1) * shape.n_q),
      squares_(layout, shape.heads * PiecesOf(shape.n_k, kPiece) * shape.f),
      norms_(layout, shape.heads * shape.f),
      pairs_(layout, shape),
      vector_plan_(layout, {length_}, shape.bias_vectors),
      plan_(layout, {length_}, features_at_once_ * (shape.e + 1)) {
  area_.Share(
      layout, {&vector_plan_, &plan_},
      sizeof(float) * static_cast<double>(vectors_.size() + channels_.size()));
}

template <typename S>
void StreamedFftKernelized<S>::TransformWeights() {
  SUBQUAD_LAUNCH(
      LoadWeights, Grid(PiecesOf(length_, kThreads), shape_.bias_vectors),
      kThreads, 0, bias_.weights(), bias_.tops(),
      PositionsOf(shape_, shape_.n_q), PositionsOf(shape_, shape_.n_k),
      shape_.causal, length_, vectors_.data());
  vector_plan_.Execute(vectors_.data(), Transform::kForward);
}

template <typename S>
void StreamedFftKernelized<S>::AddChannels(int64_t first, int64_t count,
                                           HeadArray<const S> v) {
  const FeatureRange range = {first, count, shape_.f};
  const TokenPositions positions = shape_.positions;
  const int64_t e = shape_.e;
  SUBQUAD_LAUNCH(
      FillChannels<S>,
      Grid(PiecesOf(length_, kSide), PiecesOf(e, kSide), range.heads()),
      dim3(kSide, kRows), sizeof(Square), range, features_.keys(),
      features_.row_exponents(), shape_.n_k, positions,
      PositionsOf(shape_, shape_.n_k), v.data, v.head_stride, e, length_,
      channels_.data());
  plan_.Execute(channels_.data(), Transform::kForward);
  MultiplyTransforms({length_}, vectors_.data(),
                     {first * (e + 1), count * (e + 1), shape_.f * (e + 1),
                      shape_.bias_vectors == 1},
                     channels_.data());
  plan_.Execute(channels_.data(), Transform::kBackward);
  SUBQUAD_LAUNCH(AddQueries,
                 Grid(PiecesOf(shape_.n_q, kThreads), PiecesOf(e + 1, kColumns),
                      range.heads()),
                 kThreads, 0, range, features_.queries(), shape_.n_q, positions,
                 e, length_, channels_.data(), sums_.data());
}

template <typename S>
void StreamedFftKernelized<S>::FindLost() {
  const int64_t heads = shape_.heads, f = shape_.f;
  const int64_t pieces = PiecesOf(shape_.n_k, kPiece);
  SUBQUAD_LAUNCH(SumSquares, Grid(pieces, PiecesOf(f, kSide), heads),
                 dim3(kSide, kRows), sizeof(Square), features_.keys(),
                 features_.row_exponents(), shape_.n_k, static_cast<int>(f),
                 squares_.data());
  SUBQUAD_LAUNCH(KeyNorms, Grid(PiecesOf(f, kThreads), heads), kThreads, 0,
                 squares_.data(), pieces, f, norms_.data());
  SUBQUAD_LAUNCH(
      MarkLost, Grid(PiecesOf(shape_.n_q, kThreads / kWarp), heads), kThreads,
      0, features_.queries(), shape_.n_q, f, norms_.data(), bias_.norms(),
      shape_.bias_vectors > 1,
      static_cast<float>(kLostFactor * TransformFactor(shape_) * 0x1p-24),
      sums_.data(), shape_.e, pairs_.marks());
}

template <typename S>
void StreamedFftKernelized<S>::Run(HeadArray<const S> q, HeadArray<const S> k,
                                   HeadArray<const S> v,
                                   HeadArray<const S> omega,
                                   HeadArray<const S> bias, HeadArray<S> out) {
  features_.Run(q, k, omega);
  bias_.Run(bias);
  TransformWeights();
  const int64_t all = shape_.heads * shape_.f;
  for (int64_t first = 0; first < all; first += features_at_once_)
    AddChannels(first, std::min(features_at_once_, all - first), v);
  SUBQUAD_LAUNCH(StoreQuotients<S>,
                 Grid(PiecesOf(shape_.n_q, kSide), PiecesOf(shape_.e, kSide),
                      shape_.heads),
                 dim3(kSide, kRows), sizeof(Square), sums_.data(), shape_.n_q,
                 shape_.e, out.data, out.head_stride);
  FindLost();
  RunTiledKernelized<S>(shape_, features_, bias_.weights(), v, out,
                        pairs_.marks(), true);
  pairs_.Run(q, k, omega, bias_.weights(), v, out);
}

template class StreamedFftKernelized<float>;
template class StreamedFftKernelized<__nv_bfloat16>;
template class StreamedFftKernelized<__half>;

}  // namespace subquad::device
