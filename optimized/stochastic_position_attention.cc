// stochastic_position_attention: attention on q^ and k^ (SPE; FastRPB eq. 8)
//
//   dense        q^ and k^, then the attention's dense implementation.
//   tiled        softmax: q^ and k^, then online softmax without scores.
//   associative  linear, not causal: q^ and k^, then one state.
//   recurrent    linear, causal: q^ and k^, then token by token.
//   chunked      linear, causal: q^ and k^, then chunks of tokens.
//
// All begin by computing q^ and k^ [n, R], blocks of tokens at a time:
//   sine  rows x_a g_ac cos(..), x_a g_ac sin(..) of 2 d C values times the
//         noise as one matrix [2 d C, R]: O(n d C R), and n d C cosines.
//   conv  q^_i[r] = sum_a x_a sum_p filter[a,p] z_a,i+p[r]: one channel a after
//         the other, four tokens by a few vectors of draws in registers, which
//         share the rows of noise: O(n d P R). A block's noise of one channel
//         stays in cache.
// The attentions are implementations of softmax_attention and linear_attention.
#include "reference/contract/stochastic_position_attention.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <numbers>

#include "optimized/base/buffer.h"
#include "optimized/base/lanes.h"
#include "optimized/base/prepare.h"
#include "optimized/base/thread_pool.h"
#include "optimized/implementations.h"
#include "optimized/kernelized/shape.h"
#include "optimized/kernelized/waves.h"
#include "optimized/softmax/softmax_tiles.h"
#include "reference/contract/find_implementation.h"

namespace subquad {
namespace {

// Returns f i modulo 1, for an integer i: whole turns are removed from f first,
// exactly, and the low part of the product is kept.
template <typename T>
T Turns(T frequency, T position) {
  frequency -= std::nearbyint(frequency);
  const T product = frequency * position;
  const T low = std::fma(frequency, position, -product);
  return (product - std::nearbyint(product)) + low;
}

// Returns the implementation of the attention itself.
const Implementation& ProgramOf(const Problem& problem, const char* id) {
  static const auto kSoftmax = SoftmaxAttentionImplementations();
  static const auto kLinear = LinearAttentionImplementations();
  return FindImplementation(IsSoftmax(problem) ? kSoftmax : kLinear, id);
}

// Sizes of tokens of one kind: q with its phases or filters, or k.
struct TokenSizes {
  TokenSizes(const Problem& problem, bool queries)
      : sine(IsSine(problem)),
        rows(problem.Dim(!sine     ? "n"
                         : queries ? "n_q"
                                   : "n_k")),
        d(problem.Dim("d")),
        steps(problem.Dim(sine ? "components" : "taps")),
        draws(problem.Dim("draws")) {}

  bool sine;
  int64_t rows, d, steps, draws;
};

constexpr int64_t kBlock = 32;  // tokens of one task

// Computes q^ and k^ of all heads.
template <typename T>
class NoisyTokens {
 public:
  NoisyTokens(Layout& layout, const Problem& problem, const Arrays& arrays)
      : queries_(problem, true),
        keys_(problem, false),
        heads_(problem.heads),
        arrays_(arrays),
        q_(layout, heads_ * queries_.rows * queries_.draws),
        k_(layout, heads_ * keys_.rows * keys_.draws),
        work_(layout, WorkSize(queries_)) {}

  double Flops() const {
    const double per_draw = static_cast<double>(queries_.d * queries_.steps *
                                                (queries_.sine ? 4 : 2));
    return static_cast<double>(q_.size() + k_.size()) * per_draw;
  }

  T* queries() const { return q_.data(); }
  T* keys() const { return k_.data(); }

  void Make(ThreadPool& pool) {
    const int64_t q_blocks = (queries_.rows + kBlock - 1) / kBlock;
    const int64_t k_blocks = (keys_.rows + kBlock - 1) / kBlock;
    pool.For(heads_ * (q_blocks + k_blocks), [&](int64_t task, int worker) {
      const int64_t head = task / (q_blocks + k_blocks);
      const int64_t block = task % (q_blocks + k_blocks);
      T* work = work_[worker];
      if (block < q_blocks)
        MakeBlock(queries_, "q", head, block * kBlock, q_.data(), work);
      else
        MakeBlock(keys_, "k", head, (block - q_blocks) * kBlock, k_.data(),
                  work);
    });
  }

 private:
  static constexpr int kGroup = 4;  // tokens that share rows of noise
  // Sums of a group occupy half of the registers.
  static constexpr int kVectors = kVectorRegisters / 2 / kGroup;

  static int64_t WorkSize(const TokenSizes& sizes) {
    const int64_t numbers = sizes.sine
                                ? (2 * kBlock + 2) * sizes.d * sizes.steps
                                : sizes.steps + 2 * (kGroup - 1);
    return WholeLines<T>(numbers);
  }

  void MakeBlock(const TokenSizes& sizes, const char* name, int64_t head,
                 int64_t first, T* all, T* work) const {
    const int64_t count = std::min(kBlock, sizes.rows - first);
    const T* tokens = arrays_.In<T>(name).Head(head) + first * sizes.d;
    T* out = all + (head * sizes.rows + first) * sizes.draws;
    if (sizes.sine)
      MakeSine(sizes, tokens, head, *name == 'q', first, count, out, work);
    else
      MakeConv(sizes, tokens, head, *name == 'q', first, count, out, work);
    const T factor = 1 / std::sqrt(static_cast<T>(sizes.draws));
    for (int64_t x = 0; x < count * sizes.draws; ++x) out[x] *= factor;
  }

  void MakeSine(const TokenSizes& sizes, const T* tokens, int64_t head,
                bool phases, int64_t first, int64_t count, T* out,
                T* work) const {
    const T* freqs = arrays_.In<T>("freqs").Head(head);
    const T* gains = arrays_.In<T>("gains").Head(head);
    const T* phase = arrays_.In<T>("phases").Head(head);
    const int64_t angles = sizes.d * sizes.steps;
    T* angle = work;
    T* weight = work + angles;
    T* rows = work + 2 * angles;
    for (int64_t i = 0; i < count; ++i) {
      const T position = static_cast<T>(first + i);
      for (int64_t x = 0; x < angles; ++x)
        angle[x] = 2 * std::numbers::pi_v<T> * Turns(freqs[x], position) +
                   (phases ? phase[x] : T{0});
      const T* token = tokens + i * sizes.d;
      for (int64_t a = 0; a < sizes.d; ++a)
        for (int64_t x = a * sizes.steps; x < (a + 1) * sizes.steps; ++x)
          weight[x] = token[a] * gains[x];
      WriteWaves(angle, weight, angles, rows + i * 2 * angles);
    }
    MultiplyInOrder(rows, 2 * angles, count, 2 * angles,
                    arrays_.In<T>("z").Head(head), sizes.draws, out);
  }

  void MakeConv(const TokenSizes& sizes, const T* tokens, int64_t head,
                bool queries, int64_t first, int64_t count, T* out,
                T* work) const {
    const T* filters =
        arrays_.In<T>(queries ? "filters_q" : "filters_k").Head(head);
    const int64_t length = sizes.rows + sizes.steps - 1;
    const T* noise = arrays_.In<T>("z").Head(head) + first * sizes.draws;
    // Pads the filter with zeros, for the rows of noise that only some tokens
    // of a group see.
    constexpr int64_t kPad = kGroup - 1;
    std::fill_n(work, sizes.steps + 2 * kPad, T{0});
    std::fill_n(out, count * sizes.draws, T{0});
    for (int64_t a = 0; a < sizes.d; ++a) {
      std::copy_n(filters + a * sizes.steps, sizes.steps, work + kPad);
      const Channel channel{.filter = work + kPad,
                            .steps = sizes.steps,
                            .noise = noise + a * length * sizes.draws,
                            .draws = sizes.draws,
                            .tokens = tokens + a,
                            .d = sizes.d};
      int64_t i = 0;
      for (; i + kGroup <= count; i += kGroup)
        AddChannel<kGroup>(channel, i, out);
      for (; i < count; ++i) AddChannel<1>(channel, i, out);
    }
  }

  // One channel a of conv: its filter, noise [tokens + steps - 1, draws] and
  // tokens x_a (d apart).
  struct Channel {
    const T* filter;  // with kGroup - 1 zeros before and after it
    int64_t steps;
    const T* noise;
    int64_t draws;
    const T* tokens;
    int64_t d;
  };

  // Processes a group of tokens that share the rows of noise, as many draws at
  // a time as fit into registers.
  template <int kTokens>
  static void AddChannel(const Channel& channel, int64_t first, T* out) {
    constexpr int64_t kLanes = kLaneCount<T>;
    const int64_t draws = channel.draws;
    int64_t r = 0;
    for (; r + kVectors * kLanes <= draws; r += kVectors * kLanes)
      AddDraws<Lanes<T>, kVectors, kTokens>(channel, first, r, out);
    for (; r + kLanes <= draws; r += kLanes)
      AddDraws<Lanes<T>, 1, kTokens>(channel, first, r, out);
    for (; r < draws; ++r) AddDraws<T, 1, kTokens>(channel, first, r, out);
  }

  // Loads a vector or a scalar from any address.
  template <typename V>
  static V Load(const T* from) {
    V value;
    std::memcpy(&value, from, sizeof value);
    return value;
  }

  // Computes out_i += x_i sum_p filter[p] noise[i+p] for kTokens tokens from
  // `first` on.
  template <typename V, int kCount, int kTokens>
  static void AddDraws(const Channel& channel, int64_t first, int64_t r,
                       T* out) {
    constexpr int64_t kLanes = sizeof(V) / sizeof(T);
    V sums[kTokens][kCount] = {};
    const T* noise = channel.noise + first * channel.draws + r;
    for (int64_t m = 0; m < channel.steps + kTokens - 1; ++m) {
      const T* row = noise + m * channel.draws;
      for (int c = 0; c < kCount; ++c) {
        const V some = Load<V>(row + c * kLanes);
        for (int t = 0; t < kTokens; ++t)
          sums[t][c] += channel.filter[m - t] * some;
      }
    }
    for (int t = 0; t < kTokens; ++t) {
      const T x = channel.tokens[(first + t) * channel.d];
      T* to = out + (first + t) * channel.draws + r;
      for (int c = 0; c < kCount; ++c) {
        const V sum = Load<V>(to + c * kLanes) + x * sums[t][c];
        std::memcpy(to + c * kLanes, &sum, sizeof sum);
      }
    }
  }

  const TokenSizes queries_, keys_;
  const int64_t heads_;
  const Arrays arrays_;
  Buffer<T> q_, k_;
  PerThread<T> work_;
};

template <typename T>
class AttentionOnTokens : public Prepared {
 public:
  AttentionOnTokens(const Problem& problem, const Arrays& arrays,
                    Layout& layout, const char* id)
      : inner_(AttentionOnNoise(problem, ScoreScale<double>(problem))),
        pool_(layout),
        tokens_(layout, problem, arrays) {
    Arrays inner;
    for (size_t t = 0; t < inner_.inputs.size(); ++t) {
      const std::string& name = inner_.inputs[t].name;
      if (name == "q" || name == "k") {
        inner.inputs.push_back(
            {name, problem.scalar,
             name == "q" ? tokens_.queries() : tokens_.keys(),
             inner_.InputSlices(t), ElementCount(inner_.InputShape(t))});
        continue;
      }
      for (const Arrays::Entry& entry : arrays.inputs)
        if (entry.name == name) inner.inputs.push_back(entry);
    }
    inner.outputs = arrays.outputs;
    attention_ = ProgramOf(problem, id).prepare(inner_, inner, layout);
  }

  void Run() override {
    tokens_.Make(pool_);
    attention_->Run();
  }

  double Flops() const override {
    return tokens_.Flops() + attention_->Flops();
  }

 private:
  const Problem inner_;
  ThreadPool pool_;
  NoisyTokens<T> tokens_;
  std::unique_ptr<Prepared> attention_;
};

Implementation RowOf(const char* id, const char* what_it_does) {
  const auto prepare = [id](const Problem& problem, const Arrays& arrays,
                            Layout& layout) {
    return ForScalar(problem, [&]<typename T>() -> std::unique_ptr<Prepared> {
      return std::make_unique<AttentionOnTokens<T>>(problem, arrays, layout,
                                                    id);
    });
  };
  return {
      .id = id, .what = what_it_does, .sums = DirectSums, .prepare = prepare};
}

}  // namespace

std::vector<Implementation> StochasticPositionAttentionImplementations() {
  return CpuTable(
      "stochastic_position_attention",
      {RowOf("dense", "q^ and k^, then all weights in memory, by GEMMs"),
       RowOf("tiled", "q^ and k^, then online softmax without scores"),
       RowOf("associative", "q^ and k^, then one state for all queries"),
       RowOf("recurrent", "q^ and k^, then token by token"),
       RowOf("chunked", "q^ and k^, then chunks of tokens as GEMMs")});
}

}  // namespace subquad
