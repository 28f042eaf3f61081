// sparse_attention on the GPU: softmax over the keys that a pattern shows to a
// query
//
//   dense     two products by cuBLAS with all scores in memory, hidden scores
//             being left out of the softmax between them
//   gathered  a warp for each query: a lane scores a key, all of them then add
//             up the values. Works for all patterns, at the speed of matrix
//             times vector; a query that sees everything is one warp's work.
//   blocked   a block for up to 64 queries that see nearly the same keys, in
//             tiles of these keys (softmax_block.h), the mask applied to each
//             pair. Keys of queries that see many are split among blocks, and
//             their sums are combined by a second kernel.
#include <algorithm>
#include <string>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/softmax/dense_attention.h"
#include "cuda/softmax/softmax_block.h"
#include "cuda/softmax/sparse_mask.h"
#include "cuda/softmax/sparse_plan.h"
#include "reference/contract/softmax_scale.h"

namespace subquad::device {
namespace {

// Returns the shape of self-attention.
SoftmaxShape ShapeOf(const Problem& problem) {
  const int64_t n = problem.keys;
  return {problem.heads,
          n,
          n,
          problem.Dim("d"),
          problem.Dim("e"),
          SoftmaxShape::AheadOf(problem.params.Flag("causal"))};
}

// The tensors of a problem, for kernels.
template <typename S>
struct Tensors {
  SoftmaxShape shape;
  float scale;
  HeadArray<const S> q, k, v;
  HeadArray<S> out;
  bool d_in_fours, e_in_fours;
};

template <typename S>
class SparsePrepared : public DevicePrepared {
 public:
  SparsePrepared(const Problem& problem, const Arrays& arrays, Layout& layout)
      : DevicePrepared(problem, arrays, layout),
        shape_(ShapeOf(problem)),
        scale_(ScoreScale<float>(problem)) {}

 protected:
  Tensors<S> AllTensors() const {
    const auto q = In<S>("q"), k = In<S>("k"), v = In<S>("v");
    const auto out = Out<S>("out");
    return {shape_,
            scale_,
            q,
            k,
            v,
            out,
            InFours(q, shape_.d) && InFours(k, shape_.d),
            InFours(v, shape_.e) && InFours(out, shape_.e)};
  }

  const SoftmaxShape shape_;
  const float scale_;
};

// ---- dense

struct Masked {
  SparseMask mask;

  __device__ int64_t Keys(int64_t i) const {
    return mask.causal ? i + 1 : INT64_MAX;
  }
  __device__ float operator()(int64_t, int64_t i, int64_t j,
                              float score) const {
    const int query = static_cast<int>(i), key = static_cast<int>(j);
    return mask.Sees(query, mask.Kind(query), key, mask.Kind(key))
               ? score
               : -std::numeric_limits<float>::infinity();
  }
};

template <typename S>
class Dense : public SparsePrepared<S> {
 public:
  Dense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : SparsePrepared<S>(problem, arrays, layout),
        mask_(layout, problem),
        attention_(layout, this->shape_),
        values_(layout,
                this->shape_.heads * this->shape_.n_k * this->shape_.e) {}

  void Launch() override {
    const Tensors<S> tensors = this->AllTensors();
    attention_.Run(Masked{mask_.mask()}, this->scale_, tensors.q, tensors.k,
                   values_.Run(tensors.v), tensors.out);
  }

  double Flops() const override {
    return DenseAttention<S>::Flops(this->shape_);
  }

 private:
  const SparseMaskTables mask_;
  DenseAttention<S> attention_;
  Widened<S> values_;
};

// ---- gathered

constexpr int kWarps = 4;
constexpr int kLanes = 32;
constexpr int kOwn = 4;  // columns of the result per lane

// Uses one warp per query. With more than 128 columns the scores are computed
// once more for each further 128.
template <typename S>
__global__ void __launch_bounds__(kWarps* kLanes)
    Gather(const Tensors<S> tensors, const int* begin, const SparseRun* runs) {
  const int64_t heads = tensors.shape.heads, n = tensors.shape.n_q;
  const int64_t d = tensors.shape.d, e = tensors.shape.e;
  const int64_t warp =
      static_cast<int64_t>(blockIdx.x) * kWarps + threadIdx.x / kLanes;
  if (warp >= heads * n) return;
  const int lane = static_cast<int>(threadIdx.x % kLanes);
  const int64_t head = warp / n, i = warp % n;
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kOwn * kLanes + lane;
  const S* q = tensors.q.data + head * tensors.q.head_stride + i * d;
  const S* k = tensors.k.data + head * tensors.k.head_stride;
  const S* v = tensors.v.data + head * tensors.v.head_stride + c0;
  const int width = static_cast<int>(d);
  const int own = static_cast<int>((e - c0 + kLanes - 1) / kLanes);
  const int end = begin[i + 1];
  const int keys = runs[end - 1].end;

  float top = std::numeric_limits<float>::lowest(), sum = 0;
  float out[kOwn] = {};
  int run = begin[i];  // the run with the lane's key
  for (int first = 0; first < keys; first += kLanes) {
    const int x = first + lane;
    int64_t key = 0;
    float score = -std::numeric_limits<float>::infinity();
    if (x < keys) {
      while (x >= runs[run].end) ++run;
      key = runs[run].first +
            static_cast<int64_t>(x - runs[run].begin) * runs[run].step;
      const S* row = k + key * d;
      float dot = 0;
#pragma unroll 4
      for (int a = 0; a < width; a += 4) {
        const float4 p = LoadFour(q + a, width - a, tensors.d_in_fours);
        const float4 r = LoadFour(row + a, width - a, tensors.d_in_fours);
        dot += p.x * r.x;
        dot += p.y * r.y;
        dot += p.z * r.z;
        dot += p.w * r.w;
      }
      score = tensors.scale * dot;
    }
    float max_score = fmaxf(top, score);
    for (int other = kLanes / 2; other > 0; other /= 2)
      max_score =
          fmaxf(max_score, __shfl_xor_sync(0xFFFFFFFF, max_score, other));
    const float factor = expf(top - max_score);
    const float weight = expf(score - max_score);
    top = max_score;
    sum = sum * factor + weight;
#pragma unroll
    for (int c = 0; c < kOwn; ++c) out[c] *= factor;
    const int count = min(kLanes, keys - first);
#pragma unroll 4
    for (int y = 0; y < count; ++y) {
      const float w = __shfl_sync(0xFFFFFFFF, weight, y);
      const S* row = v + __shfl_sync(0xFFFFFFFF, key, y) * e;
#pragma unroll
      for (int c = 0; c < kOwn; ++c)
        if (c < own) out[c] += w * ToFloat(row[c * kLanes]);
    }
  }
  for (int other = kLanes / 2; other > 0; other /= 2)
    sum += __shfl_xor_sync(0xFFFFFFFF, sum, other);
  S* to = tensors.out.data + head * tensors.out.head_stride + i * e + c0;
#pragma unroll
  for (int c = 0; c < kOwn; ++c)
    if (c < own) Store(QuotientOrZero(out[c], sum), to + c * kLanes);
}

template <typename S>
class Gathered : public SparsePrepared<S> {
 public:
  Gathered(const Problem& problem, const Arrays& arrays, Layout& layout)
      : SparsePrepared<S>(problem, arrays, layout) {
    const SparseKeys visible(problem);
    pairs_ = visible.Count().pairs;
    const SparseRuns runs(visible);
    begin_ = TableOf(layout, runs.begin);
    runs_ = TableOf(layout, runs.runs);
  }

  void Launch() override {
    const auto& shape = this->shape_;
    SUBQUAD_LAUNCH(Gather<S>,
                   Grid(PiecesOf(shape.heads * shape.n_q, kWarps),
                        PiecesOf(shape.e, kOwn * kLanes)),
                   kWarps * kLanes, 0, this->AllTensors(), begin_.data(),
                   runs_.data());
  }

  double Flops() const override {
    return 2 * static_cast<double>(this->shape_.heads) * pairs_ *
           static_cast<double>(this->shape_.d *
                                   PiecesOf(this->shape_.e, kOwn * kLanes) +
                               this->shape_.e);
  }

 private:
  double pairs_ = 0;
  DeviceBuffer<int> begin_;
  DeviceBuffer<SparseRun> runs_;
};

// ---- blocked

struct BlockedShared {
  SoftmaxShared tile;
  // TokenPositions in the tile, and their kinds in the mask.
  int query[kSoftmaxQueries], query_kind[kSoftmaxQueries];
  int key[kSoftmaxKeys], key_kind[kSoftmaxKeys];
};

// Lists of a SparsePlan in device memory.
struct Lists {
  const int* queries;
  const int* keys;
  const SparseJob* jobs;
  int64_t parts;  // of a head
};

// Returns the sums of a part: tops [64], sums [64], values [64, e].
__device__ inline float* PartOf(float* parts, int64_t count, int64_t head,
                                int64_t part, int64_t e) {
  return parts + (head * count + part) * kSoftmaxQueries * (e + 2);
}

// Sets the score to -inf where the mask hides one of the tile's `keys` keys,
// and beyond these.
__device__ inline void HideUnseen(const SparseMask& mask,
                                  const BlockedShared& shared, int keys,
                                  float (&score)[4][8]) {
  const int row = SoftmaxRow();
  int query[4], query_kind[4];
#pragma unroll
  for (int r = 0; r < 4; ++r) {
    query[r] = shared.query[row + r];
    query_kind[r] = shared.query_kind[row + r];
  }
#pragma unroll
  for (int c = 0; c < 8; ++c) {
    const int x = SoftmaxColumn(c);
    const int key = shared.key[x], key_kind = shared.key_kind[x];
#pragma unroll
    for (int r = 0; r < 4; ++r)
      if (x >= keys || !mask.Sees(query[r], query_kind[r], key, key_kind))
        score[r][c] = -std::numeric_limits<float>::infinity();
  }
}

template <int kColumns, typename S>
__global__ void __launch_bounds__(kSoftmaxThreads, kColumns == 64 ? 4 : 3)
    RunJobs(const Tensors<S> tensors, const SparseMask mask, const Lists lists,
            float* parts) {
  SUBQUAD_SHARED(BlockedShared, shared);
  const int64_t d = tensors.shape.d, e = tensors.shape.e;
  const int64_t heads = tensors.shape.heads;
  // The heads of a job are consecutive: all long jobs begin first.
  const int64_t head = blockIdx.x % heads;
  const SparseJob job = lists.jobs[blockIdx.x / heads];
  const int64_t c0 = static_cast<int64_t>(blockIdx.y) * kColumns;
  const int columns = static_cast<int>(min(int64_t{kColumns}, e - c0));
  const int thread = static_cast<int>(threadIdx.x);
  const int* queries = lists.queries + job.first_query;
  const S* q = tensors.q.data + head * tensors.q.head_stride;
  const S* k = tensors.k.data + head * tensors.k.head_stride;
  const S* v = tensors.v.data + head * tensors.v.head_stride + c0;
  S* out = tensors.out.data + head * tensors.out.head_stride + c0;
  if (thread < kSoftmaxQueries) {
    // Rows beyond the queries repeat the last one.
    const int query = queries[min(thread, job.queries - 1)];
    shared.query[thread] = query;
    shared.query_kind[thread] = mask.Kind(query);
  }

  SoftmaxState<kColumns> state;
  for (int first = 0; first < job.keys; first += kSoftmaxKeys) {
    const int* keys = lists.keys + job.first_key + first;
    const int count = min(kSoftmaxKeys, job.keys - first);
    float score[4][8] = {};
    for (int64_t a0 = 0; a0 < d; a0 += kSoftmaxDepth) {
      const int depth = static_cast<int>(min(int64_t{kSoftmaxDepth}, d - a0));
      __syncthreads();  // all threads have read the slab and the values
      if (first == 0 || d > kSoftmaxDepth)
        LoadTransposed([=](int r) { return q + queries[r] * d + a0; },
                       job.queries, depth, tensors.d_in_fours, tensors.scale,
                       shared.tile.query);
      LoadTransposed([=](int r) { return k + keys[r] * d + a0; }, count, depth,
                     tensors.d_in_fours, 1.0f, shared.tile.key);
      if (a0 == 0 && thread < count) {
        shared.key[thread] = keys[thread];
        shared.key_kind[thread] = mask.Kind(keys[thread]);
      }
      __syncthreads();
      AddProducts(shared.tile.query, shared.tile.key, depth, score);
    }
    HideUnseen(mask, shared, count, score);
    state.Weigh(score, shared.tile);
    state.AddTile([=](int r) { return v + keys[r] * e; }, count, columns,
                  tensors.e_in_fours, shared.tile);
  }
  if (job.part < 0) {
    state.End([=](int r) { return out + queries[r] * e; }, job.queries, columns,
              tensors.e_in_fours);
  } else {
    // Blocks of other columns write the same tops and sums.
    float* part = PartOf(parts, lists.parts, head, job.part, e);
    float* values = part + 2 * kSoftmaxQueries + c0;
    state.Save([=](int r) { return values + r * e; }, job.queries, columns,
               tensors.e_in_fours, part, part + kSoftmaxQueries);
  }
}

// Computes the quotients of the queries whose keys were split, from the sums of
// their parts in order: one thread for each query and column of a split.
template <typename S>
__global__ void Combine(const Tensors<S> tensors, const Lists lists,
                        const SparseSplit* splits, float* parts) {
  const int64_t e = tensors.shape.e, size = kSoftmaxQueries * e;
  const int64_t thread =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  const int64_t head = thread / size, at = thread % size, r = at / e;
  const SparseSplit split = splits[blockIdx.y];
  if (head >= tensors.shape.heads || r >= split.queries) return;
  const auto part = [&](int x) {
    return PartOf(parts, lists.parts, head, split.first_part + x, e);
  };
  float top = part(0)[r];
  for (int x = 1; x < split.parts; ++x) top = fmaxf(top, part(x)[r]);
  float sum = 0, value = 0;
  for (int x = 0; x < split.parts; ++x) {
    const float factor = expf(part(x)[r] - top);
    sum += factor * part(x)[kSoftmaxQueries + r];
    value += factor * part(x)[2 * kSoftmaxQueries + at];
  }
  const int64_t i = lists.queries[split.first_query + r];
  Store(QuotientOrZero(value, sum),
        tensors.out.data + head * tensors.out.head_stride + i * e + at % e);
}

template <typename S>
class Blocked : public SparsePrepared<S> {
 public:
  Blocked(const Problem& problem, const Arrays& arrays, Layout& layout)
      : SparsePrepared<S>(problem, arrays, layout), mask_(layout, problem) {
    const SparsePlan plan{SparseKeys(problem)};
    queries_ = TableOf(layout, plan.queries);
    keys_ = TableOf(layout, plan.keys);
    jobs_ = TableOf(layout, plan.jobs);
    splits_ = TableOf(layout, plan.splits);
    parts_count_ = plan.parts;
    pairs_ = plan.Pairs();
    parts_ =
        DeviceBuffer<float>(layout, this->shape_.heads * plan.parts *
                                        kSoftmaxQueries * (this->shape_.e + 2));
  }

  void Launch() override {
    const auto& shape = this->shape_;
    const Tensors<S> tensors = this->AllTensors();
    const Lists lists = {queries_.data(), keys_.data(), jobs_.data(),
                         parts_count_};
    const int64_t columns = shape.e <= 64 ? 64 : 128;
    const dim3 grid =
        Grid(jobs_.size() * shape.heads, PiecesOf(shape.e, columns));
    if (columns == 64)
      SUBQUAD_LAUNCH((RunJobs<64, S>), grid, kSoftmaxThreads,
                     sizeof(BlockedShared), tensors, mask_.mask(), lists,
                     parts_.data());
    else
      SUBQUAD_LAUNCH((RunJobs<128, S>), grid, kSoftmaxThreads,
                     sizeof(BlockedShared), tensors, mask_.mask(), lists,
                     parts_.data());
    if (splits_.size() == 0) return;
    constexpr int kThreads = 128;
    SUBQUAD_LAUNCH(
        Combine<S>,
        Grid(PiecesOf(shape.heads * kSoftmaxQueries * shape.e, kThreads),
             splits_.size()),
        kThreads, 0, tensors, lists, splits_.data(), parts_.data());
  }

  double Flops() const override {
    return 2 * static_cast<double>(this->shape_.heads) * pairs_ *
           static_cast<double>(
               this->shape_.d *
                   (this->shape_.e <= 64 ? 1 : PiecesOf(this->shape_.e, 128)) +
               this->shape_.e);
  }

 private:
  const SparseMaskTables mask_;
  DeviceBuffer<int> queries_, keys_;
  DeviceBuffer<SparseJob> jobs_;
  DeviceBuffer<SparseSplit> splits_;
  int64_t parts_count_ = 0;
  double pairs_ = 0;
  DeviceBuffer<float> parts_;
};

std::string WhyNotOnDevice(const Problem& problem) {
  if (problem.queries != problem.keys)
    return "the GPU implementation has as many queries as keys";
  if (problem.HasInput("bias"))
    return "the GPU implementation has no bias by offset";
  if (problem.HasInput("q_global"))
    return "the GPU implementation has no global tokens in addition to the "
           "positions";
  return "";
}

std::string WhyNotBlockedOnDevice(const Problem& problem) {
  const std::string reason = WhyNotBlocked(problem);
  return reason.empty() ? WhyNotOnDevice(problem) : reason;
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> SparseAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "sparse_attention",
      {{.id = "dense",
        .what = "two GEMMs (cuBLAS) over all pairs, masked scores left out",
        .sums = DirectSums,
        .why_not = WhyNotOnDevice,
        // Adding weights that are zero causes no rounding error.
        .prepare = PrepareOnDevice<Dense>()},
       {.id = "gathered",
        .what = "a warp for each query, over its own keys",
        .memory = {"O(n)", "n"},
        .sums = DirectSums,
        .why_not = WhyNotOnDevice,
        // The factor follows kSoftmaxTilesBoundFactor: each sum is rescaled
        // once per 32 keys.
        .bound_factor = 1 + 3.0 / kLanes,
        .prepare = PrepareOnDevice<Gathered>()},
       {.id = "blocked",
        .what = "groups of queries against tiles of the keys they share",
        .memory = {"O(n)", "n"},
        .sums = DirectSums,
        .why_not = WhyNotBlockedOnDevice,
        // In the worst case every tile contains a single key of a query. Each
        // key then costs four roundings: one for adding it and three for
        // rescaling the sums. Adding the sums of a part costs no more than
        // another tile.
        .bound_factor = 4,
        .prepare = PrepareOnDevice<Blocked>()}});
}

}  // namespace subquad
