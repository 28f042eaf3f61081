// Exact softmax attention with the scores in registers only (Milakov and
// Gimelshein 2018; FlashAttention, Dao et al. 2022), as a part of operators on
// a device. Needs no workspace.
#pragma once

#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

struct SoftmaxShape {
  int64_t heads;
  int64_t n_q, n_k;
  int64_t d;            // columns of a query and a key
  int64_t e;            // columns of a value
  bool causal = false;  // query i sees keys j <= i only
};

// out[h][i] = softmax_j( scale q[h][i].k[h][j] + bias[h](j - i) ) v[h]
//
//   q [n_q, d], k [n_k, d], v [n_k, e], out [n_q, e], row-major and without
//   gaps; heads are as far apart as the HeadArray says (0: shared by all)
//   bias [n_q+n_k-1], where bias.data is not null: entry t belongs to j - i =
//   t - (n_q-1); -inf hides the key
//
// Everything is computed in float32 and rounded to Out once. A query that sees
// no key gets NaN (0/0).
//
// A block takes 64 queries and up to 128 columns of v, over all keys that these
// queries see: with e > 128 the scores are computed once more for every further
// 128 columns. Keys are not split among blocks, so that heads * n_q / 64 blocks
// have to fill the device: few queries over many keys do not.
//
// kSoftmaxTilesBoundFactor bounds the error.
//
// Instantiated are <float, float, float, float>, and for S of two bytes
// <S, S, S, S>, <S, S, S, float>, <float, float, S, S>, <float, float, S,
// float> and <S, float, float, S>.
template <typename Q, typename K, typename V, typename Out>
void SoftmaxTiles(const SoftmaxShape& shape, float scale, HeadArray<const Q> q,
                  HeadArray<const K> k, HeadArray<const V> v,
                  HeadArray<const V> bias, HeadArray<Out> out);

// Multiplies the bound of the plain program (reference/softmax/softmax_rows.h):
// each sum is rescaled once per tile of 64 keys, which is a rounding and at
// most two of the exponential beside the 64 of adding the keys. The exponent's
// own error is in the plain bound, however many steps it is taken in.
inline constexpr double kSoftmaxTilesBoundFactor = 1 + 3.0 / 64;

// Says whether rows of `width` numbers all begin at a multiple of `count`
// numbers.
template <typename T>
bool AllAtMultiplesOf(int count, HeadArray<T> rows, int64_t width) {
  return width % count == 0 && rows.head_stride % count == 0 &&
         reinterpret_cast<uintptr_t>(rows.data) % (count * sizeof(T)) == 0;
}

// Counts the pairs of a query and a key of a head that are computed for `count`
// queries from `first` on, where blocks take `queries` queries each and all
// keys that one of them sees.
double PairsInTiles(const SoftmaxShape& shape, int64_t queries, int64_t first,
                    int64_t count);

// Counts the products and sums of the tiles that are computed.
double SoftmaxTilesFlops(const SoftmaxShape& shape);

}  // namespace subquad::device
