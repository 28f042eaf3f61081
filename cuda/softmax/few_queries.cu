#include <algorithm>
#include <limits>

#include "cuda/base/launch.h"
#include "cuda/base/tensor_core.h"
#include "cuda/base/warp.h"
#include "cuda/softmax/few_queries.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kLog2E = 1.44269504088896340736f;

template <typename S>
struct Tensors {
  SoftmaxShape shape;
  float scale;
  HeadArray<const S> q, k, v, bias;
  HeadArray<S> out;
  SoftmaxOptions<S, S> options;
  SoftmaxPartials partials;
};

// Number of elements that a lane reads at once.
template <typename S>
inline constexpr int kNumbers = 16 / sizeof(S);

// Number of keys and values that a lane has in registers at once. These are 256
// bytes in flight for each lane, so that few warps saturate the memory. Rows
// that are read element by element take more registers.
template <typename S, bool kWhole>
inline constexpr int kBatch = sizeof(S) == 2 && !kWhole ? 4 : 8;

// The elements of a lane as stored: pairs of 16-bit elements are converted only
// when they are used, and need half as many registers until then.
struct Piece {
  uint32_t words[4];
};

template <typename S>
__device__ inline void Unpack(const Piece& piece, float (&to)[kNumbers<S>]) {
#pragma unroll
  for (int word = 0; word < 4; ++word) {
    if constexpr (sizeof(S) == 2) {
      const float2 pair = Numbers<S>(piece.words[word]);
      to[word * 2] = pair.x;
      to[word * 2 + 1] = pair.y;
    } else {
      memcpy(&to[word], &piece.words[word], sizeof to[word]);
    }
  }
}

// Reads the elements of a lane from a row of `width` elements, and zeros beyond
// its end. With kWhole, the row has elements for all lanes and is aligned to 16
// bytes.
template <bool kWhole, typename S>
__device__ inline Piece Read(const S* row, bool there, int first, int width) {
  Piece piece = {};
  if constexpr (kWhole) {
    if (there) {
      const uint4 all = *reinterpret_cast<const uint4*>(row + first);
      piece = {{all.x, all.y, all.z, all.w}};
    }
  } else {
    S numbers[kNumbers<S>] = {};
#pragma unroll
    for (int x = 0; x < kNumbers<S>; ++x)
      if (there && first + x < width) numbers[x] = row[first + x];
    memcpy(&piece, numbers, sizeof piece);
  }
  return piece;
}

// The sums in registers: the largest score (the same in all lanes of a warp),
// one sum of weights per group of lanes, and kNumbers columns per lane.
template <typename S, int kLanes, int kKeys>
struct QuerySums {
  float top = kLowest, sum = 0;
  float out[kNumbers<S>] = {};

  // Adds a batch of keys with these scores; -inf masks a key.
  __device__ void Add(const float (&score)[kKeys],
                      const Piece (&value)[kKeys]) {
    float largest = top;
#pragma unroll
    for (int b = 0; b < kKeys; ++b) largest = fmaxf(largest, score[b]);
    Rescale(LargestOfLanes(largest));
#pragma unroll
    for (int b = 0; b < kKeys; ++b) {
      const float weight = expf(score[b] - top);
      sum += weight;
      float numbers[kNumbers<S>];
      Unpack<S>(value[b], numbers);
#pragma unroll
      for (int x = 0; x < kNumbers<S>; ++x)
        out[x] = fmaf(weight, numbers[x], out[x]);
    }
  }

  __device__ void Rescale(float to) {
    const float factor = expf(top - to);
    top = to;
    sum *= factor;
#pragma unroll
    for (int x = 0; x < kNumbers<S>; ++x) out[x] *= factor;
  }

  // Adds the sums of the warp's groups of lanes.
  __device__ void SumOfGroups() {
#pragma unroll
    for (int other = kWarp / 2; other >= kLanes; other /= 2) {
      sum += __shfl_xor_sync(kAllLanes, sum, other);
#pragma unroll
      for (int x = 0; x < kNumbers<S>; ++x)
        out[x] += __shfl_xor_sync(kAllLanes, out[x], other);
    }
  }
};

struct QueryShared {
  float top[kWarps], sum[kWarps];
  float out[kWarps][kFewQueriesColumns];
};

// kChanges: SoftmaxOptions::ChangeScores.
template <typename S, int kLanes, bool kWhole, bool kChanges>
__global__ void __launch_bounds__(kThreads, 4)
    AttendByQuery(const Tensors<S> tensors) {
  SUBQUAD_SHARED(QueryShared, shared);
  constexpr int kGroups = kWarp / kLanes, kKeys = kBatch<S, kWhole>;
  constexpr int kKeysOfWarp = kGroups * kKeys, kStep = kWarps * kKeysOfWarp;
  const SoftmaxShape& shape = tensors.shape;
  const int64_t n_q = shape.n_q, d = shape.d, e = shape.e;
  const int64_t head = blockIdx.x / n_q, i = blockIdx.x % n_q;
  const int warp = static_cast<int>(threadIdx.x / kWarp);
  const int lane = static_cast<int>(threadIdx.x % kWarp);
  const int group = lane / kLanes, first = lane % kLanes * kNumbers<S>;
  const int depth = kWhole ? kLanes * kNumbers<S> : static_cast<int>(d);
  const int columns = kWhole ? kLanes * kNumbers<S> : static_cast<int>(e);
  const S* const k = tensors.k.Head(head);
  const S* const v = tensors.v.Head(head);
  const S* const biases = tensors.bias.Head(head);
  // Bias of the first key.
  const S* const bias = biases ? biases + n_q - 1 - i : nullptr;
  const int64_t visible_from = shape.Begin(i), visible_to = shape.End(i);
  const int64_t steps = (visible_to - visible_from + kStep - 1) / kStep;
  const int64_t begin = visible_from + steps * blockIdx.y / gridDim.y * kStep;
  const int64_t end = min(
      visible_to, visible_from + steps * (blockIdx.y + 1) / gridDim.y * kStep);

  float query[kNumbers<S>];
  Unpack<S>(Read<kWhole>(tensors.q.Head(head) + i * d, true, first, depth),
            query);

  QuerySums<S, kLanes, kKeys> sums;
  ScoreChange change{};
  if constexpr (kChanges) {
    change = ScoreChange::Of(tensors.options, head);
    if (tensors.options.sinks.data && blockIdx.y == 0 && warp == 0) {
      sums.top = ToFloat(*tensors.options.sinks.Head(head));
      if (group == 0) sums.sum = 1;
    }
  }
  for (int64_t k0 = begin + warp * kKeysOfWarp; k0 < end; k0 += kStep) {
    // This lane's keys are left, left - kGroups, .. before the end.
    const int left = static_cast<int>(min(int64_t{kStep}, end - k0)) - group;
    const S* const keys = k + (k0 + group) * depth;
    const S* const values = v + (k0 + group) * columns;
    Piece key[kKeys], value[kKeys];
#pragma unroll
    for (int b = 0; b < kKeys; ++b)
      key[b] = Read<kWhole>(keys + b * kGroups * depth, b * kGroups < left,
                            first, depth);
#pragma unroll
    for (int b = 0; b < kKeys; ++b)
      value[b] = Read<kWhole>(values + b * kGroups * columns,
                              b * kGroups < left, first, columns);
    float score[kKeys];
#pragma unroll
    for (int b = 0; b < kKeys; ++b) {
      float product = 0, numbers[kNumbers<S>];
      Unpack<S>(key[b], numbers);
#pragma unroll
      for (int x = 0; x < kNumbers<S>; ++x)
        product = fmaf(query[x], numbers[x], product);
      product = SumOfLanes<kLanes>(product);
      score[b] = -std::numeric_limits<float>::infinity();
      if (b * kGroups >= left) continue;
      const int64_t at = k0 + group + b * kGroups;
      const float added = bias ? ToFloat(bias[at]) : 0.0f;
      if constexpr (kChanges)
        score[b] = change.Sloped(change.Capped(product * tensors.scale) + added,
                                 at - i - shape.first);
      else
        score[b] = fmaf(product, tensors.scale, added);
    }
    sums.Add(score, value);
  }

  sums.SumOfGroups();
  const float top = LargestOfBlock<kThreads>(sums.top, shared.top);
  sums.Rescale(top);
  if (lane == 0) shared.sum[warp] = sums.sum;
  if (group == 0) {
#pragma unroll
    for (int x = 0; x < kNumbers<S>; ++x)
      shared.out[warp][first + x] = sums.out[x];
  }
  __syncthreads();
  const int column = static_cast<int>(threadIdx.x);
  if (column >= columns) return;
  float sum = 0, out = 0;
#pragma unroll
  for (int w = 0; w < kWarps; ++w) {
    sum += shared.sum[w];
    out += shared.out[w][column];
  }
  if (gridDim.y == 1) {
    Store(QuotientOrZero(out, sum), tensors.out.Head(head) + i * e + column);
    if (tensors.options.lse.data && column == 0)
      Store(top + logf(sum), tensors.options.lse.Head(head) + i);
    return;
  }
  const int64_t row = blockIdx.y * gridDim.x + blockIdx.x;
  tensors.partials.out[row * e + column] = out;
  if (column == 0) {
    tensors.partials.top[row] = top;
    tensors.partials.sum[row] = sum;
  }
}

// Number of blocks that fill a device (an H100 or H200).
constexpr int64_t kBlocks = kEmulated ? 8 : 132 * 4;
// Smallest number of keys for a block: one batch for each of its warps.
constexpr int64_t kLeastKeys = kEmulated ? 64 : 128;
// Largest number of blocks for a query; merging more takes longer than it
// saves.
constexpr int64_t kMostSplits = 64;

int64_t SplitsOf(const SoftmaxShape& shape) {
  return std::max(int64_t{1},
                  std::min({kBlocks / (shape.heads * shape.n_q),
                            shape.MostKeys(1) / kLeastKeys, kMostSplits}));
}

template <typename S, int kLanes, bool kChanges>
void LaunchChanging(const Tensors<S>& tensors, int64_t splits, bool whole) {
  const dim3 grid = Grid(tensors.shape.heads * tensors.shape.n_q, splits);
  if (whole)
    SUBQUAD_LAUNCH((AttendByQuery<S, kLanes, true, kChanges>), grid, kThreads,
                   sizeof(QueryShared), tensors);
  else
    SUBQUAD_LAUNCH((AttendByQuery<S, kLanes, false, kChanges>), grid, kThreads,
                   sizeof(QueryShared), tensors);
}

template <typename S, int kLanes>
void Launch(const Tensors<S>& tensors, int64_t splits, bool whole) {
  if (tensors.options.ChangeScores())
    LaunchChanging<S, kLanes, true>(tensors, splits, whole);
  else
    LaunchChanging<S, kLanes, false>(tensors, splits, whole);
}

}  // namespace

template <typename S>
FewQueries<S>::FewQueries(Layout& layout, const SoftmaxShape& shape)
    : shape_(shape),
      splits_(SplitsOf(shape)),
      partials_(layout, splits_ > 1 ? splits_ * shape.heads * shape.n_q : 0,
                shape.e) {}

template <typename S>
void FewQueries<S>::Run(float scale, HeadArray<const S> q, HeadArray<const S> k,
                        HeadArray<const S> v, HeadArray<const S> bias,
                        HeadArray<S> out,
                        const SoftmaxOptions<S, S>& options) const {
  const Tensors<S> tensors = {shape_,  scale,          q, k, v, bias, out,
                              options, partials_.Get()};
  const int64_t width =
      std::max(shape_.d, shape_.e) <= 64 ? 64 : kFewQueriesColumns;
  const bool whole = shape_.d == width && shape_.e == width &&
                     AllAtMultiplesOf(kNumbers<S>, q, width) &&
                     AllAtMultiplesOf(kNumbers<S>, k, width) &&
                     AllAtMultiplesOf(kNumbers<S>, v, width);
  if (width == 64)
    Launch<S, 64 / kNumbers<S>>(tensors, splits_, whole);
  else
    Launch<S, kFewQueriesColumns / kNumbers<S>>(tensors, splits_, whole);
  if (splits_ > 1)
    MergePartials(tensors.partials, splits_, shape_.heads, shape_.n_q, kLog2E,
                  out, options.lse);
}

template <typename S>
double FewQueries<S>::Flops(const SoftmaxShape& shape) {
  return 2 * static_cast<double>(shape.heads) *
         PairsInTiles(shape, 1, 0, shape.n_q) *
         static_cast<double>(shape.d + shape.e);
}

template class FewQueries<float>;
template class FewQueries<__nv_bfloat16>;
template class FewQueries<__half>;

}  // namespace subquad::device
