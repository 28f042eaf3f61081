// relative_logits_attention on the GPU: s_ij = scale q_i.k_j + r_i.table[:, a]
// for the distances a = i + query_offset - j in [0, E), out = softmax(s) v
//
//   tiled  64 queries against tiles of 64 keys, scores in registers
//          (softmax_block.h). A tile of the band adds the product of its 64
//          rows of r with the 127 columns of the table that its pairs can have:
//          both are in shared memory, 16 of the p at a time, and the shift is
//          where a thread reads the table. The only workspace is the number
//          of keys of each head.
//
// Logits are added up separately from the score, and the queries are scaled:
// that makes fewer roundings than the reference's bound allows for both.
#include <algorithm>
#include <vector>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/softmax/softmax_block.h"
#include "cuda/softmax/softmax_tiles.h"
#include "reference/contract/seen_keys.h"
#include "reference/contract/softmax_scale.h"

namespace subquad::device {
namespace {

constexpr int kRanks = 16;  // ranks in shared memory at a time
constexpr int kDistances = 2 * kSoftmaxQueries;  // distances of a tile, and one
                                                 // more

struct LogitsShape {
  explicit LogitsShape(const Problem& problem)
      : heads(problem.heads),
        n_q(problem.Dim("n_q")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        p(problem.Dim("p")),
        band(problem.Dim("E")),
        offset(SeenKeys(problem).first()),
        causal(problem.params.Flag("causal")) {}

  int64_t columns() const { return e <= 64 ? 64 : 128; }

  int64_t heads, n_q, d, e, p, band, offset;
  bool causal;
};

template <typename S>
struct LogitsTensors {
  LogitsShape shape;
  float scale;
  const int* keys;  // of each head, without padding
  HeadArray<const S> q, k, v, r, table;
  HeadArray<S> out;
  bool q_in_fours, k_in_fours, v_in_fours, out_in_fours;
};

struct LogitsShared {
  SoftmaxShared tile;
  float r[kRanks][kSoftmaxQueries + 4];
  float table[kRanks][kDistances + 4];  // for distances `first` + 0 .. 127
};

// Adds the logits of the tile's pairs to the scores. `first` is the distance
// between its first query and key 63.
template <typename S>
__device__ void AddLogits(const S* r, const S* table, int64_t p, int64_t band,
                          int64_t first, int rows, LogitsShared& shared,
                          float (&score)[4][8]) {
  const int thread = static_cast<int>(threadIdx.x);
  const int row = SoftmaxRow();
  float logit[4][8] = {};
  for (int64_t x0 = 0; x0 < p; x0 += kRanks) {
    const int ranks = static_cast<int>(min(int64_t{kRanks}, p - x0));
    __syncthreads();  // all threads have read the old content
    for (int at = thread; at < ranks * kSoftmaxQueries; at += kSoftmaxThreads) {
      const int i = at / ranks, x = at % ranks;
      shared.r[x][i] = i < rows ? ToFloat(r[i * p + x0 + x]) : 0.0f;
    }
    for (int x = 0; x < ranks; ++x) {
      const int64_t a = first + thread;
      shared.table[x][thread] =
          a >= 0 && a < band ? ToFloat(table[(x0 + x) * band + a]) : 0.0f;
    }
    __syncthreads();
    for (int x = 0; x < ranks; ++x) {
      float own[4];
      ReadFour(&shared.r[x][row], own);
#pragma unroll
      for (int group = 0; group < 8; group += 4) {
        // Query row + r and key c + group are r - c further apart than the
        // first ones.
        const float* at =
            &shared.table[x][row - SoftmaxColumn(group) + kSoftmaxKeys - 1];
#pragma unroll
        for (int c = 0; c < 4; ++c)
#pragma unroll
          for (int i = 0; i < 4; ++i) logit[i][group + c] += own[i] * at[i - c];
      }
    }
  }
#pragma unroll
  for (int i = 0; i < 4; ++i)
#pragma unroll
    for (int c = 0; c < 8; ++c) score[i][c] += logit[i][c];
}

template <int kColumns, typename S>
__global__ void __launch_bounds__(kSoftmaxThreads, kColumns == 64 ? 3 : 2)
    AttendWithLogits(const LogitsTensors<S> tensors) {
  SUBQUAD_SHARED(LogitsShared, shared);
  const LogitsShape& shape = tensors.shape;
  const int64_t d = shape.d, e = shape.e;
  const bool causal = shape.causal;
  const int64_t blocks = (shape.n_q + kSoftmaxQueries - 1) / kSoftmaxQueries;
  const int64_t head = blockIdx.x / blocks;
  // Starts with the blocks that see most keys.
  const int64_t q0 = (blocks - 1 - blockIdx.x % blocks) * kSoftmaxQueries;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  const S* q = tensors.q.data + head * tensors.q.head_stride + q0 * d;
  const S* k = tensors.k.data + head * tensors.k.head_stride;
  const S* v = tensors.v.data + head * tensors.v.head_stride + c0;
  const S* r = tensors.r.data + head * tensors.r.head_stride + q0 * shape.p;
  const S* table = tensors.table.data + head * tensors.table.head_stride;
  S* out = tensors.out.data + head * tensors.out.head_stride + q0 * e + c0;
  const int rows =
      static_cast<int>(min(int64_t{kSoftmaxQueries}, shape.n_q - q0));
  const int columns = static_cast<int>(min(int64_t{kColumns}, e - c0));
  const int64_t place = q0 + shape.offset;  // position of the first query
  const int64_t own = tensors.keys[head];
  const int64_t visible = causal ? min(own, place + rows) : own;

  SoftmaxState<kColumns> state;
  for (int64_t k0 = 0; k0 < visible; k0 += kSoftmaxKeys) {
    const int keys = static_cast<int>(min(int64_t{kSoftmaxKeys}, visible - k0));
    float score[4][8] = {};
    for (int64_t a0 = 0; a0 < d; a0 += kSoftmaxDepth) {
      const int depth = static_cast<int>(min(int64_t{kSoftmaxDepth}, d - a0));
      __syncthreads();  // all threads have read the slab and the values
      if (k0 == 0 || d > kSoftmaxDepth)
        LoadTransposed([=](int i) { return q + i * d + a0; }, rows, depth,
                       tensors.q_in_fours, tensors.scale, shared.tile.query);
      LoadTransposed([=](int j) { return k + (k0 + j) * d + a0; }, keys, depth,
                     tensors.k_in_fours, 1.0f, shared.tile.key);
      __syncthreads();
      AddProducts(shared.tile.query, shared.tile.key, depth, score);
    }
    const int64_t first = place - k0 - (kSoftmaxKeys - 1);
    if (first < shape.band && first + kDistances > 0)
      AddLogits(r, table, shape.p, shape.band, first, rows, shared, score);
    if (keys < kSoftmaxKeys || (causal && k0 + kSoftmaxKeys > place + 1))
      Hide([=](int i,
               int j) { return j >= keys || (causal && k0 + j > place + i); },
           score);
    state.Weigh(score, shared.tile);
    state.AddTile([=](int j) { return v + (k0 + j) * e; }, keys, columns,
                  tensors.v_in_fours, shared.tile);
  }
  state.End([=](int i) { return out + i * e; }, rows, columns,
            tensors.out_in_fours);
}

template <typename S>
class Tiled : public DevicePrepared {
 public:
  Tiled(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(problem),
        scale_(ScoreScale<float>(problem)),
        seen_(problem) {
    std::vector<int> keys;
    for (int64_t head = 0; head < shape_.heads; ++head)
      keys.push_back(static_cast<int>(seen_.Of(head)));
    keys_ = DeviceBuffer<int>(layout, shape_.heads, DeviceUse::kTable);
    if (!layout.counting()) keys_.Upload(keys.data());
  }

  void Launch() override {
    const auto q = In<S>("q"), k = In<S>("k"), v = In<S>("v");
    const auto out = Out<S>("out");
    const LogitsTensors<S> tensors = {shape_,
                                      scale_,
                                      keys_.data(),
                                      q,
                                      k,
                                      v,
                                      In<S>("r"),
                                      In<S>("table"),
                                      out,
                                      InFours(q, shape_.d),
                                      InFours(k, shape_.d),
                                      InFours(v, shape_.e),
                                      InFours(out, shape_.e)};
    const dim3 grid = Grid(PiecesOf(shape_.n_q, kSoftmaxQueries) * shape_.heads,
                           PiecesOf(shape_.e, shape_.columns()));
    if (shape_.columns() == 64)
      SUBQUAD_LAUNCH((AttendWithLogits<64, S>), grid, kSoftmaxThreads,
                     sizeof(LogitsShared), tensors);
    else
      SUBQUAD_LAUNCH((AttendWithLogits<128, S>), grid, kSoftmaxThreads,
                     sizeof(LogitsShared), tensors);
  }

  // Counts the logits of whole tiles, once for each tile of columns, like the
  // scores.
  double Flops() const override {
    const auto rounds =
        static_cast<double>(PiecesOf(shape_.e, shape_.columns()));
    double flops = 0;
    for (int64_t head = 0; head < shape_.heads; ++head)
      for (int64_t first = 0; first < shape_.n_q; first += kSoftmaxQueries) {
        const int64_t end = std::min(first + kSoftmaxQueries, shape_.n_q);
        const int64_t place = first + shape_.offset;
        const int64_t visible = seen_.Before(head, end);
        const int64_t begin = std::max<int64_t>(0, place - shape_.band + 1) /
                              kSoftmaxKeys * kSoftmaxKeys;
        const int64_t in_band = std::max<int64_t>(
            0, std::min(visible, place + kSoftmaxQueries) - begin);
        flops += 2 * static_cast<double>(end - first) *
                 (static_cast<double>(visible) *
                      (static_cast<double>(shape_.d) * rounds +
                       static_cast<double>(shape_.e)) +
                  static_cast<double>(in_band * shape_.p) * rounds);
      }
    return flops;
  }

 private:
  const LogitsShape shape_;
  const float scale_;
  const SeenKeys seen_;
  DeviceBuffer<int> keys_;
};

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> RelativeLogitsAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "relative_logits_attention",
      {{.id = "tiled",
        .what = "online softmax over tiles of keys, logits made in the tile",
        .memory = {"O(heads)", "1"},
        .sums = DirectSums,
        .takes = {"key_lengths", "query_offset"},
        .bound_factor = kSoftmaxTilesBoundFactor,
        .prepare = PrepareOnDevice<Tiled>()}});
}

}  // namespace subquad
