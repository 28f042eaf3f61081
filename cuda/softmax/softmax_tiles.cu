#include <algorithm>

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
  bool q_in_fours, k_in_fours, v_in_fours, out_in_fours;
};

// Three blocks of the wide kind, four of the other, fill a multiprocessor.
template <int kColumns, typename Q, typename K, typename V, typename Out>
__global__ void __launch_bounds__(kSoftmaxThreads, kColumns == 64 ? 4 : 3)
    Attend(const Tensors<Q, K, V, Out> tensors) {
  SUBQUAD_SHARED(SoftmaxShared, shared);
  const auto& [heads, n_q, n_k, d, e, causal] = tensors.shape;
  const int64_t blocks = (n_q + kSoftmaxQueries - 1) / kSoftmaxQueries;
  const int64_t head = blockIdx.x / blocks;
  // Blocks that see most keys begin first.
  const int64_t q0 = (blocks - 1 - blockIdx.x % blocks) * kSoftmaxQueries;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  const Q* q = tensors.q.data + head * tensors.q.head_stride + q0 * d;
  const K* k = tensors.k.data + head * tensors.k.head_stride;
  const V* v = tensors.v.data + head * tensors.v.head_stride + c0;
  Out* out = tensors.out.data + head * tensors.out.head_stride + q0 * e + c0;
  const int rows = static_cast<int>(min(int64_t{kSoftmaxQueries}, n_q - q0));
  const int columns = static_cast<int>(min(int64_t{kColumns}, e - c0));
  const int64_t visible = causal ? min(n_k, q0 + rows) : n_k;

  SoftmaxState<kColumns> state;
  for (int64_t k0 = 0; k0 < visible; k0 += kSoftmaxKeys) {
    const int keys = static_cast<int>(min(int64_t{kSoftmaxKeys}, visible - k0));
    float score[4][8] = {};
    for (int64_t a0 = 0; a0 < d; a0 += kSoftmaxDepth) {
      const int depth = static_cast<int>(min(int64_t{kSoftmaxDepth}, d - a0));
      __syncthreads();  // all have read the slab and the values
      if (k0 == 0 || d > kSoftmaxDepth)
        LoadTransposed([=](int r) { return q + r * d + a0; }, rows, depth,
                       tensors.q_in_fours, tensors.scale, shared.query);
      LoadTransposed([=](int r) { return k + (k0 + r) * d + a0; }, keys, depth,
                     tensors.k_in_fours, 1.0f, shared.key);
      if (tensors.bias.data && a0 == 0) {
        const int64_t t = k0 - q0 + n_q - 1 + threadIdx.x - 63;
        shared.bias[threadIdx.x] =
            t >= 0 && t < n_q + n_k - 1
                ? ToFloat(
                      tensors.bias.data[head * tensors.bias.head_stride + t])
                : 0.0f;
      }
      __syncthreads();
      AddProducts(shared.query, shared.key, depth, score);
    }
    if (tensors.bias.data) AddBias(shared, score);
    if (keys < kSoftmaxKeys || (causal && k0 + kSoftmaxKeys > q0 + 1))
      Hide([=](int r,
               int c) { return c >= keys || (causal && k0 + c > q0 + r); },
           score);
    state.Weigh(score, shared);
    state.AddTile([=](int r) { return v + (k0 + r) * e; }, keys, columns,
                  tensors.v_in_fours, shared);
  }
  state.End([=](int r) { return out + r * e; }, rows, columns,
            tensors.out_in_fours);
}

// Returns how many columns of v a block takes.
int64_t ColumnsOf(const SoftmaxShape& shape) {
  return shape.e <= 64 ? 64 : 128;
}

}  // namespace

template <typename Q, typename K, typename V, typename Out>
void SoftmaxTiles(const SoftmaxShape& shape, float scale, HeadArray<const Q> q,
                  HeadArray<const K> k, HeadArray<const V> v,
                  HeadArray<const V> bias, HeadArray<Out> out) {
  const Tensors<Q, K, V, Out> tensors = {shape,
                                         scale,
                                         q,
                                         k,
                                         v,
                                         bias,
                                         out,
                                         InFours(q, shape.d),
                                         InFours(k, shape.d),
                                         InFours(v, shape.e),
                                         InFours(out, shape.e)};
  const int64_t columns = ColumnsOf(shape);
  const dim3 grid = Grid(PiecesOf(shape.n_q, kSoftmaxQueries) * shape.heads,
                         PiecesOf(shape.e, columns));
  if (columns == 64)
    SUBQUAD_LAUNCH((Attend<64, Q, K, V, Out>), grid, kSoftmaxThreads,
                   sizeof(SoftmaxShared), tensors);
  else
    SUBQUAD_LAUNCH((Attend<128, Q, K, V, Out>), grid, kSoftmaxThreads,
                   sizeof(SoftmaxShared), tensors);
}

double PairsInTiles(const SoftmaxShape& shape, int64_t queries, int64_t first,
                    int64_t count) {
  double pairs = 0;
  for (int64_t begin = first; begin < first + count; begin += queries) {
    const int64_t end = std::min(begin + queries, first + count);
    pairs += static_cast<double>(end - begin) *
             static_cast<double>(shape.causal ? std::min(end, shape.n_k)
                                              : shape.n_k);
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
      HeadArray<const V>, HeadArray<const V>, HeadArray<Out>);
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
