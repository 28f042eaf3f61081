#include <limits>

#include "cuda/base/launch.h"
#include "cuda/softmax/softmax_fragments.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;
constexpr int kKeys = 64;  // of a tile
constexpr float kLowest = std::numeric_limits<float>::lowest();
constexpr float kLog2E = 1.44269504088896340736f;

template <typename S>
struct Tensors {
  SoftmaxShape shape;
  float scale;
  HeadArray<const S> q, k, v, bias;
  HeadArray<S> out;
  bool q_in_eights, k_in_eights, v_in_eights, out_in_twos;
};

// Of a kernel for rows of up to kDepth and up to kColumns numbers: a warp has
// kBands times 16 queries.
template <int kDepth, int kColumns>
struct Extents {
  static constexpr int kBands = kDepth + kColumns <= 128 ? 2 : 1;
  static constexpr int kQueries = kWarps * kBands * 16;
};

template <typename S, int kDepth, int kColumns>
struct alignas(16) FragmentsShared {
  static constexpr int kQueries = Extents<kDepth, kColumns>::kQueries;
  alignas(16) S query[kQueries * kDepth];
  alignas(16) S key[2][kKeys * kDepth];  // of this tile and of the next one
  alignas(16) S value[kKeys * kColumns];
  float bias[kQueries + kKeys];  // of key - query = 1 - kQueries .. kKeys - 1
};

// Where eight numbers of a row lie in a tile: in an order by row in which the
// same eight of eight rows are in different banks.
template <int kWidth>
__device__ inline int PlaceOf(int row, int eight) {
  return row * kWidth + (eight ^ (row & 7)) * 8;
}

// Copies, or begins to, the first `rows` of up to kRows rows of `width` numbers
// that follow each other at `stride`; zeros beyond. `in_eights`: each begins
// where 16 bytes may be copied, and so does the next one.
template <int kRows, int kWidth, typename S>
__device__ inline void CopyTile(const S* from, int rows, int width,
                                int64_t stride, bool in_eights, S* to) {
  constexpr int kEights = kWidth / 8;
  static_assert(kRows * kEights % kThreads == 0);
#pragma unroll
  for (int i = 0; i < kRows * kEights / kThreads; ++i) {
    const int at = i * kThreads + static_cast<int>(threadIdx.x);
    const int row = at / kEights, first = at % kEights * 8;
    const int count = row < rows ? width - first : 0;
    const S* const begin = count > 0 ? from + row * stride + first : from;
    S* const end = to + PlaceOf<kWidth>(row, at % kEights);
    if (in_eights) {
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

// What a warp keeps of its queries from tile to tile. A lane has the numbers
// (g, 2t), (g, 2t+1), (g+8, 2t), (g+8, 2t+1) of every 16 x 8 sums: two rows.
template <typename S, int kDepth, int kColumns, int kParts>
class Fragments {
 public:
  static constexpr int kBands = Extents<kDepth, kColumns>::kBands;

  // score_ = q.k of the warp's queries, from `row` of their tile on, and all
  // keys of theirs.
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

  // score = adjusted(query after the warp's first, key of the tile, q.k).
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

  // Scores into weights, 2^(unit (score - top)), and their sum before to the
  // same largest score. That one begins as the lowest finite number, so
  // that a tile without a single key leaves no inf - inf.
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
            score = PowerOfTwo(fmaf(score - top, unit, kRaised));
            sum += score;
          }
        sum_[band][half] = sum_[band][half] * factor_[band][half] + sum;
      }
  }

  // Brings what was summed before to the same largest score, and adds the
  // weights times the values of the tile. These are summed up by themselves:
  // long sums on tensor cores, where what is cut off always makes them smaller,
  // lose a share that grows with their length.
  __device__ void AddValues(const S* values) {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
    uint32_t weight[kKeys / 16][kParts][kBands][4];
#pragma unroll
    for (int step = 0; step < kKeys / 16; ++step)
#pragma unroll
      for (int band = 0; band < kBands; ++band)
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          float* const of = &score_[band][step * 2 + i / 2][i % 2 * 2];
          float first = of[0], second = of[1];
#pragma unroll
          for (int part = 0; part < kParts; ++part) {
            weight[step][part][band][i] = Pair<S>(first, second);
            const float2 taken = Numbers<S>(weight[step][part][band][i]);
            first -= taken.x;
            second -= taken.y;
          }
        }
#pragma unroll
    for (int eight = 0; eight < kColumns / 8; eight += 2) {
      float sum[kBands][2][4] = {};
#pragma unroll
      for (int step = 0; step < kKeys / 16; ++step) {
        uint32_t value[4];  // two factors of eight columns
        LoadMatrices<true>(values + PlaceOf<kColumns>(step * 16 + lane % 16,
                                                      eight + lane / 16),
                           value);
#pragma unroll
        for (int part = 0; part < kParts; ++part)
#pragma unroll
          for (int band = 0; band < kBands; ++band) {
            AddProduct<S>(weight[step][part][band], value[0], value[1],
                          sum[band][0]);
            AddProduct<S>(weight[step][part][band], value[2], value[3],
                          sum[band][1]);
          }
      }
#pragma unroll
      for (int band = 0; band < kBands; ++band)
#pragma unroll
        for (int x = 0; x < 2; ++x)
#pragma unroll
          for (int i = 0; i < 4; ++i)
            out_[band][eight + x][i] =
                fmaf(out_[band][eight + x][i], factor_[band][i / 2],
                     sum[band][x][i]);
    }
  }

  // The quotients of the queries before `rows` of the warp, to to(query).
  template <typename Row>
  __device__ void End(const Row& to, int rows, int columns,
                      bool in_twos) const {
    const int lane = static_cast<int>(threadIdx.x % kWarp);
#pragma unroll
    for (int band = 0; band < kBands; ++band)
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const float sum = SumOfLanes<4>(sum_[band][half]);
        const int row = band * 16 + lane / 4 + half * 8;
        if (row >= rows) continue;
#pragma unroll
        for (int eight = 0; eight < kColumns / 8; ++eight) {
          const int column = eight * 8 + lane % 4 * 2;
          const float first = out_[band][eight][half * 2] / sum;
          const float second = out_[band][eight][half * 2 + 1] / sum;
          S* const at = to(row) + column;
          if (column + 1 < columns && in_twos) {
            *reinterpret_cast<uint32_t*>(at) = Pair<S>(first, second);
          } else {
            if (column < columns) Store(first, at);
            if (column + 1 < columns) Store(second, at + 1);
          }
        }
      }
  }

 private:
  // Weights of up to 2^15 in place of 1, so that what is left of a small one
  // after its first part is not below the smallest float16.
  static constexpr float kRaised = kParts > 1 &&
                                           ScalarOf<S>() == Scalar::kFloat16
                                       ? 15.0f
                                       : 0.0f;

  float score_[kBands][kKeys / 8][4];  // then weights
  float out_[kBands][kColumns / 8][4] = {};
  float top_[kBands][2], sum_[kBands][2] = {};
  float factor_[kBands][2];  // of what was summed before

 public:
  __device__ Fragments() {
#pragma unroll
    for (int band = 0; band < kBands; ++band)
      top_[band][0] = top_[band][1] = kLowest;
  }
};

template <typename S, int kDepth, int kColumns, int kParts>
__global__ void __launch_bounds__(kThreads, 2)
    AttendByFragments(const Tensors<S> tensors) {
  using Shared = FragmentsShared<S, kDepth, kColumns>;
  constexpr int kQueries = Shared::kQueries;
  SUBQUAD_SHARED(Shared, shared);
  const auto& [heads, n_q, n_k, d, e, causal] = tensors.shape;
  const int64_t blocks = (n_q + kQueries - 1) / kQueries;
  const int64_t head = blockIdx.x / blocks;
  // Those that see most keys begin first.
  const int64_t q0 = (blocks - 1 - blockIdx.x % blocks) * kQueries;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  const S* k = tensors.k.data + head * tensors.k.head_stride;
  const S* v = tensors.v.data + head * tensors.v.head_stride + c0;
  const S* bias = tensors.bias.data
                      ? tensors.bias.data + head * tensors.bias.head_stride
                      : nullptr;
  const int rows = static_cast<int>(min(int64_t{kQueries}, n_q - q0));
  const int depth = static_cast<int>(d);
  const int columns = static_cast<int>(min(int64_t{kColumns}, e - c0));
  const int64_t visible = causal ? min(n_k, q0 + rows) : n_k;
  const auto keys_from = [=](int64_t k0) {
    return static_cast<int>(min(int64_t{kKeys}, visible - k0));
  };
  const int first = static_cast<int>(threadIdx.x / kWarp) * (kQueries / kWarps);

  CopyTile<kQueries, kDepth>(
      tensors.q.data + head * tensors.q.head_stride + q0 * d, rows, depth, d,
      tensors.q_in_eights, shared.query);
  CopyTile<kKeys, kDepth>(k, keys_from(0), depth, d, tensors.k_in_eights,
                          shared.key[0]);
  EndCopies();
  Fragments<S, kDepth, kColumns, kParts> own;

  // Without a bias, the products are not scaled before their exponentials.
  const float unit =
      bias ? kLog2E
           : fmaxf(tensors.scale * kLog2E, std::numeric_limits<float>::min());
  int now = 0;  // which of the two tiles of keys
  for (int64_t k0 = 0; k0 < visible; k0 += kKeys, now ^= 1) {
    const int keys = keys_from(k0);
    WaitForCopies<0>();
    __syncthreads();  // the keys are there, the values and the bias were used
    CopyTile<kKeys, kColumns>(v + k0 * e, keys, columns, e, tensors.v_in_eights,
                              shared.value);
    EndCopies();
    if (k0 + kKeys < visible)
      CopyTile<kKeys, kDepth>(k + (k0 + kKeys) * d, keys_from(k0 + kKeys),
                              depth, d, tensors.k_in_eights,
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
    if (bias)
      own.Adjust([&](int row, int key, float score) {
        return fmaf(score, tensors.scale,
                    shared.bias[key - first - row + kQueries - 1]);
      });
    if (keys < kKeys || (causal && k0 + kKeys > q0 + first + 1)) {
      const int64_t before = causal ? q0 + first - k0 : int64_t{kKeys};
      own.Adjust([=](int row, int key, float score) {
        return key >= keys || (causal && key > before + row)
                   ? -std::numeric_limits<float>::infinity()
                   : score;
      });
    }
    own.Weigh(unit);
    WaitForCopies<1>();
    __syncthreads();  // the values are there
    own.AddValues(shared.value);
  }
  S* out =
      tensors.out.data + head * tensors.out.head_stride + (q0 + first) * e + c0;
  own.End([=](int row) { return out + row * e; }, rows - first, columns,
          tensors.out_in_twos);
}

// Rows of `width` numbers that all begin, with the first number, at a multiple
// of `count` numbers.
template <typename T>
bool AllAtMultiplesOf(int count, HeadArray<T> rows, int64_t width) {
  return width % count == 0 && rows.head_stride % count == 0 &&
         reinterpret_cast<uintptr_t>(rows.data) % (count * sizeof(T)) == 0;
}

constexpr int PartsOf(Scalar scalar) {
  return scalar == Scalar::kBFloat16 ? 3 : 2;
}

template <int kDepth, int kColumns, typename S>
void Launch(const Tensors<S>& tensors) {
  using Shared = FragmentsShared<S, kDepth, kColumns>;
  const SoftmaxShape& shape = tensors.shape;
  SUBQUAD_LAUNCH(
      (AttendByFragments<S, kDepth, kColumns, PartsOf(ScalarOf<S>())>),
      Grid(PiecesOf(shape.n_q, Shared::kQueries) * shape.heads,
           PiecesOf(shape.e, kColumns)),
      kThreads, sizeof(Shared), tensors);
}

// Whether a problem takes the kernel of 128 queries.
bool IsNarrow(const SoftmaxShape& shape) {
  return shape.d <= 64 && shape.e <= 64;
}

}  // namespace

template <typename S>
void SoftmaxFragments(const SoftmaxShape& shape, float scale,
                      HeadArray<const S> q, HeadArray<const S> k,
                      HeadArray<const S> v, HeadArray<const S> bias,
                      HeadArray<S> out) {
  const Tensors<S> tensors = {shape,
                              scale,
                              q,
                              k,
                              v,
                              bias,
                              out,
                              AllAtMultiplesOf(8, q, shape.d),
                              AllAtMultiplesOf(8, k, shape.d),
                              AllAtMultiplesOf(8, v, shape.e),
                              AllAtMultiplesOf(2, out, shape.e)};
  if (IsNarrow(shape))
    Launch<64, 64>(tensors);
  else
    Launch<128, 128>(tensors);
}

double SoftmaxFragmentsFlops(Scalar scalar, const SoftmaxShape& shape) {
  const int64_t queries =
      IsNarrow(shape) ? Extents<64, 64>::kQueries : Extents<128, 128>::kQueries;
  const int64_t columns = IsNarrow(shape) ? 64 : 128;
  return 2 * static_cast<double>(shape.heads) * PairsInTiles(shape, queries) *
         static_cast<double>(shape.d * PiecesOf(shape.e, columns) +
                             shape.e * PartsOf(scalar));
}

#define SUBQUAD_SOFTMAX_FRAGMENTS(S)                                      \
  template void SoftmaxFragments<S>(                                      \
      const SoftmaxShape&, float, HeadArray<const S>, HeadArray<const S>, \
      HeadArray<const S>, HeadArray<const S>, HeadArray<S>);
SUBQUAD_SOFTMAX_FRAGMENTS(__nv_bfloat16)
SUBQUAD_SOFTMAX_FRAGMENTS(__half)
#undef SUBQUAD_SOFTMAX_FRAGMENTS

}  // namespace subquad::device
