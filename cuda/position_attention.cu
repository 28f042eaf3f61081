// position_attention on the GPU: softmax attention with positions by one of
// seven schemes (Transformers II eq. 5-13; the list is in the reference)
//
//   dense   all scores of a head in memory; relative embeddings in the naive
//           order, those of a query's offsets read (deberta: projected) for
//           every query
//   shift   positions and offsets projected once, products of matrices for a
//           block of queries against all offsets that it needs, and a softmax
//           that reads them shifted
//
// deberta has a term that depends on keys, (rel(i-j) u_q).k_j. It is computed
// for blocks of keys against their offsets to the block of queries, all at
// once: with the keys in reverse order offsets and keys increase together, and
// blocks are a constant stride apart.
//
// Bound: the reference's, with a factor of one. A projection of x + pos is the
// sum of two products, so that a term passes through D + 1 roundings where the
// bound has D + 2 of |x| + |pos|.
#include <algorithm>
#include <string>

#include "cuda/base/prepared.h"
#include "cuda/implementations.h"
#include "cuda/softmax/dense_attention.h"
#include "cuda/softmax/position_terms.h"
#include "cuda/softmax/score_rows.h"
#include "reference/contract/softmax_scale.h"
#include "reference/softmax/position_scheme.h"

namespace subquad::device {
namespace {

int64_t Aligned(int64_t numbers) { return PiecesOf(numbers, 4) * 4; }

struct PositionSizes {
  explicit PositionSizes(const Problem& problem)
      : scheme(PositionSchemeOf(problem.params)),
        n(problem.Dim("n")),
        D(problem.Dim("D")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        heads(problem.heads) {
    for (const char* name : {"rel", "u_q", "u_k"})
      if (relative() && problem.HasInput(name) &&
          problem.SlicesOf(name).count() > 1)
        vectors = heads;
  }

  bool Is(PositionScheme candidate) const { return scheme == candidate; }
  bool relative() const {
    return Is(PositionScheme::kShaw) || Is(PositionScheme::kDeberta);
  }
  // Queries and keys of `untied` are [x w, pos u].
  int64_t key_width() const { return Is(PositionScheme::kUntied) ? 2 * d : d; }
  int64_t offsets() const { return 2 * n - 1; }
  // Returns the number of elements in the queries or in the keys of all heads.
  int64_t tokens() const { return heads * n * key_width(); }

  // Sizes of the other arrays for a block of queries: products with offsets,
  // [rows, n + rows - 1], and for deberta those of whole blocks of keys, [keys,
  // rows + kKeysOfBlock - 1].
  int64_t OffsetStride(int64_t rows) const { return Aligned(n + rows - 1); }
  int64_t KeyStride(int64_t rows) const {
    return Aligned(rows + kKeysOfBlock - 1);
  }
  int64_t padded_keys() const {
    return PiecesOf(n, kKeysOfBlock) * kKeysOfBlock;
  }

  PositionScheme scheme;
  int64_t n, D, d, e, heads;
  int64_t vectors = 1;  // vectors of embedded offsets: one for all heads, or
                        // for each
};

ScorePlan ShiftPlan(const PositionSizes& sizes) {
  const int64_t matrices = sizes.Is(PositionScheme::kDeberta) ? 3
                           : sizes.Is(PositionScheme::kShaw)  ? 2
                                                              : 1;
  return {sizes.n, sizes.e, sizes.heads,
          RowBlocks(sizes.n, sizes.heads,
                    matrices * sizes.n * static_cast<int64_t>(sizeof(float)))};
}

ScorePlan DensePlan(const PositionSizes& sizes) {
  return {sizes.n, sizes.e, sizes.heads,
          RowBlocks::WholeHeads(sizes.n, sizes.heads)};
}

// Elements in the workspaces of `shift` for relative embeddings.
struct ShiftCounts {
  ShiftCounts(const PositionSizes& sizes, const RowBlocks& blocks) {
    if (!sizes.relative()) return;
    by_offset =
        blocks.heads() * blocks.rows() * sizes.OffsetStride(blocks.rows());
    if (!sizes.Is(PositionScheme::kDeberta)) return;
    const int64_t keys = sizes.padded_keys();
    by_key = blocks.heads() * keys * sizes.KeyStride(blocks.rows());
    offsets_k = sizes.vectors * sizes.offsets() * sizes.d;
    // The last block extends beyond the keys, and beyond the offsets.
    reversed_keys = sizes.heads * keys * sizes.d;
    offsets_q = sizes.vectors * (sizes.n + keys) * sizes.d;
  }

  int64_t by_offset = 0, by_key = 0;
  int64_t offsets_k = 0, reversed_keys = 0, offsets_q = 0;
};

// Returns how many queries `dense` projects the offsets of together.
int64_t QueriesAtOnce(const PositionSizes& sizes) {
  const int64_t bytes = sizes.n * sizes.d * static_cast<int64_t>(sizeof(float));
  return std::clamp<int64_t>(kCacheBytes / bytes, 1, sizes.n);
}
int64_t ProjectedCount(const PositionSizes& sizes) {
  return sizes.Is(PositionScheme::kDeberta)
             ? QueriesAtOnce(sizes) * sizes.n * sizes.d
             : 0;
}

// The scores of a block of queries, `rows` of each head.
struct BlockOfScores {
  const float* content;
  int64_t rows, stride, n;
  int64_t causal_from;  // keys that the first row sees; 0: all rows see all
                        // keys
  float scale;

  __device__ int64_t Seen(int64_t i) const {
    return causal_from > 0 ? causal_from + i : n;
  }
  __device__ float Content(int64_t head, int64_t i, int64_t j) const {
    return content[(head * rows + i) * stride + j];
  }
};

struct PlainScore : BlockOfScores {
  __device__ float operator()(int64_t head, int64_t i, int64_t j) const {
    return scale * Content(head, i, j);
  }
};

// A bias for each offset, added or multiplied.
template <typename S, bool kAdd>
struct BiasedScore : BlockOfScores {
  const S* bias;  // of offset 0 at the first query
  int64_t head_stride;

  __device__ float operator()(int64_t head, int64_t i, int64_t j) const {
    const float own = ToFloat(bias[head * head_stride + j - i]);
    const float score = Content(head, i, j);
    return scale * (kAdd ? score + own : score * own);
  }
};

// Row i of the products with offsets is read from column rows - 1 - i on.
struct ShawScore : BlockOfScores {
  const float* by_offset;
  int64_t offset_stride;

  __device__ float operator()(int64_t head, int64_t i, int64_t j) const {
    return scale *
           (Content(head, i, j) +
            by_offset[(head * rows + i) * offset_stride + j - i + rows - 1]);
  }
};

// Counts everything except relative embeddings.
double CommonFlops(const PositionSizes& sizes) {
  const auto n = static_cast<double>(sizes.n);
  const auto width = static_cast<double>(sizes.key_width());
  const auto e = static_cast<double>(sizes.e);
  double projected = 2 * width + e;
  if (sizes.Is(PositionScheme::kAbsolute)) projected *= 2;
  if (sizes.Is(PositionScheme::kAbsoluteScores)) projected += 2 * width;
  return static_cast<double>(sizes.heads) *
         (2 * n * static_cast<double>(sizes.D) * projected +
          2 * n * n * (width + e));
}

// The steps that both algorithms share: all except relative embeddings.
template <typename S>
class PositionRun : public DevicePrepared {
 public:
  PositionRun(const Problem& problem, const Arrays& arrays, Layout& layout,
              const ScorePlan& plan)
      : DevicePrepared(problem, arrays, layout),
        sizes_(problem),
        rows_(layout, plan),
        q_(layout, sizes_.tokens()),
        k_(layout, sizes_.tokens()),
        rel_(layout, sizes_.Is(PositionScheme::kShaw)
                         ? sizes_.vectors * sizes_.offsets() * sizes_.d
                         : 0),
        scale_(ScoreScale<float>(problem)),
        causal_(problem.params.Flag("causal")) {}

  void Launch() override {
    const int64_t n = sizes_.n, width = sizes_.key_width();
    ProjectTokens();
    if (sizes_.Is(PositionScheme::kShaw)) shaw_ = rel_.Run(In<S>("rel"));
    if (sizes_.Is(PositionScheme::kDeberta)) ProjectOffsets();
    rows_.plan().blocks().ForEach([&](const RowBlock& block) {
      rows_.MultiplyKeys(block, {q_.data(), n * width}, {k_.data(), n * width},
                         width, n, rows_.scores());
      Exponentiate(block);
      rows_.MultiplyValues(block, n, Out<S>("out"));
    });
  }

 protected:
  // Projects the offsets for deberta, before any block.
  virtual void ProjectOffsets() {}
  // Adds the terms of the offsets to the scores for shaw and deberta, and turns
  // scores into weights.
  virtual void ExponentiateRelative(const RowBlock& block,
                                    const BlockOfScores& scores) = 0;

  // Computes out = tensor weights, or += that, [rows, width] in rows `stride`
  // apart; for each of `batch` heads.
  void Project(const char* tensor, int64_t rows, const char* weights,
               int64_t width, bool add, int64_t batch, float* out,
               int64_t stride, int64_t head_stride) {
    const auto x = In<S>(tensor), w = In<S>(weights);
    const int64_t D = sizes_.D;
    rows_.gemm().template Run<S>(batch, 1, {x.data, rows, D, D, x.head_stride},
                                 {w.data, D, width, width, w.head_stride},
                                 add ? 1.0f : 0.0f,
                                 {out, rows, width, stride, head_stride});
  }

  const PositionSizes sizes_;
  ScoreRows rows_;
  DeviceBuffer<float> q_, k_;
  HeadArray<const float> shaw_;  // rel as float32, converted in every run

 private:
  void ProjectTokens() {
    const int64_t n = sizes_.n, d = sizes_.d, e = sizes_.e;
    const int64_t width = sizes_.key_width(), heads = sizes_.heads;
    const int64_t value_rows = rows_.plan().value_rows();
    const auto tokens = [&](const char* x, const char* w, bool add,
                            float* out) {
      Project(x, n, w, d, add, heads, out, width, n * width);
    };
    const auto values = [&](const char* x, bool add) {
      Project(x, n, "w_v", e, add, heads, rows_.values(), e, value_rows * e);
    };
    tokens("x", "w_q", false, q_.data());
    tokens("x", "w_k", false, k_.data());
    if (value_rows > n)
      SUBQUAD_CUDA_CHECK(cudaMemsetAsync(
          rows_.values(), 0, heads * value_rows * e * sizeof(float), nullptr));
    values("x", false);
    if (sizes_.Is(PositionScheme::kAbsolute)) values("pos", true);
    if (sizes_.Is(PositionScheme::kAbsolute) ||
        sizes_.Is(PositionScheme::kAbsoluteScores)) {
      tokens("pos", "w_q", true, q_.data());
      tokens("pos", "w_k", true, k_.data());
    }
    if (sizes_.Is(PositionScheme::kUntied)) {
      tokens("pos", "u_q", false, q_.data() + d);
      tokens("pos", "u_k", false, k_.data() + d);
    }
  }

  void Exponentiate(const RowBlock& block) {
    const BlockOfScores scores = {.content = rows_.scores(),
                                  .rows = block.rows,
                                  .stride = rows_.plan().stride(),
                                  .n = sizes_.n,
                                  .causal_from = causal_ ? block.first + 1 : 0,
                                  .scale = scale_};
    if (sizes_.relative())
      ExponentiateRelative(block, scores);
    else if (sizes_.Is(PositionScheme::kBias))
      rows_.Exponentiate(block, sizes_.n, Biased<true>(block, scores));
    else if (sizes_.Is(PositionScheme::kMultiplicative))
      rows_.Exponentiate(block, sizes_.n, Biased<false>(block, scores));
    else
      rows_.Exponentiate(block, sizes_.n, PlainScore{scores});
  }

  template <bool kAdd>
  BiasedScore<S, kAdd> Biased(const RowBlock& block,
                              const BlockOfScores& scores) const {
    const auto bias = In<S>("bias");
    return {scores, bias.Head(block.first_head) + sizes_.n - 1 - block.first,
            bias.head_stride};
  }

  Widened<S> rel_;
  const float scale_;
  const bool causal_;
};

template <typename S>
class PositionShift : public PositionRun<S> {
 public:
  PositionShift(const Problem& problem, const Arrays& arrays, Layout& layout)
      : PositionRun<S>(problem, arrays, layout,
                       ShiftPlan(PositionSizes(problem))),
        counts_(sizes_, rows_.plan().blocks()),
        by_offset_(layout, counts_.by_offset),
        by_key_(layout, counts_.by_key),
        offsets_k_(layout, counts_.offsets_k),
        reversed_keys_(layout, counts_.reversed_keys),
        offsets_q_(layout, counts_.offsets_q) {}

  double Flops() const override {
    const auto d = static_cast<double>(sizes_.d);
    double flops = CommonFlops(sizes_);
    if (sizes_.relative())
      rows_.plan().blocks().ForEach([&](const RowBlock& block) {
        const auto rows = static_cast<double>(block.heads * block.rows);
        flops += 2 * rows * static_cast<double>(sizes_.n + block.rows - 1) * d;
        if (sizes_.Is(PositionScheme::kDeberta))
          flops += 2 * static_cast<double>(block.heads * sizes_.padded_keys()) *
                   static_cast<double>(block.rows + kKeysOfBlock - 1) * d;
      });
    if (sizes_.Is(PositionScheme::kDeberta))
      flops += 4 * static_cast<double>(sizes_.vectors * sizes_.offsets()) * d *
               static_cast<double>(sizes_.D);
    return flops;
  }

 private:
  using PositionRun<S>::sizes_, PositionRun<S>::rows_, PositionRun<S>::q_,
      PositionRun<S>::k_;

  void ProjectOffsets() override {
    const int64_t n = sizes_.n, d = sizes_.d, keys = sizes_.padded_keys();
    const int64_t offsets = sizes_.offsets(), vectors = sizes_.vectors;
    this->Project("rel", offsets, "u_k", d, false, vectors, offsets_k_.data(),
                  d, offsets * d);
    this->Project("rel", offsets, "u_q", d, false, vectors, offsets_q_.data(),
                  d, (n + keys) * d);
    ReverseRows(k_.data(), sizes_.heads, n, d, keys * d, reversed_keys_.data());
  }

  void ExponentiateRelative(const RowBlock& block,
                            const BlockOfScores& scores) override {
    if (sizes_.Is(PositionScheme::kShaw)) {
      MultiplyOffsets(block, this->shaw_);
      rows_.Exponentiate(block, sizes_.n,
                         ShawScore{scores, by_offset_.data(),
                                   sizes_.OffsetStride(block.rows)});
      return;
    }
    MultiplyOffsets(block,
                    {offsets_k_.data(),
                     sizes_.vectors > 1 ? sizes_.offsets() * sizes_.d : 0});
    AddKeyTerm(block);
    rows_.Exponentiate(block, sizes_.n, PlainScore{scores});
  }

  // Computes by_offset_ = q_i . rel(x) for the offsets x of a block, which are
  // -(first + rows - 1) .. n - 1 - first.
  void MultiplyOffsets(const RowBlock& block, HeadArray<const float> offsets) {
    const int64_t n = sizes_.n, d = sizes_.d, count = n + block.rows - 1;
    const int64_t stride = sizes_.OffsetStride(block.rows);
    rows_.gemm().template Run<float>(
        block.heads, 1,
        {q_.data() + (block.first_head * n + block.first) * d, block.rows, d, d,
         n * d},
        {offsets.Head(block.first_head) + (n - block.first - block.rows) * d,
         count, d, d, offsets.head_stride, true},
        0, {by_offset_.data(), block.rows, count, stride, block.rows * stride});
  }

  // Computes the third term of deberta, by blocks of keys from the last one on,
  // and adds both terms to the scores.
  void AddKeyTerm(const RowBlock& block) {
    const int64_t n = sizes_.n, d = sizes_.d, keys = sizes_.padded_keys();
    const int64_t span = block.rows + kKeysOfBlock - 1;
    const int64_t stride = sizes_.KeyStride(block.rows);
    for (int64_t h = 0; h < block.heads; ++h) {
      const int64_t head = block.first_head + h;
      const int64_t vector = sizes_.vectors > 1 ? head : 0;
      rows_.gemm().template Run<float>(
          keys / kKeysOfBlock, 1,
          {reversed_keys_.data() + head * keys * d, kKeysOfBlock, d, d,
           kKeysOfBlock * d},
          {offsets_q_.data() + (vector * (n + keys) + block.first) * d, span, d,
           d, kKeysOfBlock * d, true},
          0,
          {by_key_.data() + h * keys * stride, kKeysOfBlock, span, stride,
           kKeysOfBlock * stride});
    }
    AddOffsetTerms(by_offset_.data(), sizes_.OffsetStride(block.rows),
                   by_key_.data(), stride, keys, block.heads, block.rows, n,
                   rows_.plan().stride(), rows_.scores());
  }

  const ShiftCounts counts_;
  DeviceBuffer<float> by_offset_, by_key_;
  DeviceBuffer<float> offsets_k_, reversed_keys_, offsets_q_;
};

template <typename S>
class PositionDense : public PositionRun<S> {
 public:
  PositionDense(const Problem& problem, const Arrays& arrays, Layout& layout)
      : PositionRun<S>(problem, arrays, layout,
                       DensePlan(PositionSizes(problem))),
        projected_(layout, ProjectedCount(sizes_)) {}

  double Flops() const override {
    const auto n = static_cast<double>(sizes_.n);
    double relative = 0;  // flops for one component of a pair
    if (sizes_.Is(PositionScheme::kShaw)) relative = 2;
    if (sizes_.Is(PositionScheme::kDeberta))
      relative = 4 * (static_cast<double>(sizes_.D) + 1);
    return CommonFlops(sizes_) +
           static_cast<double>(sizes_.heads * sizes_.d) * n * n * relative;
  }

 private:
  using PositionRun<S>::sizes_, PositionRun<S>::rows_, PositionRun<S>::q_,
      PositionRun<S>::k_;

  void ExponentiateRelative(const RowBlock& block,
                            const BlockOfScores& scores) override {
    const int64_t n = sizes_.n, d = sizes_.d;
    if (sizes_.Is(PositionScheme::kShaw))
      AddProducts(0, n, Queries(block.first_head, 0),
                  {this->shaw_.Head(block.first_head) + (n - 1) * d, -d, d});
    else
      for (int64_t first = 0; first < n; first += QueriesAtOnce(sizes_))
        AddProjected(block.first_head, first,
                     std::min(QueriesAtOnce(sizes_), n - first));
    rows_.Exponentiate(block, n, PlainScore{scores});
  }

  PairRows Queries(int64_t head, int64_t first) const {
    return {q_.data() + (head * sizes_.n + first) * sizes_.d, sizes_.d, 0};
  }

  void AddProducts(int64_t first, int64_t queries, const PairRows& a,
                   const PairRows& b) {
    const int64_t n = sizes_.n, stride = rows_.plan().stride();
    AddPairProducts(a, b, sizes_.d, queries, n, stride,
                    rows_.scores() + first * stride);
  }

  // Adds both terms of deberta: projects the offsets of each query by u_k, and
  // then by u_q.
  void AddProjected(int64_t head, int64_t first, int64_t count) {
    const int64_t n = sizes_.n, d = sizes_.d;
    // Ordered by keys, the offsets of query i begin at row n-1-i of rel: those
    // of the last query come first.
    ProjectWindows(head, "u_k", n - first - count, count);
    AddProducts(first, count, Queries(head, first),
                {projected_.data() + (count - 1) * n * d, -n * d, d});
    // The offset i - j increases as j decreases.
    ProjectWindows(head, "u_q", first, count);
    AddProducts(first, count, {k_.data() + head * n * d, 0, d},
                {projected_.data() + (n - 1) * d, n * d, -d});
  }

  // Computes projected_[b] = rows begin + b .. begin + b + n - 1 of rel times
  // weights.
  void ProjectWindows(int64_t head, const char* weights, int64_t begin,
                      int64_t count) {
    const int64_t n = sizes_.n, d = sizes_.d, D = sizes_.D;
    const auto rel = this->template In<S>("rel");
    const auto w = this->template In<S>(weights);
    rows_.gemm().template Run<S>(
        count, 1, {rel.Head(head) + begin * D, n, D, D, D},
        {w.Head(head), D, d, d, 0}, 0, {projected_.data(), n, d, d, n * d});
  }

  DeviceBuffer<float> projected_;
};

std::string WhyNotOnDevice(const Problem& problem) {
  if (TakesReleasedOrder(problem.params))
    return "the GPU implements only the paper's variant of deberta's last term";
  if (problem.params.Has("key_lengths"))
    return "the GPU needs the same number of keys in every batch item";
  return "";
}

}  // namespace
}  // namespace subquad::device

namespace subquad {

std::vector<Implementation> PositionAttentionCudaImplementations() {
  using namespace device;
  return DeviceTable(
      "position_attention",
      {{.id = "dense",
        .what = "scores in memory, offsets projected for each query (cuBLAS)",
        .sums = DirectSums,
        .why_not = WhyNotOnDevice,
        .prepare = PrepareOnDevice<PositionDense>()},
       {.id = "shift",
        .what = "positions projected once, GEMMs and shifts by blocks",
        .memory = {"O(n (d + e)), and scores that fit the cache", "n"},
        .sums = DirectSums,
        .why_not = WhyNotOnDevice,
        .prepare = PrepareOnDevice<PositionShift>()}});
}

}  // namespace subquad
