// The linear-time algorithms of linear_attention, as parts for other operators.
// Each works on one head after another or on one per thread, and none computes
// the features of more than a chunk of rows at a time.
#pragma once

#include <vector>

#include "optimized/base/buffer.h"
#include "optimized/kernelized/shape.h"

namespace subquad {

// Not causal: computes S = phi(K)^T V and z = phi(K)^T 1 once, then phi(Q) S /
// phi(Q) z. Keys are split into a fixed number of segments with partial sums of
// their own, so that the number of threads does not change the order of
// additions.
template <typename T>
class AssociativeAttention {
 public:
  AssociativeAttention(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const;

 private:
  static constexpr int64_t kChunk = 256;
  static constexpr int64_t kSegments = 8;

  struct State {
    State(Cut<T>& cut, const KernelizedShape& shape)
        : sums(cut(shape.f * ExtendedWidth<T>(shape.e))),
          scale(cut(shape.f)),
          live(cut(shape.f)) {}
    T* sums;  // [f, e] and a column of normalisers
    T *scale, *live;
  };
  struct Work {
    Work(Cut<T>& cut, const KernelizedShape& shape)
        : rows(cut(kChunk * ExtendedWidth<T>(shape.e))),
          mantissa(cut(kChunk * shape.f)),
          exponent(cut(kChunk * shape.f)),
          factor(cut(shape.f)),
          tops(cut(kChunk)),
          scratch(cut(FeatureRows<T>(shape.map).ScratchSize(kChunk))) {}
    T* rows;  // rows of values or of sums, extended
    T *mantissa, *exponent, *factor;
    T* tops;  // exponents of the rows of queries
    T* scratch;
  };
  State StateOf(int64_t segment) const;
  void AddKeys(const HeadTensors<T>& head, int64_t first, int64_t last,
               const State& state, const Work& work) const;
  void Merge() const;

  const KernelizedShape shape_;
  const FeatureRows<T> features_;
  const int64_t segments_;
  Buffer<T> states_;
  PerThread<T> work_;
};

// The part that the three causal algorithms below share. Tokens come in chunks;
// keys and queries of a chunk are scaled run by run, where a run ends at a key
// that does not fit the scale.
template <typename T>
class CausalTokens {
 public:
  CausalTokens(const KernelizedShape& shape, int64_t chunk, Layout& layout);
  void Begin(const HeadTensors<T>& head);
  // Loads queries [first, first + count), each with the last key that it sees,
  // if there is one.
  void Load(int64_t first, int64_t count);
  // Loads keys [first, first + count), which precede any query.
  void LoadKeys(int64_t first, int64_t count);
  // Keys of the chunk: its first keys() tokens have one, from first_key() on.
  int64_t keys() const { return keys_; }
  int64_t first_key() const { return first_key_; }
  // Returns the exponent of query t of the chunk, by which its sums are larger.
  T top(int64_t t) const { return tops_[t]; }
  // Computes the features of tokens from `start` on (within the chunk) until a
  // token needs another scale. Returns the end of the run, where the next one
  // starts; rows after it are unspecified. If the state must be brought to a
  // new scale first, factor() returns the factors, otherwise null. If the map
  // projects, features come from one GEMM whose shape does not depend on any
  // key's value.
  int64_t Scale(int64_t start, T* keys, T* queries);
  const T* factor() const { return raised_ ? factor_.data() : nullptr; }

 private:
  bool Plain(T* keys, T* queries);
  void Compute();

  const KernelizedShape shape_;
  const FeatureRows<T> features_;
  Buffer<T> k_mantissa_, k_exponent_, q_mantissa_, q_exponent_;
  Buffer<T> scale_numbers_, live_, factor_, tops_, scratch_;
  HeadTensors<T> head_;
  RunningKeyScale<T> scale_;
  int64_t count_ = 0;  // tokens
  int64_t first_key_ = 0, keys_ = 0, first_query_ = 0, queries_ = 0;
  bool raised_ = false;
};

// Causal, a few tokens at a time: S += phi(k) v^T, out = phi(q)^T S / phi(q)^T
// z, with a panel of S's columns in registers for three tokens (Transformers II
// eq. 20).
template <typename T>
class RecurrentAttention {
 public:
  RecurrentAttention(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const;

 private:
  static constexpr int64_t kChunk = 48;  // a multiple of three

  // The state and workspace of the head that a worker processes.
  struct Worker {
    Worker(Layout& layout, const KernelizedShape& shape);
    CausalTokens<T> tokens;
    Buffer<T> state, values, sums, totals, keys, queries;
  };
  void Absorb(const HeadTensors<T>& head, Worker& worker);
  void RunHead(const HeadTensors<T>& head, Worker& worker);

  const KernelizedShape shape_;
  std::vector<Worker> workers_;
};

// Causal, chunks of tokens as GEMMs: the chunk's own triangle and the state.
template <typename T>
class ChunkedAttention {
 public:
  ChunkedAttention(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const;

 private:
  static constexpr int64_t kChunk = 128;

  static int64_t ChunkOf(const KernelizedShape& shape) {
    return shape.seen.first() > 0 ? kChunk : std::min(kChunk, shape.n_q);
  }
  struct Worker {
    Worker(Layout& layout, const KernelizedShape& shape);
    CausalTokens<T> tokens;
    Buffer<T> state, keys, queries, scores, sums, values;
  };
  void Absorb(const HeadTensors<T>& head, Worker& worker);
  void RunHead(const HeadTensors<T>& head, Worker& worker);

  const KernelizedShape shape_;
  std::vector<Worker> workers_;
};

// Causal, all running sums S_1 .. S_n in memory at once (LRPE section II): kept
// for comparison, it needs n f e elements of memory.
template <typename T>
class PrefixSumAttention {
 public:
  PrefixSumAttention(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const;

 private:
  static constexpr int64_t kChunk = 64;

  void RunHead(ThreadPool& pool, const HeadTensors<T>& head);
  void AddChunk(const HeadTensors<T>& head, int64_t count, int64_t query);

  const KernelizedShape shape_;
  const int64_t keys_;  // keys that some query sees
  CausalTokens<T> tokens_;
  Buffer<T> sums_, totals_, queries_, tops_, k_rows_;
};

extern template class AssociativeAttention<float>;
extern template class AssociativeAttention<double>;
extern template class RecurrentAttention<float>;
extern template class RecurrentAttention<double>;
extern template class ChunkedAttention<float>;
extern template class ChunkedAttention<double>;
extern template class PrefixSumAttention<float>;
extern template class PrefixSumAttention<double>;

}  // namespace subquad
