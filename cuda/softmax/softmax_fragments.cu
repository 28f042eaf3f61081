#include <algorithm>
#include <limits>
#include <type_traits>
#include <utility>

#include "cuda/base/launch.h"
#include "cuda/softmax/softmax_fragments.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kKeys = 64;  // keys of a tile
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kLog2E = 1.44269504088896340736f;

// After this many tiles, the sums of the tensor cores are added to sums in
// float32. A tensor core truncates its sum towards zero, so that in a sum over
// all keys, the relative error would grow with their number. Over 16 tiles of
// two parts, the sum has 128 products, whatever n is.
constexpr int kTilesInARow = kEmulated ? 2 : 16;

// Two parts of bfloat16 leave out at most 2^-18 of a weight, which is 64 unit
// roundoffs of float32. The plain program's bound has one rounding for each
// key, so that from 256 keys on, these 64 are at most a quarter of it. Measured
// on an H200, the error beyond that of storing the result was at most 1.1 times
// the plain program's from 256 to 65536 keys. With fewer keys, the 64 would be
// a larger share, and such queries get three parts.
constexpr int64_t kKeysForTwoParts = 256;

// Scales weights to at most 2^15 instead of 1, so that the second part of a
// small weight does not underflow in float16.
template <typename S>
constexpr float kRaised = ScalarOf<S>() == Scalar::kFloat16 ? 15.0f : 0.0f;
template <typename S>
constexpr float kLargestWeight = ScalarOf<S>() == Scalar::kFloat16 ? 0x1p15f
                                                                   : 1.0f;

template <typename S>
struct Tensors {
  SoftmaxShape shape;
  float scale;
  float unit;  // factor of a score in the exponent of 2
  HeadArray<const S> q, k, v, bias;
  HeadArray<S> out;
  SoftmaxOptions<S, S> options;
  bool out_in_twos;
  FragmentsPlan plan;
  SoftmaxPartials partials;
};

// Describes a kernel for keys of width up to kDepth and values of width up to
// kColumns: a warp has kBands times 16 queries, and kBlocks blocks share a
// multiprocessor.
template <int kDepthOfRows, int kColumnsOfRows, int kBandsOfWarp>
struct Extents {
  static constexpr int kDepth = kDepthOfRows, kColumns = kColumnsOfRows;
  static constexpr int kBands = kBandsOfWarp;
  static constexpr int kQueries = kWarps * kBands * 16;
  static constexpr int kBlocks = kDepth == 64 && kBands == 1 ? 3 : 2;
};
using Wide = Extents<64, 64, 2>;
using Narrow = Extents<64, 64, 1>;
using Deep = Extents<128, 128, 1>;

template <typename S, typename Extent>
struct alignas(16) FragmentsShared {
  alignas(16) S query[Extent::kQueries * Extent::kDepth];
  // The keys of this tile and of the next one.
  alignas(16) S key[2][kKeys * Extent::kDepth];
  alignas(16) S value[kKeys * Extent::kColumns];
  float4 kept[Extent::kBands * Extent::kColumns / 8][kThreads];  // by thread
  // Bias at the offsets 1 - kQueries .. kKeys - 1 (key minus query).
  float bias[Extent::kQueries + kKeys];
};

// Returns the place of eight elements of a row in a tile. The order depends on
// the row, so that the same elements of eight rows are in different banks.
template <int kWidth>
__device__ inline int PlaceOf(int row, int eight) {
  return row * kWidth + (eight ^ (row & 7)) * 8;
}

// Copies, or begins to copy, the first `rows` of up to kRows rows of `width`
// elements with this `stride`, and writes zeros beyond. With kInEights, every
// row is aligned to 16 bytes.
template <bool kInEights, int kRows, int kWidth, typename S>
__device__ inline void CopyTile(const S* from, int rows, int width, int stride,
                                S* to) {
  constexpr int kEights = kWidth / 8;
  static_assert(kRows * kEights % kThreads == 0);
#pragma unroll
  for (int i = 0; i < kRows * kEights / kThreads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    const int row = at / kEights, first = at % kEights * 8;
    const int count = row < rows ? width - first : 0;
    const S* const begin = count > 0 ? from + row * stride + first : from;
    S* const end = to + PlaceOf<kWidth>(row, at % kEights);
    if constexpr (kInEights) {
      CopyLater(begin, count > 0, end);
    } else {
#pragma unroll
      for (int x = 0; x < 8; ++x)
        if (x < count)
          end[x] = begin[x];
        else
          Store(0.0f, &end[x]);
    }
  }
}

// The state of a warp's queries between tiles. A lane has the elements (g, 2t),
// (g, 2t+1), (g+8, 2t), (g+8, 2t+1) of every 16 x 8 block of sums, which are in
// two rows.
template <typename S, typename Extent, int kParts>
class Fragments {
 public:
  static constexpr int kDepth = Extent::kDepth, kColumns = Extent::kColumns;
  static constexpr int kBands = Extent::kBands;

  __device__ Fragments() {
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int half = 0; half < 2; ++half)
        top_[band][half] = kept_top_[band][half] = kLowest;
  }

  // Begins with the weight of a sink, which has no value.
  __device__ void AddSink(float sink) {
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        top_[band][half] = sink;
        if (threadIdx.x % 4 == 0) sum_[band][half] = kLargestWeight<S>;
      }
  }

  // Computes q.k for the warp's queries, which begin at `row` of their tile,
  // and all keys of the tile.
  __device__ void Score(const S* queries, int row, const S* keys) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int eight = 0; eight < kKeys / 8; ++eight)
#pragma unroll
        for (int i = 0; i < 4; ++i) score_[band][eight][i] = 0;
#pragma unroll
    for (int step = 0; step < kDepth / 16; ++step) {
      uint32_t query[kBands][4];
#pragma unroll
      for (int band = 0; band < kBands; ++band)
        LoadMatrices<false>(
            queries + PlaceOf<kDepth>(row + band * 16 + lane % 16,
                                      step * 2 + lane / 16),
            query[band]);
#pragma unroll
      for (int eight = 0; eight < kKeys / 8; eight += 2) {
        uint32_t key[4];  // two factors of eight keys
        LoadMatrices<false>(
            keys + PlaceOf<kDepth>(eight * 8 + lane / 16 * 8 + lane % 8,
                                   step * 2 + lane / 8 % 2),
            key);
#pragma unroll
        for (int band = 0; band < kBands; ++band) {
          AddProduct<S>(query[band], key[0], key[1], score_[band][eight]);
          AddProduct<S>(query[band], key[2], key[3], score_[band][eight + 1]);
        }
      }
    }
  }

  // Replaces every score by adjusted(query relative to the warp's first, key of
  // the tile, score).
  template <typename Adjusted>
  __device__ void Adjust(const Adjusted& adjusted) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int eight = 0; eight < kKeys / 8; ++eight)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          score_[band][eight][i] = adjusted(band * 16 + lane / 4 + i / 2 * 8,
                                            eight * 8 + lane % 4 * 2 + i % 2,
                                            score_[band][eight][i]);
  }

  // Turns scores into weights, 2^(unit (score - top)), and rescales the sum of
  // earlier weights to the new largest score. The largest score starts as the
  // lowest finite number, so that a tile without visible keys does not produce
  // inf - inf.
  __device__ void Weigh(float unit) {
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        float top = top_[band][half];
#pragma unroll
        for (int eight = 0; eight < kKeys / 8; ++eight)
          top = fmaxf(top, fmaxf(score_[band][eight][half * 2],
                                 score_[band][eight][half * 2 + 1]));
        top = LargestOfLanes<4>(top);
        factor_[band][half] = PowerOfTwo((top_[band][half] - top) * unit);
        top_[band][half] = top;
        float sum = 0;
#pragma unroll
        for (int eight = 0; eight < kKeys / 8; ++eight)
#pragma unroll
          for (int i = half * 2; i < half * 2 + 2; ++i) {
            float& score = score_[band][eight][i];
            score = PowerOfTwo(fmaf(score - top, unit, kRaised<S>));
            sum += score;
          }
        sum_[band][half] = sum_[band][half] * factor_[band][half] + sum;
      }
  }

  // Rescales the earlier sums to the new largest score, and adds the weights
  // times the values of the tile. Consecutive products go to different sums,
  // because a tensor core waits for a sum before it adds to it.
  __device__ void AddValues(const S* values) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int eight = 0; eight < kColumns / 8; ++eight)
#pragma unroll
        for (int i = 0; i < 4; ++i)
          out_[band][eight][i] *= factor_[band][i / 2];
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step) {
      uint32_t weight[kParts][kBands][4];
      SplitWeights(step, weight);
#pragma unroll
      for (int part = 0; part < kParts; ++part)
#pragma unroll
        for (int eight = 0; eight < kColumns / 8; eight += 2) {
          uint32_t value[4];  // two factors of eight columns
          LoadMatrices<true>(values + PlaceOf<kColumns>(step * 16 + lane % 16,
                                                        eight + lane / 16),
                             value);
#pragma unroll
          for (int band = 0; band < kBands; ++band) {
            AddProduct<S>(weight[part][band], value[0], value[1],
                          out_[band][eight]);
            AddProduct<S>(weight[part][band], value[2], value[3],
                          out_[band][eight + 1]);
          }
        }
    }
  }

  // Adds the sums of the tensor cores to the sums that this thread keeps in
  // shared memory, rescaled to the same largest score, and starts new ones.
  __device__ void Keep(float unit, float4 (*kept)[kThreads]) {
    AddKept(unit, kept);
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
#pragma unroll
      for (int half = 0; half < 2; ++half)
        kept_top_[band][half] = top_[band][half];
#pragma unroll
      for (int eight = 0; eight < kColumns / 8; ++eight) {
        float(&sum)[4] = out_[band][eight];
        kept[band * (kColumns / 8) + eight][threadIdx.x] =
            make_float4(sum[0], sum[1], sum[2], sum[3]);
#pragma unroll
        for (int i = 0; i < 4; ++i) sum[i] = 0;
      }
    }
    has_kept_ = true;
  }

  // Adds the kept sums to those of the tensor cores.
  __device__ void AddKept(float unit, const float4 (*kept)[kThreads]) {
    if (!has_kept_) return;
#pragma unroll
    for (int band = 0; band < kBands; ++band) {
      float factor[2];
#pragma unroll
      for (int half = 0; half < 2; ++half)
        factor[half] =
            PowerOfTwo((kept_top_[band][half] - top_[band][half]) * unit);
#pragma unroll
      for (int eight = 0; eight < kColumns / 8; ++eight) {
        const float4 before = kept[band * (kColumns / 8) + eight][threadIdx.x];
        float(&sum)[4] = out_[band][eight];
        sum[0] = fmaf(before.x, factor[0], sum[0]);
        sum[1] = fmaf(before.y, factor[0], sum[1]);
        sum[2] = fmaf(before.z, factor[1], sum[2]);
        sum[3] = fmaf(before.w, factor[1], sum[3]);
      }
    }
  }

  // Calls write(query relative to the warp's first, column, two neighbouring
  // sums, sum of the weights) for all pairs of columns of the queries before
  // `rows`.
  template <typename Write>
  __device__ void ForPairs(int rows, const Write& write) const {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = SumOfLanes<4>(sum_[band][half]);
        const int row = band * 16 + lane / 4 + half * 8;
        if (row >= rows) continue;
#pragma unroll
        for (int eight = 0; eight < kColumns / 8; ++eight)
          write(row, eight * 8 + lane % 4 * 2, out_[band][eight][half * 2],
                out_[band][eight][half * 2 + 1], sum);
      }
  }

  // Calls write(query relative to the warp's first, largest score, sum of the
  // weights) for the queries before `rows`, in one lane for each.
  template <typename Write>
  __device__ void ForQueries(int rows, const Write& write) const {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = SumOfLanes<4>(sum_[band][half]);
        const int row = band * 16 + lane / 4 + half * 8;
        if (lane % 4 == 0 && row < rows) write(row, top_[band][half], sum);
      }
  }

 private:
  // Splits the weights of 16 keys into 16-bit parts.
  __device__ void SplitWeights(int step,
                               uint32_t (&weight)[kParts][kBands][4]) const {
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float* const of = &score_[band][step * 2 + i / 2][i % 2 * 2];
        float first = of[0], second = of[1];
#pragma unroll
        for (int part = 0; part < kParts; ++part) {
          weight[part][band][i] = Pair<S>(first, second);
          const float2 taken = Numbers<S>(weight[part][band][i]);
          first -= taken.x;
          second -= taken.y;
        }
      }
  }

  float score_[kBands][kKeys / 8][4];  // then weights
  float out_[kBands][kColumns / 8][4] = {};
  float top_[kBands][2], sum_[kBands][2] = {};
  float factor_[kBands][2];  // rescales the earlier sums
  float kept_top_[kBands][2];
  bool has_kept_ = false;
};

// Writes the quotients of the queries of a warp.
template <typename S, typename Own>
__device__ inline void WriteQuotients(const Own& own, int rows, int columns,
                                      int64_t stride, bool in_twos, S* out) {
  own.ForPairs(
      rows, [=](int row, int column, float first, float second, float sum) {
        S* const at = out + row * stride + column;
        if (column + 1 < columns && in_twos) {
          *reinterpret_cast<uint32_t*>(at) =
              Pair<S>(QuotientOrZero(first, sum), QuotientOrZero(second, sum));
        } else {
          if (column < columns) Store(QuotientOrZero(first, sum), at);
          if (column + 1 < columns) Store(QuotientOrZero(second, sum), at + 1);
        }
      });
}

// Writes the sums of the queries of a warp over a part of the keys; `row` is
// the row of the first query among the partial results.
template <typename Own>
__device__ inline void WritePartials(const Own& own, int rows, int64_t c0,
                                     int columns, int64_t row,
                                     const SoftmaxPartials& partials) {
  own.ForPairs(rows, [&](int i, int column, float first, float second, float) {
    float* const at = partials.out + (row + i) * partials.columns + c0 + column;
    if (column < columns) at[0] = first;
    if (column + 1 < columns) at[1] = second;
  });
  if (c0 == 0)
    own.ForQueries(rows, [&](int i, float top, float sum) {
      partials.top[row + i] = top;
      partials.sum[row + i] = sum;
    });
}

// kChanges: SoftmaxOptions::ChangeScores.
template <typename S, typename Extent, int kParts, bool kInEights,
          bool kChanges>
__global__ void __launch_bounds__(kThreads, Extent::kBlocks)
    AttendByFragments(const Tensors<S> tensors) {
  using Shared = FragmentsShared<S, Extent>;
  constexpr int kQueries = Extent::kQueries, kDepth = Extent::kDepth;
  constexpr int kColumns = Extent::kColumns;
  SUBQUAD_SHARED(Shared, shared);
  const SoftmaxShape& shape = tensors.shape;
  const int64_t heads = shape.heads, n_q = shape.n_q, n_k = shape.n_k;
  const int64_t d = shape.d, e = shape.e;
  const bool causal = shape.ahead == 0;
  const FragmentsPlan& plan = tensors.plan;
  const int64_t blocks = (plan.queries + kQueries - 1) / kQueries;
  // With a causal mask, the blocks of all heads that see the most keys start
  // first. Otherwise the blocks of a head are consecutive and share its keys in
  // the cache.
  const int64_t head = causal ? blockIdx.x % heads : blockIdx.x / blocks;
  const int64_t block = causal ? blockIdx.x / heads : blockIdx.x % blocks;
  const int64_t q0 = plan.first_query + (blocks - 1 - block) * kQueries;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  const S* k = tensors.k.Head(head);
  const S* v = tensors.v.Head(head) + c0;
  const S* bias = tensors.bias.Head(head);
  const int rows = static_cast<int>(
      min(int64_t{kQueries}, plan.first_query + plan.queries - q0));
  const int depth = static_cast<int>(d), width = static_cast<int>(e);
  const int columns = static_cast<int>(min(int64_t{kColumns}, e - c0));
  // The keys of this block are a share of the visible tiles.
  const int64_t visible_from = shape.Begin(q0),
                visible_to = shape.End(q0 + rows - 1);
  const int64_t tiles = (visible_to - visible_from + kKeys - 1) / kKeys;
  const int64_t begin = visible_from + tiles * blockIdx.z / gridDim.z * kKeys;
  const int64_t end = min(
      visible_to, visible_from + tiles * (blockIdx.z + 1) / gridDim.z * kKeys);
  const auto keys_from = [=](int64_t k0) {
    return static_cast<int>(min(int64_t{kKeys}, end - k0));
  };
  const int first = static_cast<int>(threadIdx.x / kWarp) * (kQueries / kWarps);
  const float unit = tensors.unit;
  // All queries of this warp see the keys between these.
  const int64_t seen_from = shape.Begin(q0 + first + kQueries / kWarps - 1);
  const int64_t seen_to = shape.End(q0 + first);

  CopyTile<kInEights, kQueries, kDepth>(tensors.q.Head(head) + q0 * d, rows,
                                        depth, depth, shared.query);
  CopyTile<kInEights, kKeys, kDepth>(k + begin * d, keys_from(begin), depth,
                                     depth, shared.key[0]);
  EndCopies();
  Fragments<S, Extent, kParts> own;
  ScoreChange change{};
  if constexpr (kChanges) {
    change = ScoreChange::Of(tensors.options, head);
    if (tensors.options.sinks.data && blockIdx.z == 0)
      own.AddSink(ToFloat(*tensors.options.sinks.Head(head)));
  }

  int now = 0;     // index of the current one of the two tiles of keys
  int summed = 0;  // number of tiles since the sums were kept
  for (int64_t k0 = begin; k0 < end; k0 += kKeys, now ^= 1) {
    const int keys = keys_from(k0);
    WaitForCopies<0>();
    __syncthreads();  // The keys have arrived; values and bias can be replaced.
    CopyTile<kInEights, kKeys, kColumns>(v + k0 * e, keys, columns, width,
                                         shared.value);
    EndCopies();
    if (k0 + kKeys < end)
      CopyTile<kInEights, kKeys, kDepth>(k + (k0 + kKeys) * d,
                                         keys_from(k0 + kKeys), depth, depth,
                                         shared.key[now ^ 1]);
    EndCopies();
    if (bias) {
      for (int t = static_cast<int>(threadIdx.x); t < kQueries + kKeys - 1;
           t += kThreads) {
        const int64_t at = k0 - q0 + n_q - 1 + t - (kQueries - 1);
        shared.bias[t] =
            at >= 0 && at < n_q + n_k - 1 ? ToFloat(bias[at]) : 0.0f;
      }
      __syncthreads();
    }
    own.Score(shared.query, first, shared.key[now]);
    if constexpr (kChanges) {
      const int64_t offset = k0 - q0 - first - shape.first;
      own.Adjust([&](int row, int key, float score) {
        score = change.Capped(score * tensors.scale);
        if (bias) score += shared.bias[key - first - row + kQueries - 1];
        return change.Sloped(score, offset + key - row);
      });
    } else if (bias) {
      own.Adjust([&](int row, int key, float score) {
        return fmaf(score, tensors.scale,
                    shared.bias[key - first - row + kQueries - 1]);
      });
    }
    if (k0 < seen_from || k0 + kKeys > seen_to) {
      const SeenInTile sees(shape, q0 + first, k0, keys, kKeys);
      own.Adjust([=](int row, int key, float score) {
        return sees(row, key) ? score : -std::numeric_limits<float>::infinity();
      });
    }
    own.Weigh(unit);
    WaitForCopies<1>();
    __syncthreads();  // The values have arrived.
    own.AddValues(shared.value);
    if (++summed == kTilesInARow) {
      own.Keep(unit, shared.kept);
      summed = 0;
    }
  }
  WaitForCopies<0>();  // Without keys, the loop has not waited.
  own.AddKept(unit, shared.kept);
  if (gridDim.z > 1) {
    WritePartials(own, rows - first, c0, columns,
                  (blockIdx.z * heads + head) * plan.queries + q0 + first -
                      plan.first_query,
                  tensors.partials);
    return;
  }
  WriteQuotients(own, rows - first, columns, e, tensors.out_in_twos,
                 tensors.out.Head(head) + (q0 + first) * e + c0);
  if (tensors.options.lse.data && c0 == 0) {
    S* const to = tensors.options.lse.Head(head) + q0 + first;
    own.ForQueries(rows - first, [=](int row, float top, float sum) {
      Store(LogOfSum(top, unit, sum, kRaised<S>), &to[row]);
    });
  }
}

// Number of multiprocessors of an H100 and an H200. Devices with another number
// are filled less evenly.
constexpr int64_t kMultiprocessors = kEmulated ? 3 : 132;

enum class Form { kWide, kNarrow, kDeep };

// Calls f.operator()<Extent>() with the extents of a form (wide or narrow).
template <typename Function>
auto WithExtents(Form form, Function&& f) {
  switch (form) {
    case Form::kWide:
      return f.template operator()<Wide>();
    case Form::kNarrow:
      return f.template operator()<Narrow>();
    case Form::kDeep:
      break;
  }
  return f.template operator()<Deep>();
}

// Number of tiles of a block from which on splitting its keys costs little in
// comparison.
constexpr int64_t kManyTiles = kEmulated ? 4 : 64;

// Counts the blocks that a plan has in a form before keys are split.
int64_t BlocksOf(const SoftmaxShape& shape, int64_t queries, Form form) {
  return WithExtents(form, [&]<typename Extent>() {
    return shape.heads * PiecesOf(queries, Extent::kQueries) *
           PiecesOf(shape.e, Extent::kColumns);
  });
}

// Selects the wide form if its blocks nearly fill the device, or a third of it
// if there are many keys to split. The narrow form has twice as many blocks.
Form FormOf(const SoftmaxShape& shape, const FragmentsPlan& plan) {
  if (shape.d > Wide::kDepth || shape.e > Wide::kColumns) return Form::kDeep;
  const int64_t room = kMultiprocessors * Wide::kBlocks;
  const int64_t blocks = BlocksOf(shape, plan.queries, Form::kWide);
  const bool many = PiecesOf(shape.MostKeys(kKeys), kKeys) >= 2 * kManyTiles;
  const bool fill = 8 * blocks >= 7 * room || (many && 3 * blocks >= room);
  return plan.parts == 2 && fill ? Form::kWide : Form::kNarrow;
}

// Returns the number of blocks that share the keys of a block of queries. A
// multiprocessor with one block is nearly as fast as with several. Keys are
// therefore split into parts of at least two tiles if there are fewer blocks
// than multiprocessors, and only into parts of many tiles if there are fewer
// blocks than fit on the device.
int64_t SplitsOf(const SoftmaxShape& shape, const FragmentsPlan& plan) {
  const Form form = FormOf(shape, plan);
  const int64_t blocks = BlocksOf(shape, plan.queries, form);
  int64_t room = 0;  // number of blocks that fit on the device
  WithExtents(form, [&]<typename Extent>() {
    room = kMultiprocessors * Extent::kBlocks;
  });
  const int64_t tiles = PiecesOf(shape.MostKeys(kKeys), kKeys);
  const int64_t of_many = std::min(room / blocks, tiles / kManyTiles);
  const int64_t of_few =
      blocks < kMultiprocessors * 7 / 8
          ? std::min(2 * kMultiprocessors / blocks, tiles / 2)
          : 1;
  return std::max({int64_t{1}, of_many, of_few});
}

// Plans a kernel for queries that all see enough keys for this number of parts.
FragmentsPlan PlanOf(const SoftmaxShape& shape, int64_t first_query,
                     int64_t queries, int parts) {
  FragmentsPlan plan = {first_query, queries, parts, 1};
  plan.splits = SplitsOf(shape, plan);
  return plan;
}

// Plans the kernels of a problem, which run one after another.
std::vector<FragmentsPlan> PlansOf(Scalar scalar, const SoftmaxShape& shape) {
  if (scalar != Scalar::kBFloat16) return {PlanOf(shape, 0, shape.n_q, 2)};
  // The first queries of a causal problem see few keys, however large n_k is.
  // With a window, the last ones may see few, too.
  const auto sees_few = [&](int64_t i) {
    return shape.End(i) - shape.Begin(i) < kKeysForTwoParts;
  };
  int64_t with_three = sees_few(shape.n_q - 1) ? shape.n_q : 0;
  while (with_three < shape.n_q && sees_few(with_three))
    with_three = std::min(with_three + Narrow::kQueries, shape.n_q);
  std::vector<FragmentsPlan> plans;
  if (with_three > 0) {
    SoftmaxShape first = shape;
    first.n_k = shape.End(with_three - 1);
    plans.push_back(PlanOf(first, 0, with_three, 3));
  }
  if (with_three < shape.n_q)
    plans.push_back(PlanOf(shape, with_three, shape.n_q - with_three, 2));
  return plans;
}

template <typename Extent, int kParts, bool kInEights, bool kChanges,
          typename S>
void Launch(const Tensors<S>& tensors) {
  using Shared = FragmentsShared<S, Extent>;
  const SoftmaxShape& shape = tensors.shape;
  SUBQUAD_LAUNCH(
      (AttendByFragments<S, Extent, kParts, kInEights, kChanges>),
      Grid(PiecesOf(tensors.plan.queries, Extent::kQueries) * shape.heads,
           PiecesOf(shape.e, Extent::kColumns), tensors.plan.splits),
      kThreads, sizeof(Shared), tensors);
}

template <typename Extent, int kParts, bool kChanges, typename S>
void LaunchChanging(const Tensors<S>& tensors, bool in_eights) {
  if (in_eights)
    Launch<Extent, kParts, true, kChanges>(tensors);
  else
    Launch<Extent, kParts, false, kChanges>(tensors);
}

template <typename Extent, int kParts, typename S>
void LaunchOfParts(const Tensors<S>& tensors, bool in_eights) {
  if (tensors.options.ChangeScores())
    LaunchChanging<Extent, kParts, true>(tensors, in_eights);
  else
    LaunchChanging<Extent, kParts, false>(tensors, in_eights);
}

template <typename S>
void LaunchPlan(const Tensors<S>& tensors, bool in_eights) {
  WithExtents(FormOf(tensors.shape, tensors.plan), [&]<typename Extent>() {
    constexpr bool kHasThree =
        ScalarOf<S>() == Scalar::kBFloat16 && !std::is_same_v<Extent, Wide>;
    if constexpr (kHasThree) {
      if (tensors.plan.parts == 3)
        return LaunchOfParts<Extent, 3>(tensors, in_eights);
    }
    LaunchOfParts<Extent, 2>(tensors, in_eights);
  });
}

}  // namespace

template <typename S>
SoftmaxFragments<S>::SoftmaxFragments(Layout& layout, const SoftmaxShape& shape)
    : shape_(shape), plans_(PlansOf(ScalarOf<S>(), shape)) {
  int64_t rows = 0;
  for (const FragmentsPlan& plan : plans_)
    if (plan.splits > 1)
      rows = std::max(rows, plan.splits * shape.heads * plan.queries);
  partials_ = PartialsBuffer(layout, rows, shape.e);
}

template <typename S>
void SoftmaxFragments<S>::Run(float scale, HeadArray<const S> q,
                              HeadArray<const S> k, HeadArray<const S> v,
                              HeadArray<const S> bias, HeadArray<S> out,
                              const SoftmaxOptions<S, S>& options) const {
  // Products that nothing is added to are scaled only in the exponential.
  const float unit =
      bias.data || options.ChangeScores()
          ? kLog2E
          : fmaxf(scale * kLog2E, std::numeric_limits<float>::min());
  const bool in_eights = AllAtMultiplesOf(8, q, shape_.d) &&
                         AllAtMultiplesOf(8, k, shape_.d) &&
                         AllAtMultiplesOf(8, v, shape_.e);
  SoftmaxPartials partials = partials_.Get();
  partials.raised = kRaised<S>;
  for (const FragmentsPlan& plan : plans_) {
    LaunchPlan<S>({shape_, scale, unit, q, k, v, bias, out, options,
                   AllAtMultiplesOf(2, out, shape_.e), plan, partials},
                  in_eights);
    if (plan.splits == 1) continue;
    HeadArray<S> planned_out = out, planned_lse = options.lse;
    planned_out.data += plan.first_query * shape_.e;
    if (planned_lse.data) planned_lse.data += plan.first_query;
    MergePartials(partials, plan.splits, shape_.heads, plan.queries, unit,
                  planned_out, planned_lse);
  }
}

template <typename S>
double SoftmaxFragments<S>::Flops(const SoftmaxShape& shape) {
  double flops = 0;
  for (const FragmentsPlan& plan : PlansOf(ScalarOf<S>(), shape)) {
    const auto [queries, columns] =
        WithExtents(FormOf(shape, plan), [&]<typename Extent>() {
          return std::pair(int64_t{Extent::kQueries},
                           int64_t{Extent::kColumns});
        });
    flops += 2 * static_cast<double>(shape.heads) *
             PairsInTiles(shape, queries, plan.first_query, plan.queries) *
             static_cast<double>(shape.d * PiecesOf(shape.e, columns) +
                                 shape.e * plan.parts);
  }
  return flops;
}

template class SoftmaxFragments<__nv_bfloat16>;
template class SoftmaxFragments<__half>;

}  // namespace subquad::device
