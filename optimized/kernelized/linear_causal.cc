#include "optimized/kernelized/linear_parts.h"

namespace subquad {

template <typename T>
CausalTokens<T>::CausalTokens(const KernelizedShape& shape, int64_t chunk,
                              Layout& layout)
    : shape_(shape),
      features_(shape.map),
      k_mantissa_(layout, chunk * shape.f),
      k_exponent_(layout, chunk * shape.f),
      q_mantissa_(layout, chunk * shape.f),
      q_exponent_(layout, chunk * shape.f),
      scale_numbers_(layout, shape.f),
      live_(layout, shape.f),
      factor_(layout, shape.f),
      tops_(layout, chunk),
      scratch_(layout, features_.ScratchSize(chunk)),
      scale_(scale_numbers_.data(), live_.data(), shape.f) {}

template <typename T>
void CausalTokens<T>::Begin(const HeadTensors<T>& head) {
  head_ = head;
  scale_.Clear();
}

template <typename T>
void CausalTokens<T>::Load(int64_t first, int64_t count) {
  first_query_ = first;
  queries_ = count_ = count;
  first_key_ = KeysBefore(shape_, head_) + first;
  keys_ = std::clamp<int64_t>(head_.keys - first_key_, 0, count);
}

template <typename T>
void CausalTokens<T>::LoadKeys(int64_t first, int64_t count) {
  queries_ = 0;
  keys_ = count_ = count;
  first_key_ = first;
}

// Processes the whole chunk as one run, if its features are plain.
template <typename T>
bool CausalTokens<T>::Plain(T* keys, T* queries) {
  if (!scale_.Plain() ||
      !features_.Plain(head_.k + first_key_ * shape_.d, keys_, head_.omega,
                       scratch_.data(), keys) ||
      !features_.Plain(head_.q + first_query_ * shape_.d, queries_, head_.omega,
                       scratch_.data(), queries))
    return false;
  head_.HideKeys(first_key_, keys_, shape_.f, keys);
  scale_.SeePlain(keys, keys_, factor_.data());
  std::fill_n(keys + keys_ * shape_.f, (count_ - keys_) * shape_.f, T{0});
  std::fill_n(tops_.data(), queries_, T{0});
  return true;
}

template <typename T>
void CausalTokens<T>::Compute() {
  if (keys_ > 0) {
    features_.Compute(head_.k + first_key_ * shape_.d, keys_, head_.omega,
                      scratch_.data(), k_mantissa_.data(), k_exponent_.data());
    head_.HideKeys(first_key_, keys_, shape_.f, k_mantissa_.data(),
                   k_exponent_.data());
  }
  if (queries_ > 0)
    features_.Compute(head_.q + first_query_ * shape_.d, queries_, head_.omega,
                      scratch_.data(), q_mantissa_.data(), q_exponent_.data());
}

template <typename T>
int64_t CausalTokens<T>::Scale(int64_t start, T* keys, T* queries) {
  const int64_t f = shape_.f;
  raised_ = false;
  if (start == 0) {
    if (Plain(keys, queries)) return count_;
    Compute();
  }
  for (int64_t t = start; t < count_; ++t) {
    if (t < keys_) {
      const T* exponent = k_exponent_.data() + t * f;
      if (!scale_.Fits(exponent)) {
        if (t > start) return t;
        scale_.Raise(exponent, factor_.data());
        raised_ = true;
      }
      scale_.See(exponent);
      scale_.KeyValues(k_mantissa_.data() + t * f, exponent, keys + t * f);
    } else {
      std::fill_n(keys + t * f, f, T{0});
    }
    if (t < queries_)
      tops_[t] =
          scale_.QueryValues(q_mantissa_.data() + t * f,
                             q_exponent_.data() + t * f, queries + t * f);
  }
  return count_;
}

// ---- recurrent ------------------------------------------------------

namespace {

// Computes, for tokens in order, state += k v^T and sums = q^T state, on
// kVectors vectors of columns. Each token's arithmetic is the same for any
// number of tokens in the call.
template <typename T, int kTokens, int kVectors>
void StepPanel(const T* keys, const T* queries, int64_t f, const T* values,
               int64_t width, T* state, T* sums) {
  constexpr int64_t kCount = kLaneCount<T>;
  using V = Lanes<T>;
  V value[kTokens][kVectors], sum[kTokens][kVectors];
  for (int t = 0; t < kTokens; ++t)
    for (int c = 0; c < kVectors; ++c) {
      value[t][c] = LoadLanes(values + t * width + c * kCount);
      sum[t][c] = V{};
    }
  for (int64_t a = 0; a < f; ++a) {
    T* const row = state + a * width;
    V s[kVectors];
    for (int c = 0; c < kVectors; ++c) s[c] = LoadLanes(row + c * kCount);
    for (int t = 0; t < kTokens; ++t) {
      const T key = keys[t * f + a], query = queries[t * f + a];
      for (int c = 0; c < kVectors; ++c) {
        s[c] += key * value[t][c];
        sum[t][c] += query * s[c];
      }
    }
    for (int c = 0; c < kVectors; ++c) StoreLanes(s[c], row + c * kCount);
  }
  for (int t = 0; t < kTokens; ++t)
    for (int c = 0; c < kVectors; ++c)
      StoreLanes(sum[t][c], sums + t * width + c * kCount);
}

template <typename T, int kTokens>
void Step(const T* keys, const T* queries, int64_t f, const T* values,
          int64_t width, T* state, T* sums) {
  // Values and sums of three tokens and the state have to fit the registers.
  constexpr int kMost = kVectorRegisters / 8;
  constexpr int64_t kLanes = kLaneCount<T>;
  int64_t c = 0;
  for (; c + kMost * kLanes <= width; c += kMost * kLanes)
    StepPanel<T, kTokens, kMost>(keys, queries, f, values + c, width, state + c,
                                 sums + c);
  if constexpr (kMost > 2)
    for (; c + 2 * kLanes <= width; c += 2 * kLanes)
      StepPanel<T, kTokens, 2>(keys, queries, f, values + c, width, state + c,
                               sums + c);
  for (; c < width; c += kLanes)
    StepPanel<T, kTokens, 1>(keys, queries, f, values + c, width, state + c,
                             sums + c);
}

// Computes totals += key; returns query . totals.
template <typename T>
T StepTotals(const T* key, const T* query, int64_t f, T* totals) {
  constexpr int64_t kCount = kLaneCount<T>;
  T lanes[kCount] = {};
  int64_t a = 0;
  for (; a + kCount <= f; a += kCount)
    for (int64_t l = 0; l < kCount; ++l) {
      totals[a + l] += key[a + l];
      lanes[l] += query[a + l] * totals[a + l];
    }
  for (int64_t l = 0; a < f; ++a, ++l) {
    totals[a] += key[a];
    lanes[l] += query[a] * totals[a];
  }
  for (int64_t half = kCount / 2; half > 0; half /= 2)
    for (int64_t l = 0; l < half; ++l) lanes[l] += lanes[l + half];
  return lanes[0];
}

}  // namespace

template <typename T>
RecurrentAttention<T>::Worker::Worker(Layout& layout,
                                      const KernelizedShape& shape)
    : tokens(shape, kChunk, layout),
      state(layout, shape.f * WholeVectors<T>(shape.e)),
      values(layout, kChunk * WholeVectors<T>(shape.e)),
      sums(layout, kChunk * WholeVectors<T>(shape.e)),
      totals(layout, shape.f),
      keys(layout, kChunk * shape.f),
      queries(layout, kChunk * shape.f) {}

template <typename T>
RecurrentAttention<T>::RecurrentAttention(const KernelizedShape& shape,
                                          Layout& layout)
    : shape_(shape) {
  for (int64_t w = 0; w < std::min<int64_t>(layout.threads(), shape.heads); ++w)
    workers_.emplace_back(layout, shape);
}

template <typename T>
void RecurrentAttention<T>::Run(ThreadPool& pool,
                                const std::vector<HeadTensors<T>>& heads) {
  const size_t tasks = workers_.size();
  pool.For(static_cast<int64_t>(tasks), [&](int64_t task, int) {
    const size_t worker = static_cast<size_t>(task);
    for (size_t h = worker; h < heads.size(); h += tasks)
      RunHead(heads[h], workers_[worker]);
  });
}

// Computes state and totals of the keys before the first query, by GEMM.
template <typename T>
void RecurrentAttention<T>::Absorb(const HeadTensors<T>& head, Worker& worker) {
  const int64_t f = shape_.f, e = shape_.e, width = WholeVectors<T>(e);
  const int64_t before = KeysBefore(shape_, head);
  T *const keys = worker.keys.data(), *const values = worker.values.data(),
           *const totals = worker.totals.data();
  auto state = RowsOf(worker.state.data(), f, width);
  for (int64_t first = 0; first < before; first += kChunk) {
    const int64_t count = std::min(kChunk, before - first);
    worker.tokens.LoadKeys(first, count);
    for (int64_t t = 0; t < count; ++t)
      std::copy_n(head.v + (first + t) * e, e, values + t * width);
    for (int64_t start = 0, end = 0; start < count; start = end) {
      end = worker.tokens.Scale(start, keys, worker.queries.data());
      if (const T* factor = worker.tokens.factor()) {
        Rescale(factor, f, width, worker.state.data());
        Rescale(factor, f, 1, worker.totals.data());
      }
      const auto run = RowsOf(keys + start * f, end - start, f);
      AddProduct(run.transpose(),
                 RowsOf(values + start * width, end - start, width), state);
      for (int64_t t = start; t < end; ++t)
        for (int64_t a = 0; a < f; ++a) totals[a] += keys[t * f + a];
    }
  }
}

template <typename T>
void RecurrentAttention<T>::RunHead(const HeadTensors<T>& head,
                                    Worker& worker) {
  const int64_t f = shape_.f, e = shape_.e, width = WholeVectors<T>(e);
  CausalTokens<T>& tokens = worker.tokens;
  tokens.Begin(head);
  T *const state = worker.state.data(), *const values = worker.values.data(),
           *const sums = worker.sums.data(),
           *const totals = worker.totals.data(),
           *const keys = worker.keys.data(),
           *const queries = worker.queries.data();
  std::fill_n(state, f * width, T{0});
  std::fill_n(totals, f, T{0});
  std::fill_n(values, kChunk * width, T{0});
  Absorb(head, worker);
  for (int64_t first = 0; first < shape_.n_q; first += kChunk) {
    const int64_t count = std::min(kChunk, shape_.n_q - first);
    tokens.Load(first, count);
    // Rows of whole vectors are used in place.
    const T* rows = head.v + tokens.first_key() * e;
    if (e != width || tokens.keys() < count) {
      for (int64_t t = 0; t < tokens.keys(); ++t)
        std::copy_n(rows + t * e, e, values + t * width);
      rows = values;
    }
    for (int64_t start = 0, end = 0; start < count; start = end) {
      end = tokens.Scale(start, keys, queries);
      if (tokens.factor()) {
        Rescale(tokens.factor(), f, width, state);
        Rescale(tokens.factor(), f, 1, totals);
      }
      int64_t t = start;
      for (; t + 3 <= end; t += 3)
        Step<T, 3>(keys + t * f, queries + t * f, f, rows + t * width, width,
                   state, sums + t * width);
      for (; t < end; ++t)
        Step<T, 1>(keys + t * f, queries + t * f, f, rows + t * width, width,
                   state, sums + t * width);
      for (t = start; t < end; ++t) {
        const T total = StepTotals(keys + t * f, queries + t * f, f, totals);
        WriteRow(shape_.normaliser, sums + t * width, total,
                 ScaleOfSums(static_cast<double>(tokens.top(t))), e,
                 head.out + (first + t) * e);
      }
    }
  }
}

template <typename T>
double RecurrentAttention<T>::Flops() const {
  return static_cast<double>(shape_.heads) *
         (FeatureFlops(shape_) + AbsorbFlops(shape_) +
          4.0 * static_cast<double>(shape_.n_q) *
              static_cast<double>(shape_.f) *
              static_cast<double>(shape_.e + 1));
}

// ---- chunked --------------------------------------------------------

template <typename T>
ChunkedAttention<T>::Worker::Worker(Layout& layout,
                                    const KernelizedShape& shape)
    : tokens(shape, ChunkOf(shape), layout),
      state(layout, shape.f * ExtendedWidth<T>(shape.e)),
      keys(layout, ChunkOf(shape) * shape.f),
      queries(layout, ChunkOf(shape) * shape.f),
      scores(layout, ChunkOf(shape) * ChunkOf(shape)),
      sums(layout, ChunkOf(shape) * ExtendedWidth<T>(shape.e)),
      values(layout, ChunkOf(shape) * ExtendedWidth<T>(shape.e)) {}

template <typename T>
ChunkedAttention<T>::ChunkedAttention(const KernelizedShape& shape,
                                      Layout& layout)
    : shape_(shape) {
  for (int64_t w = 0; w < std::min<int64_t>(layout.threads(), shape.heads); ++w)
    workers_.emplace_back(layout, shape);
}

template <typename T>
void ChunkedAttention<T>::Run(ThreadPool& pool,
                              const std::vector<HeadTensors<T>>& heads) {
  const size_t tasks = workers_.size();
  pool.For(static_cast<int64_t>(tasks), [&](int64_t task, int) {
    const size_t worker = static_cast<size_t>(task);
    for (size_t h = worker; h < heads.size(); h += tasks)
      RunHead(heads[h], workers_[worker]);
  });
}

template <typename T>
void ChunkedAttention<T>::Absorb(const HeadTensors<T>& head, Worker& worker) {
  const int64_t f = shape_.f, e = shape_.e, width = ExtendedWidth<T>(e);
  const int64_t chunk = ChunkOf(shape_), before = KeysBefore(shape_, head);
  T *const keys = worker.keys.data(), *const values = worker.values.data(),
           *const state = worker.state.data();
  for (int64_t first = 0; first < before; first += chunk) {
    const int64_t count = std::min(chunk, before - first);
    worker.tokens.LoadKeys(first, count);
    ExtendValues(head.v + first * e, count, e, values);
    for (int64_t start = 0, end = 0; start < count; start = end) {
      end = worker.tokens.Scale(start, keys, worker.queries.data());
      if (worker.tokens.factor())
        Rescale(worker.tokens.factor(), f, width, state);
      AddProduct(RowsOf(keys + start * f, end - start, f).transpose(),
                 RowsOf(values + start * width, end - start, width),
                 RowsOf(state, f, width));
    }
  }
}

// The GEMMs of a run have the shape of the whole chunk, with rows of zeros for
// tokens outside: a library may add in another order for another shape, and the
// ends of runs depend on later tokens.
template <typename T>
void ChunkedAttention<T>::RunHead(const HeadTensors<T>& head, Worker& worker) {
  const int64_t f = shape_.f, e = shape_.e, width = ExtendedWidth<T>(e);
  const int64_t chunk = ChunkOf(shape_);
  CausalTokens<T>& tokens = worker.tokens;
  tokens.Begin(head);
  T *const state = worker.state.data(), *const keys = worker.keys.data(),
           *const queries = worker.queries.data(),
           *const scores = worker.scores.data(),
           *const sums = worker.sums.data(),
           *const values = worker.values.data();
  std::fill_n(state, f * width, T{0});
  Absorb(head, worker);
  for (int64_t first = 0; first < shape_.n_q; first += chunk) {
    const int64_t count = std::min(chunk, shape_.n_q - first);
    tokens.Load(first, count);
    const int64_t here = tokens.keys();
    ExtendValues(head.v + tokens.first_key() * e, here, e, values);
    for (int64_t start = 0, end = 0; start < count; start = end) {
      end = tokens.Scale(start, keys, queries);
      for (T* rows : {keys, queries}) {
        std::fill(rows, rows + start * f, T{0});
        std::fill(rows + end * f, rows + count * f, T{0});
      }
      if (tokens.factor()) Rescale(tokens.factor(), f, width, state);
      const auto q = RowsOf(queries, count, f);
      auto out = RowsOf(sums, count, width);
      Multiply(T{1}, q, RowsOf(state, f, width), out);
      if (here > 0) {
        const auto k = RowsOf(keys, here, f);
        const auto v = RowsOf(values, here, width);
        auto p = RowsOf(scores, count, here);
        Multiply(T{1}, q, k.transpose(), p);
        for (int64_t t = 0; t < std::min(count, here); ++t)
          std::fill(scores + t * here + t + 1, scores + (t + 1) * here, T{0});
        AddProduct(p, v, out);
        AddProduct(k.transpose(), v, RowsOf(state, f, width));
      }
      for (int64_t t = start; t < end; ++t)
        WriteRow(shape_.normaliser, sums + t * width, sums[t * width + e],
                 ScaleOfSums(static_cast<double>(tokens.top(t))), e,
                 head.out + (first + t) * e);
    }
  }
}

template <typename T>
double ChunkedAttention<T>::Flops() const {
  const double f = static_cast<double>(shape_.f),
               e = static_cast<double>(shape_.e);
  const double chunk = static_cast<double>(ChunkOf(shape_));
  return static_cast<double>(shape_.heads) *
         (FeatureFlops(shape_) + AbsorbFlops(shape_) +
          static_cast<double>(shape_.n_q) * (4 * f * e + 2 * chunk * (f + e)));
}

// ---- prefix sums ----------------------------------------------------

template <typename T>
PrefixSumAttention<T>::PrefixSumAttention(const KernelizedShape& shape,
                                          Layout& layout)
    : shape_(shape),
      keys_(std::min(shape.seen.first() + shape.n_q, shape.n_k)),
      tokens_(shape, kChunk, layout),
      sums_(layout, keys_ * shape.f * shape.e),
      totals_(layout, keys_ * shape.f),
      queries_(layout, shape.n_q * shape.f),
      tops_(layout, shape.n_q),
      k_rows_(layout, kChunk * shape.f) {}

template <typename T>
void PrefixSumAttention<T>::Run(ThreadPool& pool,
                                const std::vector<HeadTensors<T>>& heads) {
  for (const HeadTensors<T>& head : heads) RunHead(pool, head);
}

// Adds the loaded chunk with `count` tokens; writes its queries' features to
// queries_ from row `query` on.
template <typename T>
void PrefixSumAttention<T>::AddChunk(const HeadTensors<T>& head, int64_t count,
                                     int64_t query) {
  const int64_t f = shape_.f, e = shape_.e;
  T* keys = k_rows_.data();
  for (int64_t start = 0, end = 0; start < count; start = end) {
    end = tokens_.Scale(start, keys, queries_.data() + query * f);
    for (int64_t t = start; t < std::min(end, tokens_.keys()); ++t) {
      const int64_t j = tokens_.first_key() + t;
      const T* key = keys + t * f;
      const T* value = head.v + j * e;
      const T* before = sums_.data() + (j - 1) * f * e;
      T* sums = sums_.data() + j * f * e;
      T* totals = totals_.data() + j * f;
      const T* factor = t == start ? tokens_.factor() : nullptr;
      for (int64_t a = 0; a < f; ++a) {
        const T old = j == 0 ? T{0} : (factor ? factor[a] : T{1});
        const T k = key[a];
        if (j == 0) {
          totals[a] = k;
          for (int64_t c = 0; c < e; ++c) sums[a * e + c] = k * value[c];
          continue;
        }
        totals[a] = old * totals[a - f] + k;
        for (int64_t c = 0; c < e; ++c)
          sums[a * e + c] = old * before[a * e + c] + k * value[c];
      }
    }
  }
}

template <typename T>
void PrefixSumAttention<T>::RunHead(ThreadPool& pool,
                                    const HeadTensors<T>& head) {
  const int64_t f = shape_.f, e = shape_.e;
  tokens_.Begin(head);
  const int64_t before = KeysBefore(shape_, head);
  for (int64_t first = 0; first < before; first += kChunk) {
    const int64_t count = std::min(kChunk, before - first);
    tokens_.LoadKeys(first, count);
    AddChunk(head, count, 0);
  }
  for (int64_t first = 0; first < shape_.n_q; first += kChunk) {
    const int64_t count = std::min(kChunk, shape_.n_q - first);
    tokens_.Load(first, count);
    AddChunk(head, count, first);
    for (int64_t t = 0; t < count; ++t) tops_[first + t] = tokens_.top(t);
  }
  constexpr int64_t kRows = 64;
  pool.For((shape_.n_q + kRows - 1) / kRows, [&](int64_t block, int) {
    const int64_t last = std::min((block + 1) * kRows, shape_.n_q);
    for (int64_t i = block * kRows; i < last; ++i) {
      const int64_t j = shape_.seen.By(head.index, i) - 1;
      if (j < 0) {
        std::fill_n(head.out + i * e, e, T{0});
        continue;
      }
      const T* query = queries_.data() + i * f;
      const T* sums = sums_.data() + j * f * e;
      const T* totals = totals_.data() + j * f;
      T* out = head.out + i * e;
      std::fill_n(out, e, T{0});
      T total = 0;
      for (int64_t a = 0; a < f; ++a) {
        total += query[a] * totals[a];
        for (int64_t c = 0; c < e; ++c) out[c] += query[a] * sums[a * e + c];
      }
      WriteRow(shape_.normaliser, out, total,
               ScaleOfSums(static_cast<double>(tops_[i])), e, out);
    }
  });
}

template <typename T>
double PrefixSumAttention<T>::Flops() const {
  return static_cast<double>(shape_.heads) *
         (FeatureFlops(shape_) +
          2 * static_cast<double>(shape_.f * (shape_.e + 1)) *
              static_cast<double>(keys_ + shape_.n_q));
}

template class CausalTokens<float>;
template class CausalTokens<double>;
template class RecurrentAttention<float>;
template class RecurrentAttention<double>;
template class ChunkedAttention<float>;
template class ChunkedAttention<double>;
template class PrefixSumAttention<float>;
template class PrefixSumAttention<double>;

}  // namespace subquad
