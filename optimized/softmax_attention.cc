// softmax_attention: out_i = softmax_j(scale q_i.k_j + bias(j-i)) v (FastRPB
// eq. 1; NPRF eq. 1 and 6; Transformers II eq. 1 and 11)
//
//   dense   two GEMMs with the scores in memory, 256 queries at a time, and a
//           vectorised softmax of the rows between them: O(n^2 (d+e)) time,
//           O(n^2) memory. The usual algorithm, at the speed of a good GEMM.
//   tiled   exact, without the scores: a block of queries in the SIMD lanes
//           against tiles of keys that stay in the cache, sums rescaled as the
//           largest score grows (softmax_tiles.h). Same operations, O(n)
//           memory, faster than dense at every size; the baseline to beat.
//
// With `causal` or a window both skip tiles in which no query sees a key.
//
// Backward, `dense` stores the weights and the gradients of the scores of a
// head (dense_gradient.h: five GEMMs); `tiled` processes its tiles twice,
// forward for the sums of the weights and backward with the scores recomputed
// (gradient_tiles.h: seven products a tile), in O(n) memory.
#include <algorithm>
#include <cstdlib>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimized/base/prepare.h"
#include "optimized/base/product.h"
#include "optimized/base/shared_gradient.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/softmax/dense_gradient.h"
#include "optimized/softmax/gradient_tiles.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/contract/bucket_edges.h"
#include "reference/contract/kernelized.h"
#include "reference/contract/packed_sequences.h"
#include "reference/contract/pair_places.h"
#include "reference/contract/softmax_scale.h"

namespace subquad {
namespace {

// Consecutive queries, or keys, of a sequence, by indices within it.
struct Block {
  int64_t sequence, first, count;

  int64_t end() const { return first + count; }
};

// The entries of a bias by offset. An input has one for each offset of any
// sequence. A bias that is made of slopes or buckets has those of one sequence
// after another, and none for the offsets between sequences that are far apart.
class OffsetEntries {
 public:
  // The offsets of one sequence, as they follow each other in the entries.
  struct Range {
    int64_t entry, count;
    int64_t offset;  // of the key from the query's position, at the first entry
  };

  OffsetEntries(const Problem& problem, const PackedSequences& sequences)
      : count_(IsMade(problem) ? 0 : sequences.Offsets()) {
    for (const PackedSequence& own : sequences.all()) {
      if (!IsMade(problem)) {
        of_zero_.push_back(sequences.Entry(own, 0));
        continue;
      }
      of_zero_.push_back(count_ + own.queries - 1);
      const int64_t count = std::max<int64_t>(own.queries + own.keys - 1, 0);
      made_.push_back({count_, count, 1 - own.queries - own.seen.first()});
      count_ += count;
    }
  }

  static bool IsMade(const Problem& problem) {
    return problem.HasInput("slopes") || problem.HasInput("buckets");
  }

  int64_t count() const { return count_; }
  // Returns the entry for query i and the first key of a sequence.
  int64_t Of(int64_t sequence, int64_t i) const {
    return of_zero_[static_cast<size_t>(sequence)] - i;
  }
  // Returns the sequences of a bias that is made.
  const std::vector<Range>& made() const { return made_; }

 private:
  int64_t count_;
  std::vector<int64_t> of_zero_;  // for query 0 of each sequence
  std::vector<Range> made_;
};

struct Sizes {
  explicit Sizes(const Problem& problem)
      : n_q(problem.queries),
        n_k(problem.keys),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        heads(problem.heads),
        has_bias(problem.HasInput("bias")),
        has_sinks(problem.HasInput("sinks")),
        has_lse(IndexOf(problem.outputs, "lse") >= 0),
        has_grad_lse(problem.HasInput("grad_lse")),
        softcap(Softcap(problem)),
        sequences(problem),
        entries(problem, sequences),
        positions{problem.params.Has("width") ? problem.Dim("width") : 0} {}

  bool is_image() const { return positions.image_width > 0; }
  // Returns the bias of a head for query i and the first key of their sequence,
  // or of an image for query i and the key at position 0.
  template <typename T>
  const T* BiasOf(const T* bias, const PackedSequence& own, int64_t i) const {
    return bias + (is_image() ? positions.Of(n_q - 1) - positions.Of(i)
                              : Entry(own, i));
  }
  // Returns the entry of a bias by offset for query i and the first key of
  // their sequence.
  int64_t Entry(const PackedSequence& own, int64_t i) const {
    return entries.Of(&own - sequences.all().data(), i);
  }

  // Splits the queries, or the keys, of every sequence into blocks.
  std::vector<Block> Blocks(int64_t size,
                            int64_t PackedSequence::*count) const {
    std::vector<Block> blocks;
    for (const PackedSequence& own : sequences.all())
      for (int64_t first = 0; first < own.*count; first += size)
        blocks.push_back({&own - sequences.all().data(), first,
                          std::min(size, own.*count - first)});
    return blocks;
  }
  std::vector<Block> QueryBlocks(int64_t size) const {
    return Blocks(size, &PackedSequence::queries);
  }
  const PackedSequence& Of(const Block& block) const {
    return sequences.all()[static_cast<size_t>(block.sequence)];
  }

  // Hides the keys of a tile, from key j on, that its queries, from `row` on,
  // do not see. Padding is not part of a tile.
  template <typename T>
  static void Hide(const SeenKeys& seen, int64_t row, int64_t j,
                   SoftmaxBlock<T>& block) {
    if (seen.LimitsAhead()) block.HideAfter(row + seen.LastOfZero() - j);
    if (seen.LimitsBehind()) block.HideBefore(row + seen.FirstOfZero() - j);
  }

  // Counts the flops of the pairs that are computed if this many queries
  // process their keys together.
  double Flops(int64_t size) const {
    double pairs = 0;
    for (const Block& block : QueryBlocks(size)) {
      const SeenKeys& seen = Of(block).seen;
      for (int64_t h = 0; h < heads; ++h)
        pairs += static_cast<double>(block.count) *
                 static_cast<double>(seen.Before(h, block.end()) -
                                     seen.From(h, block.first));
    }
    return 2 * pairs * static_cast<double>(d + e);
  }

  // Returns the first query of a sequence, rounded down to a whole block of
  // this size, that sees key j or a later one.
  static int64_t FirstToSee(const PackedSequence& own, int64_t h, int64_t j,
                            int64_t size) {
    const auto before = [&](int64_t end) {
      return own.seen.Before(h, std::min(end, own.queries));
    };
    int64_t first = 0;
    while (first < own.queries && before(first + size) <= j) first += size;
    return std::min(first, own.queries);
  }

  int64_t n_q, n_k, d, e, heads;
  bool has_bias, has_sinks, has_lse, has_grad_lse;
  double softcap;  // 0: none
  PackedSequences sequences;
  OffsetEntries entries;
  TokenPositions positions;
};

// The bias of each head by offset (OffsetEntries). It is an input, or made of
// slopes or of a table of buckets.
template <typename T>
class OffsetBias {
 public:
  OffsetBias(const Problem& problem, const OffsetEntries& entries,
             const Arrays& arrays, Layout& layout)
      : arrays_(arrays),
        has_bias_(problem.HasInput("bias")),
        source_(problem.HasInput("slopes")    ? "slopes"
                : problem.HasInput("buckets") ? "buckets"
                                              : ""),
        slices_(is_made() ? problem.SlicesOf(source_) : Slices()),
        count_(entries.count()),
        ranges_(entries.made()),
        made_(layout, is_made() ? slices_.count() * count_ : 0) {
    if (!problem.HasInput("buckets")) return;
    const BucketEdges edges(problem);
    for (const OffsetEntries::Range& range : ranges_)
      buckets_.push_back(edges.From(range.offset, range.count));
  }

  // True if it is not an input itself.
  bool is_made() const { return !source_.empty(); }
  // Names the input that it is made of.
  const std::string& source() const { return source_; }

  // Makes the biases, at the beginning of every run.
  void Compute() const {
    for (int64_t slice = 0; is_made() && slice < slices_.count(); ++slice) {
      const T* const from = arrays_.In<T>(source_).Slice(slice);
      T* const to = made_.data() + slice * count_;
      ForEntries(
          [&](int64_t entry, T distance) { to[entry] = -*from * distance; },
          [&](int64_t entry, int64_t bucket) { to[entry] = from[bucket]; });
    }
  }

  // Returns null if there is no bias.
  const T* Head(int64_t head) const {
    if (is_made()) return made_.data() + slices_.Of(head) * count_;
    return has_bias_ ? arrays_.In<T>("bias").Head(head) : nullptr;
  }

  // Computes the gradient of a slice of the source, given that of each entry.
  void SourceGradient(const T* gradient, T* to) const {
    std::fill_n(to, arrays_.In<T>(source_).slice_size, T{0});
    ForEntries(
        [&](int64_t entry, T distance) { *to -= gradient[entry] * distance; },
        [&](int64_t entry, int64_t bucket) { to[bucket] += gradient[entry]; });
  }

 private:
  // Calls one of these for each entry, with what it is made of.
  template <typename OfSlope, typename OfTable>
  void ForEntries(const OfSlope& of_slope, const OfTable& of_table) const {
    for (size_t s = 0; s < ranges_.size(); ++s)
      for (int64_t t = 0; t < ranges_[s].count; ++t)
        if (buckets_.empty())
          of_slope(ranges_[s].entry + t,
                   static_cast<T>(std::abs(ranges_[s].offset + t)));
        else
          of_table(ranges_[s].entry + t, buckets_[s][static_cast<size_t>(t)]);
  }

  const Arrays arrays_;
  const bool has_bias_;
  const std::string source_;  // empty: none
  const Slices slices_;       // of the source
  const int64_t count_;
  const std::vector<OffsetEntries::Range> ranges_;
  // Of each entry of a range; empty: made of slopes.
  std::vector<std::vector<int64_t>> buckets_;
  Buffer<T> made_;
};

// An input with an entry for each query and key, or none.
template <typename T>
class PairInput {
 public:
  PairInput(const Problem& problem, const Arrays& arrays,
            const std::string& name)
      : is_given_(problem.HasInput(name)) {
    if (!is_given_) return;
    array_ = arrays.In<T>(name);
    places_ = PairPlaces::Of(problem, name);
  }

  bool is_given() const { return is_given_; }
  const PairPlaces& places() const { return places_; }
  const T* At(int64_t head, int64_t i, int64_t j) const {
    return array_.Head(head) + places_.At(i, j);
  }

 private:
  const bool is_given_;
  HeadArray<const T> array_;
  PairPlaces places_;
};

// What the inputs for each pair, mask and pair_bias, do to scores.
template <typename T>
class OfPairs {
 public:
  OfPairs(const Problem& problem, const Arrays& arrays)
      : bias_(problem, arrays, "pair_bias"), mask_(problem, arrays, "mask") {}

  const PairInput<T>& bias() const { return bias_; }

  // Changes the scores of query i and `count` keys from `key` on.
  void Apply(int64_t head, int64_t i, int64_t key, int64_t count,
             T* scores) const {
    if (bias_.is_given()) {
      const T* const bias = bias_.At(head, i, key);
      const int64_t step = bias_.places().key;
      for (int64_t j = 0; j < count; ++j) scores[j] += bias[j * step];
    }
    if (mask_.is_given()) {
      const T* const mask = mask_.At(head, i, key);
      const int64_t step = mask_.places().key;
      for (int64_t j = 0; j < count; ++j)
        if (mask[j * step] == 0)
          scores[j] = -std::numeric_limits<T>::infinity();
    }
  }

  // Changes the scores of a tile, from query `row` and key j on.
  void Apply(int64_t head, int64_t row, int64_t j,
             SoftmaxBlock<T>& block) const {
    if (bias_.is_given())
      block.AddPairs(bias_.At(head, row, j), bias_.places());
    if (mask_.is_given())
      block.HidePairs(mask_.At(head, row, j), mask_.places());
  }

 private:
  const PairInput<T> bias_, mask_;
};

// Rows of the scores that one task fills, weighs and multiplies.
constexpr int64_t kRowBlock = 256;

template <typename T>
class DenseSoftmax : public Prepared {
 public:
  DenseSoftmax(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        bias_(problem, sizes_.entries, arrays, layout),
        pairs_(problem, arrays),
        pool_(layout),
        blocks_(sizes_.QueryBlocks(kRowBlock)),
        scores_(layout, sizes_.n_q * sizes_.n_k) {}

  void Run() override {
    bias_.Compute();
    for (int64_t h = 0; h < sizes_.heads; ++h)
      pool_.For(std::ssize(blocks_), [&](int64_t index, int) {
        RunBlock(h, blocks_[static_cast<size_t>(index)]);
      });
  }

  double Flops() const override { return sizes_.Flops(kRowBlock); }

 private:
  void RunBlock(int64_t h, const Block& block) {
    const int64_t n_k = sizes_.n_k, d = sizes_.d, e = sizes_.e;
    const PackedSequence& own = sizes_.Of(block);
    const SeenKeys& seen = own.seen;
    const int64_t first = block.first, rows = block.count;
    // Column 0 is the first key that one of these queries sees.
    const int64_t begin = seen.From(h, first);
    const int64_t keys = seen.Before(h, block.end()) - begin;
    const int64_t query = own.first_query + first, key = own.first_key + begin;
    const auto q = RowsOf(arrays_.In<T>("q").Head(h) + query * d, rows, d);
    const auto k = RowsOf(arrays_.In<T>("k").Head(h) + key * d, keys, d);
    const auto v = RowsOf(arrays_.In<T>("v").Head(h) + key * e, keys, e);
    auto scores = RowsOf(scores_.data() + query * n_k, rows, keys, n_k);
    auto out = RowsOf(arrays_.Out<T>("out").Head(h) + query * e, rows, e);
    Multiply(scale_, q, k.transpose(), scores);
    T sums[kRowBlock];
    for (int64_t i = 0; i < rows; ++i) {
      T* row = scores_.data() + (query + i) * n_k;
      const int64_t from = seen.From(h, first + i) - begin;
      const int64_t visible = seen.By(h, first + i) - begin;
      if (sizes_.softcap > 0)
        CapRow<T>(row + from, visible - from, static_cast<T>(sizes_.softcap),
                  nullptr);
      const T* bias = bias_.Head(h);
      if (bias) bias = sizes_.BiasOf(bias, own, first + i);
      if (bias && sizes_.is_image()) {
        for (int64_t j = from; j < visible; ++j)
          row[j] += bias[sizes_.positions.Of(begin + j)];
        bias = nullptr;
      }
      pairs_.Apply(h, query + i, key + from, visible - from, row + from);
      T sink = sizes_.has_sinks ? *arrays_.In<T>("sinks").Head(h) : T{0};
      sums[i] = ExponentiateRow(
          row + from, visible - from, bias ? bias + begin + from : nullptr,
          sizes_.has_sinks ? &sink : nullptr,
          sizes_.has_lse ? arrays_.Out<T>("lse").Head(h) + query + i : nullptr);
      std::fill(row, row + from, T{0});
      std::fill(row + visible, row + keys, T{0});
    }
    Multiply(T{1}, scores, v, out);
    for (int64_t i = 0; i < rows; ++i) out.row(i) /= sums[i];
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  const OffsetBias<T> bias_;
  const OfPairs<T> pairs_;
  ThreadPool pool_;
  const std::vector<Block> blocks_;
  Buffer<T> scores_;
};

// The backward pass of `dense`: its two GEMMs and five more, with the weights
// and the gradients of the scores of one head in memory.
template <typename T>
class DenseSoftmaxGradient : public Prepared {
 public:
  DenseSoftmaxGradient(const Problem& problem, const Arrays& arrays,
                       Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        bias_(problem, sizes_.entries, arrays, layout),
        pairs_(problem, arrays),
        pool_(layout),
        query_blocks_(sizes_.QueryBlocks(kRowBlock)),
        key_blocks_(sizes_.Blocks(kRowBlock, &PackedSequence::keys)),
        gradient_(layout, sizes_.n_q, sizes_.n_k, sizes_.e),
        slopes_(layout, sizes_.softcap > 0 ? sizes_.n_q * sizes_.n_k : 0),
        sink_weights_(layout, sizes_.has_sinks ? sizes_.n_q : 0),
        diagonals_(layout, bias_.is_made() ? sizes_.entries.count() : 0),
        grad_q_(layout, arrays, "grad_q", sizes_.heads),
        grad_k_(layout, arrays, "grad_k", sizes_.heads),
        grad_v_(layout, arrays, "grad_v", sizes_.heads) {
    if (sizes_.has_bias)
      grad_bias_.emplace(layout, arrays, "grad_bias", sizes_.heads);
    if (sizes_.has_sinks)
      grad_sinks_.emplace(layout, arrays, "grad_sinks", sizes_.heads);
    if (bias_.is_made())
      grad_source_.emplace(layout, arrays, "grad_" + bias_.source(),
                           sizes_.heads);
  }

  void Run() override {
    bias_.Compute();
    const auto for_each = [&](const std::vector<Block>& blocks,
                              const auto& run) {
      pool_.For(std::ssize(blocks), [&](int64_t index, int) {
        run(blocks[static_cast<size_t>(index)]);
      });
    };
    for (int64_t h = 0; h < sizes_.heads; ++h) {
      for_each(query_blocks_, [&](const Block& block) { RunScores(h, block); });
      if (grad_bias_) AddBiasGradient(h);
      if (pairs_.bias().is_given()) AddPairGradient(h);
      if (grad_sinks_) AddSinkGradient(h);
      if (grad_source_) {
        AddDiagonals(diagonals_.data());
        bias_.SourceGradient(diagonals_.data(), grad_source_->Head(h));
      }
      for_each(query_blocks_,
               [&](const Block& block) { RunQueries(h, block); });
      for_each(key_blocks_, [&](const Block& block) { RunKeys(h, block); });
    }
    grad_q_.AddUp(pool_);
    grad_k_.AddUp(pool_);
    grad_v_.AddUp(pool_);
    if (grad_bias_) grad_bias_->AddUp(pool_);
    if (grad_sinks_) grad_sinks_->AddUp(pool_);
    if (grad_source_) grad_source_->AddUp(pool_);
  }

  // Counts scores, grad_q and grad_k of width d; g.v and grad_v of width e.
  double Flops() const override {
    const double d = static_cast<double>(sizes_.d);
    const double e = static_cast<double>(sizes_.e);
    return sizes_.Flops(kRowBlock) * (3 * d + 2 * e) / (d + e);
  }

 private:
  // Computes the weights of these queries, and the gradients of their scores.
  void RunScores(int64_t h, const Block& block) {
    const int64_t n_k = sizes_.n_k, d = sizes_.d;
    const PackedSequence& own = sizes_.Of(block);
    const auto [begin, keys] = KeysOf(h, block);
    const int64_t first = own.first_query + block.first, rows = block.count;
    const auto q = RowsOf(arrays_.In<T>("q").Head(h) + first * d, rows, d);
    const auto k = RowsOf(arrays_.In<T>("k").Head(h) + begin * d, keys, d);
    auto scores = RowsOf(gradient_.Weights(first) + begin, rows, keys, n_k);
    Multiply(scale_, q, k.transpose(), scores);
    for (int64_t r = 0; r < rows; ++r) {
      const int64_t i = first + r, in_sequence = block.first + r;
      const int64_t from = own.first_key + own.seen.From(h, in_sequence);
      const int64_t visible = own.first_key + own.seen.By(h, in_sequence);
      T* const row = gradient_.Weights(i);
      if (sizes_.softcap > 0)
        CapRow(row + begin, keys, static_cast<T>(sizes_.softcap),
               slopes_.data() + i * n_k + begin);
      const T* bias = bias_.Head(h);
      if (bias) bias = sizes_.BiasOf(bias, own, in_sequence) - own.first_key;
      if (bias && sizes_.is_image()) {
        for (int64_t j = from; j < visible; ++j)
          row[j] += bias[sizes_.positions.Of(j)];
        bias = nullptr;
      }
      pairs_.Apply(h, i, from, visible - from, row + from);
      if (sizes_.has_sinks) sink_weights_[i] = *arrays_.In<T>("sinks").Head(h);
      gradient_.Exponentiate(i, from, visible, bias,
                             sizes_.has_sinks ? &sink_weights_[i] : nullptr);
    }
    gradient_.Scores(
        first, rows, begin + keys, arrays_.In<T>("grad").Head(h),
        arrays_.In<T>("v").Head(h),
        sizes_.has_grad_lse ? arrays_.In<T>("grad_lse").Head(h) : nullptr,
        begin);
  }

  // Keys [first, first + count) of all.
  struct KeyRange {
    int64_t first, count;
  };
  // Returns the keys that the queries of a block see.
  KeyRange KeysOf(int64_t h, const Block& block) const {
    const PackedSequence& own = sizes_.Of(block);
    const int64_t begin = own.seen.From(h, block.first);
    return {own.first_key + begin, own.seen.Before(h, block.end()) - begin};
  }

  // Computes grad_q, once the gradient of the bias is there: a softcap's
  // derivatives are factors of the gradients of the scaled products only.
  void RunQueries(int64_t h, const Block& block) {
    const int64_t d = sizes_.d;
    const auto [begin, keys] = KeysOf(h, block);
    const int64_t first = sizes_.Of(block).first_query + block.first;
    const int64_t rows = block.count;
    const auto k = RowsOf(arrays_.In<T>("k").Head(h) + begin * d, keys, d);
    auto scores = gradient_.ScoreRows(first, rows, keys, begin);
    if (sizes_.softcap > 0)
      scores.array() *= RowsOf(slopes_.data() + first * sizes_.n_k + begin,
                               rows, keys, sizes_.n_k)
                            .array();
    auto grad_q = RowsOf(grad_q_.Head(h) + first * d, rows, d);
    Multiply(scale_, scores, k, grad_q);
  }

  void AddSinkGradient(int64_t h) {
    T sum = 0;
    for (int64_t i = 0; i < sizes_.n_q; ++i)
      sum -= sink_weights_[i] * gradient_.Dot(i);
    *grad_sinks_->Head(h) = sum;
  }

  void AddBiasGradient(int64_t h) {
    T* const out = grad_bias_->Head(h);
    if (!sizes_.is_image()) return AddDiagonals(out);
    const TokenPositions& positions = sizes_.positions;
    std::fill_n(out, 2 * positions.Of(sizes_.n_q - 1) + 1, T{0});
    const auto scores = gradient_.ScoreRows(0, sizes_.n_q, sizes_.n_k);
    for (int64_t i = 0; i < sizes_.n_q; ++i) {
      T* const to = out + positions.Of(sizes_.n_q - 1) - positions.Of(i);
      for (int64_t j = 0; j < sizes_.n_k; ++j)
        to[positions.Of(j)] += scores(i, j);
    }
  }

  // Computes the gradient of each entry of a bias by offset.
  void AddDiagonals(T* out) {
    std::vector<typename DenseGradient<T>::Diagonal> rows;
    for (const PackedSequence& own : sizes_.sequences.all())
      for (int64_t i = 0; i < own.queries; ++i)
        rows.push_back({own.first_key, own.first_key + own.keys,
                        sizes_.Entry(own, i) - own.first_key});
    gradient_.Diagonals(pool_, sizes_.entries.count(), rows, out);
  }

  // Adds the gradients of this head's scores, in pieces that share no entry.
  void AddPairGradient(int64_t h) {
    const HeadArray<T> out = arrays_.Out<T>("grad_pair_bias");
    T* const to = out.Head(h);
    if (out.slices.IsFirst(h)) std::fill_n(to, out.slice_size, T{0});
    const PairPlaces& places = pairs_.bias().places();
    const int64_t n_q = sizes_.n_q, n_k = sizes_.n_k;
    const auto scores = gradient_.ScoreRows(0, n_q, n_k);
    const auto add = [&](int64_t i, int64_t key, int64_t end) {
      for (int64_t j = key; j < end; ++j) to[places.At(i, j)] += scores(i, j);
    };
    if (places.query > 0)
      return pool_.For(n_q, [&](int64_t i, int) { add(i, 0, n_k); });
    const int64_t piece = places.key > 0 ? kRowBlock : n_k;
    pool_.For((n_k + piece - 1) / piece, [&](int64_t index, int) {
      const int64_t key = index * piece;
      for (int64_t i = 0; i < n_q; ++i) add(i, key, std::min(key + piece, n_k));
    });
  }

  void RunKeys(int64_t h, const Block& block) {
    const int64_t d = sizes_.d;
    const PackedSequence& own = sizes_.Of(block);
    const int64_t key = own.first_key + block.first, keys = block.count;
    const int64_t first =
        own.first_query + Sizes::FirstToSee(own, h, block.first, kRowBlock);
    const int64_t end = own.first_query + own.queries;
    gradient_.Values(key, keys, first, arrays_.In<T>("grad").Head(h),
                     grad_v_.Head(h), end);
    const auto q =
        RowsOf(arrays_.In<T>("q").Head(h) + first * d, end - first, d);
    auto grad_k = RowsOf(grad_k_.Head(h) + key * d, keys, d);
    Multiply(scale_, gradient_.ScoreColumns(first, key, keys, end).transpose(),
             q, grad_k);
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  const OffsetBias<T> bias_;
  const OfPairs<T> pairs_;
  ThreadPool pool_;
  const std::vector<Block> query_blocks_, key_blocks_;
  DenseGradient<T> gradient_;
  Buffer<T> slopes_;        // of the softcap, [n_q, n_k]
  Buffer<T> sink_weights_;  // [n_q]
  Buffer<T> diagonals_;     // gradients by offset, of one head
  SharedGradient<T> grad_q_, grad_k_, grad_v_;
  std::optional<SharedGradient<T>> grad_bias_, grad_sinks_, grad_source_;
};

template <typename T>
class TiledSoftmax : public Prepared {
 public:
  TiledSoftmax(const Problem& problem, const Arrays& arrays, Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        bias_(problem, sizes_.entries, arrays, layout),
        pairs_(problem, arrays),
        pool_(layout),
        together_(Together(sizes_, layout.threads())),
        tasks_(sizes_.QueryBlocks(together_ * kBlockQueries<T>)) {
    for (int64_t block = 0; block < layout.threads() * together_; ++block)
      blocks_.emplace_back(layout, sizes_.d, sizes_.e);
  }

  void Run() override {
    bias_.Compute();
    const int64_t tasks = std::ssize(tasks_);
    // Starts with the longest rows of a causal problem, so that threads finish
    // together.
    pool_.For(sizes_.heads * tasks, [&](int64_t index, int worker) {
      RunBlocks(index / tasks,
                tasks_[static_cast<size_t>(tasks - 1 - index % tasks)],
                blocks_.data() + worker * together_);
    });
  }

  double Flops() const override { return sizes_.Flops(kBlockQueries<T>); }

 private:
  // Blocks of queries that use a tile of keys while it is in cache: up to four,
  // as long as every thread has four tasks. No bit of a result depends on it.
  static int64_t Together(const Sizes& sizes, int threads) {
    const int64_t blocks =
        sizes.heads * std::ssize(sizes.QueryBlocks(kBlockQueries<T>));
    return std::clamp<int64_t>(blocks / (4 * threads), 1, 4);
  }

  void RunBlocks(int64_t h, const Block& task, SoftmaxBlock<T>* blocks) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const PackedSequence& own = sizes_.Of(task);
    const T* q = arrays_.In<T>("q").Head(h) + own.first_query * d;
    const T* k = arrays_.In<T>("k").Head(h) + own.first_key * d;
    const T* v = arrays_.In<T>("v").Head(h) + own.first_key * e;
    T* const out = arrays_.Out<T>("out").Head(h) + own.first_query * e;
    const int64_t first = task.first, last = task.end();
    const auto for_blocks = [&](const auto& work) {
      for (int64_t row = first; row < last; row += kBlockQueries<T>)
        work(row, std::min(kBlockQueries<T>, last - row),
             blocks[(row - first) / kBlockQueries<T>]);
    };
    const SeenKeys& seen = own.seen;
    const T* const bias = bias_.Head(h);
    const T* const sink =
        sizes_.has_sinks ? arrays_.In<T>("sinks").Head(h) : nullptr;
    for_blocks([&](int64_t row, int64_t rows, SoftmaxBlock<T>& block) {
      block.Begin(q + row * d, d, rows, scale_, sink);
    });
    for (int64_t j = seen.From(h, first) / kTileKeys * kTileKeys;
         j < seen.Before(h, last); j += kTileKeys)
      for_blocks([&](int64_t row, int64_t rows, SoftmaxBlock<T>& block) {
        const int64_t visible = seen.Before(h, row + rows);
        if (j >= visible || j + kTileKeys <= seen.From(h, row)) return;
        block.Scores(k + j * d, d, std::min(kTileKeys, visible - j));
        if (sizes_.softcap > 0) block.Cap(static_cast<T>(sizes_.softcap));
        if (bias && sizes_.is_image())
          AddImageBias(bias, row, rows, j, std::min(kTileKeys, visible - j),
                       block);
        else if (bias)  // bias of query `row` and key j first
          block.AddBias(sizes_.BiasOf(bias, own, row) + j);
        pairs_.Apply(h, own.first_query + row, own.first_key + j, block);
        Sizes::Hide(seen, row, j, block);
        block.Accumulate(v + j * e, e);
      });
    T* const lse = sizes_.has_lse
                       ? arrays_.Out<T>("lse").Head(h) + own.first_query
                       : nullptr;
    for_blocks([&](int64_t row, int64_t, SoftmaxBlock<T>& block) {
      if (lse) block.LogSums(lse + row);
      block.End(out + row * e, e);
    });
  }

  // The queries of a block may be in several rows of the image.
  void AddImageBias(const T* of_head, int64_t row, int64_t rows, int64_t key,
                    int64_t keys, SoftmaxBlock<T>& block) const {
    const T* bias = sizes_.BiasOf(of_head, sizes_.sequences.all().front(), row);
    int64_t back[kBlockQueries<T>];  // from query `row` to each
    for (int64_t i = 0; i < rows; ++i)
      back[i] = sizes_.positions.Of(row + i) - sizes_.positions.Of(row);
    for (int64_t j = 0; j < keys; ++j) {
      const T* at = bias + sizes_.positions.Of(key + j);
      T* scores = &block.Score(0, j);
      for (int64_t i = 0; i < rows; ++i) scores[i] += at[-back[i]];
    }
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  const OffsetBias<T> bias_;
  const OfPairs<T> pairs_;
  ThreadPool pool_;
  const int64_t together_;
  const std::vector<Block> tasks_;
  std::vector<SoftmaxBlock<T>> blocks_;
};

// Processes one block of queries after another, forward and backward
// (gradient_tiles.h). The blocks of a head are assigned to a fixed number of
// parts, each with its own sums over queries, so that threads change no bit.
// Heads that share a pair bias form a group, whose heads a part processes one
// after the other: it alone adds to the gradients of its queries' pairs.
template <typename T>
class TiledSoftmaxGradient : public Prepared {
 public:
  TiledSoftmaxGradient(const Problem& problem, const Arrays& arrays,
                       Layout& layout)
      : sizes_(problem),
        scale_(ScoreScale<T>(problem)),
        arrays_(arrays),
        bias_(problem, sizes_.entries, arrays, layout),
        pairs_(problem, arrays),
        pool_(layout),
        groups_(Groups(problem)),
        query_blocks_(sizes_.QueryBlocks(kBlockQueries<T>)),
        parts_(Parts(std::ssize(query_blocks_), std::ssize(groups_))),
        offsets_(sizes_.has_bias || bias_.is_made() ? sizes_.entries.count()
                                                    : 0),
        part_size_(WholeLines<T>(sizes_.n_k * (sizes_.d + sizes_.e) + 1 +
                                 (offsets_ > 0 ? offsets_ + 2 * kMargin : 0))),
        sums_(layout, sizes_.heads * parts_ * part_size_),
        pair_part_size_(pairs_.bias().is_given() &&
                                pairs_.bias().places().query == 0
                            ? arrays.Out<T>("grad_pair_bias").slice_size
                            : 0),
        pair_sums_(layout, std::ssize(groups_) * parts_ * pair_part_size_),
        blocks_(PartPerThread<GradientBlock<T>>(layout, sizes_.d, sizes_.e,
                                                sizes_.softcap > 0)),
        grad_q_(layout, arrays, "grad_q", sizes_.heads),
        grad_k_(layout, arrays, "grad_k", sizes_.heads),
        grad_v_(layout, arrays, "grad_v", sizes_.heads) {
    if (sizes_.has_bias)
      grad_bias_.emplace(layout, arrays, "grad_bias", sizes_.heads);
    if (sizes_.has_sinks)
      grad_sinks_.emplace(layout, arrays, "grad_sinks", sizes_.heads);
    if (bias_.is_made())
      grad_source_.emplace(layout, arrays, "grad_" + bias_.source(),
                           sizes_.heads);
  }

  void Run() override {
    bias_.Compute();
    pool_.For(std::ssize(groups_) * parts_, [&](int64_t index, int worker) {
      const int64_t group = index / parts_, part = index % parts_;
      ClearPairs(group, part);
      for (const int64_t h : groups_[static_cast<size_t>(group)])
        RunPart(h, part, PairSums(group, part), blocks_[worker]);
    });
    pool_.For(sizes_.heads, [&](int64_t h, int) { AddParts(h); });
    if (pair_part_size_ > 0)
      pool_.For(std::ssize(groups_),
                [&](int64_t group, int) { AddPairParts(group); });
    grad_q_.AddUp(pool_);
    grad_k_.AddUp(pool_);
    grad_v_.AddUp(pool_);
    if (grad_bias_) grad_bias_->AddUp(pool_);
    if (grad_sinks_) grad_sinks_->AddUp(pool_);
    if (grad_source_) grad_source_->AddUp(pool_);
  }

  // Counts the forward pass; the scores again, grad_q and grad_k of width d;
  // g.v and grad_v of width e.
  double Flops() const override {
    const double d = static_cast<double>(sizes_.d);
    const double e = static_cast<double>(sizes_.e);
    return sizes_.Flops(kBlockQueries<T>) * (4 * d + 3 * e) / (d + e);
  }

 private:
  static constexpr int64_t kMargin = GradientBlock<T>::kMargin;

  // Uses as many parts as keep 16 threads busy, and no more than there are
  // blocks.
  static int64_t Parts(int64_t blocks, int64_t groups) {
    return std::min(std::clamp<int64_t>(16 / groups, 1, 8), blocks);
  }

  // Returns the heads that share a pair bias, by slice; without one, each head
  // by itself.
  static std::vector<std::vector<int64_t>> Groups(const Problem& problem) {
    std::vector<std::vector<int64_t>> groups;
    if (problem.HasInput("pair_bias")) {
      const Slices slices = problem.SlicesOf("pair_bias");
      for (int64_t slice = 0; slice < slices.count(); ++slice)
        groups.push_back(slices.Readers(slice));
    } else {
      for (int64_t h = 0; h < problem.heads; ++h) groups.push_back({h});
    }
    return groups;
  }

  // Returns where a part adds the gradients of pairs: to the output if it has
  // rows for each query, or to sums of its own. Null without a pair bias.
  T* PairSums(int64_t group, int64_t part) const {
    if (!pairs_.bias().is_given()) return nullptr;
    return pair_part_size_ > 0
               ? pair_sums_.data() + (group * parts_ + part) * pair_part_size_
               : arrays_.Out<T>("grad_pair_bias").Slice(group);
  }

  // Sets the entries to zero to which this part adds.
  void ClearPairs(int64_t group, int64_t part) const {
    T* const sums = PairSums(group, part);
    if (!sums) return;
    if (pair_part_size_ > 0) {
      std::fill_n(sums, pair_part_size_, T{0});
      return;
    }
    const int64_t step = pairs_.bias().places().query;
    ForBlocks(part, [&](const Block& block) {
      const int64_t row = sizes_.Of(block).first_query + block.first;
      std::fill_n(sums + row * step, block.count * step, T{0});
    });
  }

  // Calls work for the blocks of a part.
  template <typename Work>
  void ForBlocks(int64_t part, const Work& work) const {
    for (int64_t index = part; index < std::ssize(query_blocks_);
         index += parts_)
      work(query_blocks_[static_cast<size_t>(index)]);
  }

  struct Sums {
    T *grad_k, *grad_v, *grad_sink, *grad_bias;
  };
  Sums SumsOf(int64_t h, int64_t part) const {
    T* const first = sums_.data() + (h * parts_ + part) * part_size_;
    T* const values = first + sizes_.n_k * sizes_.d;
    T* const sink = values + sizes_.n_k * sizes_.e;
    return {first, values, sink, sink + 1 + kMargin};
  }

  void RunPart(int64_t h, int64_t part, T* pair_sums, GradientBlock<T>& block) {
    const int64_t d = sizes_.d, e = sizes_.e;
    const Sums sums = SumsOf(h, part);
    std::fill_n(sums.grad_k, part_size_, T{0});
    const T* const bias = bias_.Head(h);
    const T* const sink =
        sizes_.has_sinks ? arrays_.In<T>("sinks").Head(h) : nullptr;
    const T* const grad_lse =
        sizes_.has_grad_lse ? arrays_.In<T>("grad_lse").Head(h) : nullptr;
    const PairPlaces& places = pairs_.bias().places();
    ForBlocks(part, [&](const Block& queries) {
      const PackedSequence& own = sizes_.Of(queries);
      const T* const k = arrays_.In<T>("k").Head(h) + own.first_key * d;
      const T* const v = arrays_.In<T>("v").Head(h) + own.first_key * e;
      T* const grad_k = sums.grad_k + own.first_key * d;
      T* const grad_v = sums.grad_v + own.first_key * e;
      const int64_t row = queries.first, query = own.first_query + row;
      const int64_t visible = own.seen.Before(h, queries.end());
      const int64_t begin = own.seen.From(h, row) / kTileKeys * kTileKeys;
      const int64_t entry = sizes_.Entry(own, row);
      const auto for_tiles = [&](const auto& use) {
        for (int64_t j = begin; j < visible; j += kTileKeys) {
          block.scores().Scores(k + j * d, d, std::min(kTileKeys, visible - j));
          if (sizes_.softcap > 0) block.Cap(static_cast<T>(sizes_.softcap));
          if (bias) block.scores().AddBias(bias + entry + j);
          pairs_.Apply(h, query, own.first_key + j, block.scores());
          Sizes::Hide(own.seen, row, j, block.scores());
          use(j);
        }
      };
      block.Begin(arrays_.In<T>("q").Head(h) + query * d, queries.count, scale_,
                  arrays_.In<T>("grad").Head(h) + query * e, sink,
                  grad_lse ? grad_lse + query : nullptr);
      for_tiles([&](int64_t j) { block.scores().Accumulate(v + j * e, e); });
      block.Turn();
      if (sink) *sums.grad_sink += block.SinkGradient(*sink);
      for_tiles([&](int64_t j) {
        block.Accumulate(
            k + j * d, v + j * e, grad_k + j * d, grad_v + j * e,
            {.diagonals = bias ? sums.grad_bias + entry + j : nullptr,
             .pairs = pair_sums
                          ? pair_sums + places.At(query, own.first_key + j)
                          : nullptr,
             .places = places});
      });
      block.End(grad_q_.Head(h) + query * d, scale_);
    });
  }

  void AddPairParts(int64_t group) {
    T* const to = arrays_.Out<T>("grad_pair_bias").Slice(group);
    std::copy_n(PairSums(group, 0), pair_part_size_, to);
    for (int64_t part = 1; part < parts_; ++part) {
      const T* const more = PairSums(group, part);
      for (int64_t x = 0; x < pair_part_size_; ++x) to[x] += more[x];
    }
  }

  // Adds the parts in order.
  void AddParts(int64_t h) {
    const auto add = [&](T* to, int64_t count, T* Sums::*from) {
      const T* const first = SumsOf(h, 0).*from;
      if (to != first) std::copy_n(first, count, to);
      for (int64_t part = 1; part < parts_; ++part) {
        const T* const more = SumsOf(h, part).*from;
        for (int64_t x = 0; x < count; ++x) to[x] += more[x];
      }
    };
    add(grad_k_.Head(h), sizes_.n_k * sizes_.d, &Sums::grad_k);
    add(grad_v_.Head(h), sizes_.n_k * sizes_.e, &Sums::grad_v);
    if (grad_bias_) add(grad_bias_->Head(h), offsets_, &Sums::grad_bias);
    if (grad_sinks_) add(grad_sinks_->Head(h), 1, &Sums::grad_sink);
    if (!grad_source_) return;
    T* const diagonals = SumsOf(h, 0).grad_bias;
    add(diagonals, offsets_, &Sums::grad_bias);
    bias_.SourceGradient(diagonals, grad_source_->Head(h));
  }

  const Sizes sizes_;
  const T scale_;
  const Arrays arrays_;
  const OffsetBias<T> bias_;
  const OfPairs<T> pairs_;
  ThreadPool pool_;
  const std::vector<std::vector<int64_t>> groups_;  // of heads
  const std::vector<Block> query_blocks_;
  const int64_t parts_, offsets_, part_size_;
  Buffer<T> sums_;  // over the queries of each part
  const int64_t pair_part_size_;
  Buffer<T> pair_sums_;  // of each group and part; empty if outputs have them
  std::vector<GradientBlock<T>> blocks_;
  SharedGradient<T> grad_q_, grad_k_, grad_v_;
  std::optional<SharedGradient<T>> grad_bias_, grad_sinks_, grad_source_;
};

std::string NoImageBiasBackward(const Problem& problem) {
  return problem.backward && problem.HasInput("bias") &&
                 problem.params.Has("height")
             ? "the gradient of an image's bias is not implemented"
             : "";
}

}  // namespace

std::vector<Implementation> SoftmaxAttentionImplementations() {
  return CpuTable(
      "softmax_attention",
      {{.id = "dense",
        .what = "two GEMMs (Eigen) with the scores in memory",
        .sums = DirectSums,
        .backward = true,
        .prepare = PrepareForEither<DenseSoftmax, DenseSoftmaxGradient>},
       {.id = "tiled",
        .what = "online softmax over tiles of keys, queries in the SIMD lanes",
        .memory = {"O(d+e) per thread", "1"},
        .sums = DirectSums,
        .backward = true,
        .why_not = NoImageBiasBackward,
        .prepare = PrepareForEither<TiledSoftmax, TiledSoftmaxGradient>}});
}

}  // namespace subquad
