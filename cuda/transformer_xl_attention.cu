// transformer_xl_attention on the GPU: s_ij = (q_i+u).k_j + (q_i+t).(w_kr
// r[M+i-j]), out = softmax(scale s) v (Transformer-XL appendix B)
//
//   dense   the naive order: for every query the embeddings of all distances
//           through w_kr, in batches of queries, the scores of a head in
//           memory
//   shift   w_kr r once for each of the M+L distances, then two products of
//           matrices for a block of queries, one for each term; the softmax
//           reads the second one shifted
//
// Row i of the second product has the distances 0, 1, .. and is read at M+i-j
// for key j: in reverse, which is the paper's left shift of a matrix whose
// distances decrease.
//
// As on the CPU, u and t are added to the queries and the sums scaled: these
// are two of the three roundings that the reference's bound allows for the sum
// and the scale, so that the factor is one.
#include <algorithm>
#include <string>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/softmax/dense_attention.h"
#include "cuda/softmax/score_rows.h"
#include "reference/contract/softmax_scale.h"

namespace subquad::device {
namespace {

constexpr int kThreads = 256;

struct XlSizes {
  explicit XlSizes(const Problem& problem)
      : n_q(problem.Dim("L")),
        memory(problem.Dim("M")),
        n_k(n_q + memory),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        p(problem.Dim("p")),
        heads(problem.heads),
        vectors(std::max(problem.SlicesOf("r").count(),
                         problem.SlicesOf("w_kr").count())) {}

  // Returns how many keys the queries of a block see.
  int64_t Keys(const RowBlock& block) const {
    return memory + block.first + block.rows;
  }

  int64_t n_q, memory, n_k, d, e, p, heads;
  int64_t vectors;  // vectors of projected embeddings: one for all heads, or
                    // for each
};

// Computes queries = scale (q + u), position_queries = scale (q + t).
template <typename S>
__global__ void AddVectors(const S* q, int64_t q_head_stride, const S* u,
                           int64_t u_head_stride, const S* t,
                           int64_t t_head_stride, int64_t count, int64_t d,
                           float scale, float* queries,
                           float* position_queries) {
  const int64_t at =
      static_cast<int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (at >= count) return;
  const int64_t head = blockIdx.y, a = at % d;
  const float x = ToFloat(q[head * q_head_stride + at]);
  queries[head * count + at] =
      scale * (x + ToFloat(u[head * u_head_stride + a]));
  position_queries[head * count + at] =
      scale * (x + ToFloat(t[head * t_head_stride + a]));
}

// Forms a block's scores from its two terms.
struct ShiftedScore {
  const float* content;   // by keys
  const float* position;  // by distances
  int64_t rows, stride;
  int64_t visible;  // to the first row

  __device__ int64_t Seen(int64_t i) const { return visible + i; }
  __device__ float operator()(int64_t head, int64_t i, int64_t j) const {
    const int64_t row = (head * rows + i) * stride;
    return content[row + j] + position[row + visible + i - 1 - j];
  }
};

// Counts the pairs that are computed in blocks of `rows` queries: all queries
// of a block with the keys that its last one sees.
double FormedPairs(const XlSizes& sizes, int64_t rows) {
  double pairs = 0;
  for (int64_t first = 0; first < sizes.n_q; first += rows) {
    const int64_t end = std::min(first + rows, sizes.n_q);
    pairs += static_cast<double>((end - first) * (sizes.memory + end));
  }
  return pairs;
}

// The steps that both algorithms share: all except the second term.
template <typename S>
class XlAttention : public DevicePrepared {
 public:
  XlAttention(const Problem& problem, const Arrays& arrays, Layout& layout,
              const ScorePlan& plan)
      : DevicePrepared(problem, arrays, layout),
        sizes_(problem),
        rows_(layout, plan),
        position_(layout, plan.scores()),
        scale_(ScoreScale<float>(problem)),
        queries_(layout, sizes_.heads * sizes_.n_q * sizes_.d),
        position_queries_(layout, sizes_.heads * sizes_.n_q * sizes_.d),
        keys_(layout, sizes_.heads * sizes_.n_k * sizes_.d) {}

  void Launch() override {
    const auto q = In<S>("q"), u = In<S>("u"), t = In<S>("t");
    const int64_t count = sizes_.n_q * sizes_.d;
    SUBQUAD_LAUNCH(AddVectors<S>, Grid(PiecesOf(count, kThreads), sizes_.heads),
                   kThreads, 0, q.data, q.head_stride, u.data, u.head_stride,
                   t.data, t.head_stride, count, sizes_.d, scale_,
                   queries_.data(), position_queries_.data());
    const HeadArray<const float> keys = keys_.Run(In<S>("k"));
    rows_.LoadValues(In<S>("v"), sizes_.n_k);
    ProjectDistances();
    rows_.plan().blocks().ForEach([&](const RowBlock& block) {
      const int64_t visible = sizes_.Keys(block);
      rows_.MultiplyKeys(block, {queries_.data(), count}, keys, sizes_.d,
                         visible, rows_.scores());
      MultiplyDistances(block);
      rows_.Exponentiate(
          block, visible,
          ShiftedScore{rows_.scores(), position_.data(), block.rows,
                       rows_.plan().stride(), sizes_.memory + block.first + 1});
      rows_.MultiplyValues(block, visible, Out<S>("out"));
    });
  }

 protected:
  // Projects the distances before any block.
  virtual void ProjectDistances() {}
  // Computes position_ = (q + t).(w_kr r[x]) for the distances 0 .. Keys - 1.
  virtual void MultiplyDistances(const RowBlock& block) = 0;

  HeadArray<const float> position_queries() const {
    return {position_queries_.data(), sizes_.n_q * sizes_.d};
  }

  // Computes projected[b] = r w_kr^T of the first `distances` distances, for
  // each of `batch` heads from `head` on, or `batch` times for that head.
  void Project(int64_t head, int64_t batch, bool same_head, int64_t distances,
               float* projected) {
    const auto r = In<S>("r"), w_kr = In<S>("w_kr");
    rows_.gemm().template Run<S>(
        batch, 1,
        {r.Head(head), distances, sizes_.p, sizes_.p,
         same_head ? 0 : r.head_stride},
        {w_kr.Head(head), sizes_.d, sizes_.p, sizes_.p,
         same_head ? 0 : w_kr.head_stride, true},
        0, {projected, distances, sizes_.d, sizes_.d, distances * sizes_.d});
  }

  // `projections` are products w_kr r, 2 d p flops each.
  double XlFlops(double projections, double position_pairs) const {
    const auto d = static_cast<double>(sizes_.d);
    const double pairs = FormedPairs(sizes_, rows_.plan().blocks().rows());
    return 2 * projections * d * static_cast<double>(sizes_.p) +
           2 * static_cast<double>(sizes_.heads) *
               (pairs * (d + static_cast<double>(sizes_.e)) +
                position_pairs * d);
  }

  const XlSizes sizes_;
  ScoreRows rows_;
  DeviceBuffer<float> position_;

 private:
  const float scale_;
  DeviceBuffer<float> queries_, position_queries_;
  Widened<S> keys_;
};

ScorePlan ShiftPlan(const Problem& problem) {
  const XlSizes sizes(problem);
  const int64_t row_bytes = 2 * sizes.n_k * static_cast<int64_t>(sizeof(float));
  return {sizes.n_k, sizes.e, sizes.heads,
          RowBlocks(sizes.n_q, sizes.heads, row_bytes)};
}

template <typename S>
class XlShift : public XlAttention<S> {
 public:
  XlShift(const Problem& problem, const Arrays& arrays, Layout& layout)
      : XlAttention<S>(problem, arrays, layout, ShiftPlan(problem)),
        projected_(layout, sizes_.vectors * sizes_.n_k * sizes_.d) {}

  double Flops() const override {
    return this->XlFlops(static_cast<double>(sizes_.vectors * sizes_.n_k),
                         FormedPairs(sizes_, rows_.plan().blocks().rows()));
  }

 private:
  using XlAttention<S>::sizes_, XlAttention<S>::rows_,
      XlAttention<S>::position_;

  void ProjectDistances() override {
    this->Project(0, sizes_.vectors, false, sizes_.n_k, projected_.data());
  }
  void MultiplyDistances(const RowBlock& block) override {
    const int64_t head_stride = sizes_.vectors > 1 ? sizes_.n_k * sizes_.d : 0;
    rows_.MultiplyKeys(block, this->position_queries(),
                       {projected_.data(), head_stride}, sizes_.d,
                       sizes_.Keys(block), position_.data());
  }

  DeviceBuffer<float> projected_;
};

ScorePlan DensePlan(const Problem& problem) {
  const XlSizes sizes(problem);
  return {sizes.n_k, sizes.e, sizes.heads,
          RowBlocks::WholeHeads(sizes.n_q, sizes.heads)};
}

// Queries whose distances are projected together.
int64_t QueriesAtOnce(const XlSizes& sizes) {
  const int64_t bytes =
      sizes.n_k * sizes.d * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kCacheBytes / bytes, 1, sizes.n_q);
}

template <typename S>
class XlDense : public XlAttention<S> {
 public:
  XlDense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : XlAttention<S>(problem, arrays, layout, DensePlan(problem)),
        projected_(layout, QueriesAtOnce(sizes_) * sizes_.n_k * sizes_.d) {}

  double Flops() const override {
    const double pairs = FormedPairs(sizes_, QueriesAtOnce(sizes_));
    return this->XlFlops(static_cast<double>(sizes_.heads) * pairs, pairs);
  }

 private:
  using XlAttention<S>::sizes_, XlAttention<S>::rows_,
      XlAttention<S>::position_;

  void MultiplyDistances(const RowBlock& block) override {
    const int64_t d = sizes_.d, stride = rows_.plan().stride();
    const int64_t at_once = QueriesAtOnce(sizes_);
    const float* queries = this->position_queries().Head(block.first_head);
    for (int64_t first = 0; first < sizes_.n_q; first += at_once) {
      const int64_t count = std::min(at_once, sizes_.n_q - first);
      const int64_t distances = sizes_.memory + first + count;
      this->Project(block.first_head, count, true, distances,
                    projected_.data());
      rows_.gemm().template Run<float>(
          count, 1, {queries + first * d, 1, d, d, d},
          {projected_.data(), distances, d, d, distances * d, true}, 0,
          {position_.data() + first * stride, 1, distances, stride, stride});
    }
  }

  DeviceBuffer<float> projected_;
};

std::string WhyNotOnDevice(const Problem& problem) {
  if (problem.params.Flag("causal")) return "";
  return "the GPU implementation is causal only";
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> TransformerXlAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "transformer_xl_attention",
      {{.id = "dense",
        .what = "w_kr r for every pair (a batch of GEMMs), scores in memory",
        .sums = DirectSums,
        .why_not = WhyNotOnDevice,
        .prepare = PrepareOnDevice<XlDense>()},
       {.id = "shift",
        .what = "w_kr r once per distance, GEMMs and left shifts by blocks",
        .memory = {"O((M+L) (d+e)), and scores that fit the cache", "n"},
        .sums = DirectSums,
        .why_not = WhyNotOnDevice,
        .prepare = PrepareOnDevice<XlShift>()}});
}

}  // namespace subquad
