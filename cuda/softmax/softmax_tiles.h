// Exact softmax attention with the scores in registers only (Milakov and
// Gimelshein 2018; FlashAttention, Dao et al. 2022), for use in operators.
// Needs no workspace.
#pragma once

#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

// More keys than any sequence has, but few enough to be added to a position.
inline constexpr int64_t kAllKeys = INT64_MAX / 4;

struct SoftmaxShape {
  int64_t heads;
  int64_t n_q, n_k;
  int64_t d;  // columns of a query and a key
  int64_t e;  // columns of a value
  // Query i stands at position first + i and sees the keys from position -
  // behind to position + ahead. With a causal mask, ahead is zero.
  int64_t ahead = kAllKeys, behind = kAllKeys, first = 0;

  static int64_t AheadOf(bool causal) { return causal ? 0 : kAllKeys; }

  // Returns the first key that query i sees, and the one after the last.
  constexpr int64_t Begin(int64_t i) const {
    return Within(first + i - behind);
  }
  constexpr int64_t End(int64_t i) const {
    return Within(first + i + ahead + 1);
  }
  // Returns the largest number of keys that any of `queries` neighbouring
  // queries see.
  constexpr int64_t MostKeys(int64_t queries) const {
    return Within(behind + ahead + queries);
  }

 private:
  constexpr int64_t Within(int64_t key) const {
    return key < 0 ? 0 : key < n_k ? key : n_k;
  }
};

// The keys of a tile that each of a few neighbouring queries sees.
class SeenInTile {
 public:
  // For a tile of `keys` keys from k0 on, and at most `most` queries from q0
  // on; a tile has at most `most` keys, too.
  __device__ SeenInTile(const SoftmaxShape& shape, int64_t q0, int64_t k0,
                        int keys, int most)
      : keys_(keys) {
    const int64_t position = shape.first + q0 - k0;
    const auto limited = [=](int64_t key) {
      return static_cast<int>(max(min(key, int64_t{most}), int64_t{-most}));
    };
    from_ = limited(position - shape.behind);
    to_ = limited(position + shape.ahead);
  }

  __device__ bool operator()(int query, int key) const {
    return key < keys_ && key >= from_ + query && key <= to_ + query;
  }

 private:
  int keys_, from_, to_;  // the first and the last key of the first query
};

// What softmax attention computes beyond a bias by offset. S is the type of the
// inputs.
template <typename S, typename Out>
struct SoftmaxOptions {
  float softcap =
      0;  // scores x become softcap tanh(x / softcap); 0: they don't
  // One number for each head, or data null: a slope adds -slope |j - position|
  // to the scores, after the softcap; exp(sink) is added to the sum of the
  // weights.
  HeadArray<const S> slopes = {}, sinks = {};
  // [n_q], or data null: the logarithm of the sum of the weights; -inf for a
  // query that sees no key if there is no sink.
  HeadArray<Out> lse = {};

  // Tells whether the kernels have to change scores, or to start from a sink.
  bool ChangeScores() const { return softcap > 0 || slopes.data || sinks.data; }
};

// The change of the scores of one head.
struct ScoreChange {
  float softcap, slope;

  template <typename S, typename Out>
  __device__ static ScoreChange Of(const SoftmaxOptions<S, Out>& options,
                                   int64_t head) {
    return {options.softcap,
            options.slopes.data ? ToFloat(*options.slopes.Head(head)) : 0.0f};
  }

  __device__ float Capped(float score) const {
    return softcap > 0 ? softcap * tanhf(score / softcap) : score;
  }
  // `offset` is that of the key from the query's position.
  __device__ float Sloped(float score, int64_t offset) const {
    return fmaf(-slope, fabsf(static_cast<float>(offset)), score);
  }
};

// out[h][i] = softmax_j( scale q[h][i].k[h][j] + bias[h](j - i) ) v[h]
//
//   q [n_q, d], k [n_k, d], v [n_k, e], out [n_q, e], row-major and
//   contiguous; heads share them as HeadArray says
//   bias [n_q+n_k-1], or bias.data null: entry t belongs to j - i =
//   t - (n_q-1); -inf masks the key
//
// Everything is computed in float32 and rounded to Out once. A query that sees
// no key gets zeros.
//
// A block takes 64 queries and up to 128 columns of v, and loops over the keys
// that these queries see; with e > 128, the scores are recomputed for every
// further 128 columns. Keys are not split among blocks, so that few queries
// over many keys (heads * n_q / 64 blocks) do not fill the device.
//
// Error: see kSoftmaxTilesBoundFactor.
//
// Instantiated for <float, float, float, float>, and for 16-bit types S for
// <S, S, S, S>, <S, S, S, float>, <float, float, S, S>, <float, float, S,
// float> and <S, float, float, S>.
template <typename Q, typename K, typename V, typename Out>
void SoftmaxTiles(const SoftmaxShape& shape, float scale, HeadArray<const Q> q,
                  HeadArray<const K> k, HeadArray<const V> v,
                  HeadArray<const V> bias, HeadArray<Out> out,
                  const SoftmaxOptions<V, Out>& options = {});

// Factor for the plain program's bound (reference/softmax/softmax_rows.h): each
// sum is rescaled once per tile of 64 keys, which adds one rounding and at most
// two of the exponential to the 64 of adding the keys. The plain bound already
// includes the error of the exponent, in whatever steps it is computed.
inline constexpr double kSoftmaxTilesBoundFactor = 1 + 3.0 / 64;

// Tells whether all rows of `width` elements begin at a multiple of `count`
// elements.
template <typename T>
bool AllAtMultiplesOf(int count, HeadArray<T> rows, int64_t width) {
  return width % count == 0 && rows.head_stride % count == 0 &&
         reinterpret_cast<uintptr_t>(rows.data) % (count * sizeof(T)) == 0;
}

// Counts the pairs of a query and a key that are computed in one head for
// `count` queries from `first` on. A block takes `queries` queries and all keys
// that one of them sees.
double PairsInTiles(const SoftmaxShape& shape, int64_t queries, int64_t first,
                    int64_t count);

// Counts the multiplications and additions of the tiles that are computed.
double SoftmaxTilesFlops(const SoftmaxShape& shape);

}  // namespace subquad::device
