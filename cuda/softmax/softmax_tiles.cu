#include <algorithm>
#include <type_traits>

#include "cuda/softmax/softmax_block.h"
#include "cuda/softmax/softmax_tiles.h"

namespace subquad::device {
namespace {

template <typename Q, typename K, typename V, typename Out>
struct Tensors {
  SoftmaxShape shape;
  float scale;
  HeadArray<const Q> q;
  HeadArray<const K> k;
  HeadArray<const V> v, bias;
  HeadArray<Out> out;
  SoftmaxOptions<V, Out> options;
  bool q_in_fours, k_in_fours, v_in_fours, out_in_fours;
};

// Three blocks of the wide kind, or four of the narrow kind, fill a
// multiprocessor. kChanges: SoftmaxOptions::ChangeScores.
template <int kColumns, bool kChanges, typename Q, typename K, typename V,
          typename Out>
__global__ void __launch_bounds__(kSoftmaxThreads, kColumns == 64 ? 4 : 3)
    Attend(const Tensors<Q, K, V, Out> tensors) {
  SUBQUAD_SHARED(SoftmaxShared, shared);
  const SoftmaxShape& shape = tensors.shape;
  const int64_t n_q = shape.n_q, n_k = shape.n_k, d = shape.d, e = shape.e;
  const int64_t blocks = (n_q + kSoftmaxQueries - 1) / kSoftmaxQueries;
  const int64_t head = blockIdx.x / blocks;
  // Blocks that see the most keys start first.
  const int64_t q0 = (blocks - 1 - blockIdx.x % blocks) * kSoftmaxQueries;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  const Q* q = tensors.q.Head(head) + q0 * d;
  const K* k = tensors.k.Head(head);
  const V* v = tensors.v.Head(head) + c0;
  const V* bias = tensors.bias.Head(head);
  Out* out = tensors.out.Head(head) + q0 * e + c0;
  const int rows = static_cast<int>(min(int64_t{kSoftmaxQueries}, n_q - q0));
  const int columns = static_cast<int>(min(int64_t{kColumns}, e - c0));
  const int64_t begin = shape.Begin(q0), end = shape.End(q0 + rows - 1);
  // All queries of the block see the keys between these.
  const int64_t seen_from = shape.Begin(q0 + rows - 1);
  const int64_t seen_to = shape.End(q0);

  SoftmaxState<kColumns> state;
  ScoreChange change{};
  if constexpr (kChanges) {
    change = ScoreChange::Of(tensors.options, head);
    if (tensors.options.sinks.data)
      state.AddSink(ToFloat(*tensors.options.sinks.Head(head)));
  }
  for (int64_t k0 = begin; k0 < end; k0 += kSoftmaxKeys) {
    const int keys = static_cast<int>(min(int64_t{kSoftmaxKeys}, end - k0));
    float score[4][8] = {};
    for (int64_t a0 = 0; a0 < d; a0 += kSoftmaxDepth) {
      const int depth = static_cast<int>(min(int64_t{kSoftmaxDepth}, d - a0));
      __syncthreads();  // All threads have read the slab and the values.
      if (k0 == begin || d > kSoftmaxDepth)
        LoadTransposed([=](int r) { return q + r * d + a0; }, rows, depth,
                       tensors.q_in_fours, tensors.scale, shared.query);
      LoadTransposed([=](int r) { return k + (k0 + r) * d + a0; }, keys, depth,
                     tensors.k_in_fours, 1.0f, shared.key);
      if (bias && a0 == 0) {
        const int64_t t = k0 - q0 + n_q - 1 + threadIdx.x - 63;
        shared.bias[threadIdx.x] =
            t >= 0 && t < n_q + n_k - 1 ? ToFloat(bias[t]) : 0.0f;
      }
      __syncthreads();
      AddProducts(shared.query, shared.key, depth, score);
    }
    if constexpr (kChanges)
      Adjust([=](int, int, float x) { return change.Capped(x); }, score);
    if (bias) AddBias(shared, score);
    if constexpr (kChanges) {
      const int64_t offset = k0 - q0 - shape.first;
      Adjust([=](int r, int c,
                 float x) { return change.Sloped(x, offset + c - r); },
             score);
    }
    if (k0 < seen_from || k0 + kSoftmaxKeys > seen_to) {
      const SeenInTile sees(shape, q0, k0, keys, kSoftmaxQueries);
      Hide([=](int r, int c) { return !sees(r, c); }, score);
    }
    state.Weigh(score, shared);
    state.AddTile([=](int r) { return v + (k0 + r) * e; }, keys, columns,
                  tensors.v_in_fours, shared);
  }
  state.End([=](int r) { return out + r * e; }, rows, columns,
            tensors.out_in_fours);
  if (tensors.options.lse.data && c0 == 0)
    state.WriteLogSums(rows, tensors.options.lse.Head(head) + q0);
}

// Number of columns of v that a block takes.
int64_t ColumnsOf(const SoftmaxShape& shape) {
  return shape.e <= 64 ? 64 : 128;
}

template <bool kChanges, typename Q, typename K, typename V, typename Out>
void Launch(const Tensors<Q, K, V, Out>& tensors, dim3 grid, int64_t columns) {
  if (columns == 64)
    SUBQUAD_LAUNCH((Attend<64, kChanges, Q, K, V, Out>), grid, kSoftmaxThreads,
                   sizeof(SoftmaxShared), tensors);
  else
    SUBQUAD_LAUNCH((Attend<128, kChanges, Q, K, V, Out>), grid, kSoftmaxThreads,
                   sizeof(SoftmaxShared), tensors);
}

}  // namespace

template <typename Q, typename K, typename V, typename Out>
void SoftmaxTiles(const SoftmaxShape& shape, float scale, HeadArray<const Q> q,
                  HeadArray<const K> k, HeadArray<const V> v,
                  HeadArray<const V> bias, HeadArray<Out> out,
                  const SoftmaxOptions<V, Out>& options) {
  const Tensors<Q, K, V, Out> tensors = {shape,
                                         scale,
                                         q,
                                         k,
                                         v,
                                         bias,
                                         out,
                                         options,
                                         InFours(q, shape.d),
                                         InFours(k, shape.d),
                                         InFours(v, shape.e),
                                         InFours(out, shape.e)};
  const int64_t columns = ColumnsOf(shape);
  const dim3 grid = Grid(PiecesOf(shape.n_q, kSoftmaxQueries) * shape.heads,
                         PiecesOf(shape.e, columns));
  // Only tensors as they are given, all of one type, have options.
  constexpr bool kMayChange = std::is_same_v<Q, V> && std::is_same_v<K, V>;
  if constexpr (kMayChange) {
    if (options.ChangeScores()) return Launch<true>(tensors, grid, columns);
  }
  Launch<false>(tensors, grid, columns);
}

double PairsInTiles(const SoftmaxShape& shape, int64_t queries, int64_t first,
                    int64_t count) {
  double pairs = 0;
  for (int64_t begin = first; begin < first + count; begin += queries) {
    const int64_t end = std::min(begin + queries, first + count);
    pairs += static_cast<double>(end - begin) *
             static_cast<double>(shape.End(end - 1) - shape.Begin(begin));
  }
  return pairs;
}

double SoftmaxTilesFlops(const SoftmaxShape& shape) {
  return 2 * static_cast<double>(shape.heads) *
         PairsInTiles(shape, kSoftmaxQueries, 0, shape.n_q) *
         static_cast<double>(shape.d * PiecesOf(shape.e, ColumnsOf(shape)) +
                             shape.e);
}

#define SUBQUAD_SOFTMAX_TILES(Q, K, V, Out)                               \
  template void SoftmaxTiles<Q, K, V, Out>(                               \
      const SoftmaxShape&, float, HeadArray<const Q>, HeadArray<const K>, \
      HeadArray<const V>, HeadArray<const V>, HeadArray<Out>,             \
      const SoftmaxOptions<V, Out>&);
#define SUBQUAD_SOFTMAX_TILES_OF(S)             \
  SUBQUAD_SOFTMAX_TILES(S, S, S, S)             \
  SUBQUAD_SOFTMAX_TILES(S, S, S, float)         \
  SUBQUAD_SOFTMAX_TILES(float, float, S, S)     \
  SUBQUAD_SOFTMAX_TILES(float, float, S, float) \
  SUBQUAD_SOFTMAX_TILES(S, float, float, S)
SUBQUAD_SOFTMAX_TILES(float, float, float, float)
SUBQUAD_SOFTMAX_TILES_OF(__nv_bfloat16)
SUBQUAD_SOFTMAX_TILES_OF(__half)
#undef SUBQUAD_SOFTMAX_TILES_OF
#undef SUBQUAD_SOFTMAX_TILES

}  // namespace subquad::device
