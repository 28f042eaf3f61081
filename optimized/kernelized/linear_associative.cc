#include <cmath>

#include "optimized/kernelized/linear_parts.h"

namespace subquad {

template <typename T>
AssociativeAttention<T>::AssociativeAttention(const KernelizedShape& shape,
                                              Layout& layout)
    : shape_(shape),
      features_(shape.map),
      segments_(std::min(kSegments, (shape.n_k + kChunk - 1) / kChunk)),
      states_(layout, segments_ * Cut<T>::template Size<State>(shape)),
      work_(layout, Cut<T>::template Size<Work>(shape)) {}

template <typename T>
typename AssociativeAttention<T>::State AssociativeAttention<T>::StateOf(
    int64_t segment) const {
  return Cut<T>::template Make<State>(
      states_.data() + segment * Cut<T>::template Size<State>(shape_), shape_);
}

template <typename T>
void AssociativeAttention<T>::AddKeys(const HeadTensors<T>& head, int64_t first,
                                      int64_t last, const State& state,
                                      const Work& work) const {
  const int64_t f = shape_.f, width = ExtendedWidth<T>(shape_.e);
  T *const extended = work.rows, *const mantissa = work.mantissa,
           *const exponent = work.exponent, *const factor = work.factor;
  RunningKeyScale<T> scale(state.scale, state.live, f);
  scale.Clear();
  std::fill_n(state.sums, f * width, T{0});
  for (int64_t row = first; row < last; row += kChunk) {
    const int64_t count = std::min(kChunk, last - row);
    const T* keys = head.k + row * shape_.d;
    ExtendValues(head.v + row * shape_.e, count, shape_.e, extended);
    if (scale.Plain() &&
        features_.Plain(keys, count, head.omega, work.scratch, mantissa)) {
      head.HideKeys(row, count, f, mantissa);
      scale.SeePlain(mantissa, count, factor);
      AddProduct(RowsOf(mantissa, count, f).transpose(),
                 RowsOf(extended, count, width), RowsOf(state.sums, f, width));
      continue;
    }
    features_.Compute(keys, count, head.omega, work.scratch, mantissa,
                      exponent);
    head.HideKeys(row, count, f, mantissa, exponent);
    for (int64_t start = 0, t = 0; start < count; start = t) {
      for (t = start; t < count; ++t) {
        if (!scale.Fits(exponent + t * f)) {
          if (t > start) break;
          scale.Raise(exponent + t * f, factor);
          Rescale(factor, f, width, state.sums);
        }
        scale.See(exponent + t * f);
        scale.KeyValues(mantissa + t * f, exponent + t * f, mantissa + t * f);
      }
      AddProduct(RowsOf(mantissa + start * f, t - start, f).transpose(),
                 RowsOf(extended + start * width, t - start, width),
                 RowsOf(state.sums, f, width));
    }
  }
}

// Adds all segments to the first, at the scale of the largest keys if not all
// are plain.
template <typename T>
void AssociativeAttention<T>::Merge() const {
  const int64_t f = shape_.f, width = ExtendedWidth<T>(shape_.e);
  const State all = StateOf(0);
  bool plain = true;
  for (int64_t s = 0; s < segments_; ++s) {
    const State state = StateOf(s);
    plain &= RunningKeyScale<T>(state.scale, state.live, f).Plain();
  }
  for (int64_t a = 0; a < f; ++a) {
    T live = kNoExponent<T>;
    for (int64_t s = 0; s < segments_; ++s)
      live = std::max(live, StateOf(s).live[a]);
    const T scale = plain ? T{0} : live;
    T* to = all.sums + a * width;
    for (int64_t s = 0; s < segments_; ++s) {
      const State state = StateOf(s);
      const T factor = state.live[a] > kLeastExponent<T>
                           ? PowerOfTwo(state.scale[a] - scale)
                           : T{0};
      const T* from = state.sums + a * width;
      for (int64_t c = 0; c < width; ++c)
        to[c] = factor * from[c] + (s > 0 ? to[c] : T{0});
    }
    all.scale[a] = scale;
    all.live[a] = live;
  }
}

template <typename T>
void AssociativeAttention<T>::Run(ThreadPool& pool,
                                  const std::vector<HeadTensors<T>>& heads) {
  const int64_t f = shape_.f, e = shape_.e, width = ExtendedWidth<T>(e);
  for (const HeadTensors<T>& head : heads) {
    pool.For(segments_, [&](int64_t segment, int worker) {
      AddKeys(head, segment * head.keys / segments_,
              (segment + 1) * head.keys / segments_, StateOf(segment),
              Cut<T>::template Make<Work>(work_[worker], shape_));
    });
    Merge();
    const State state = StateOf(0);
    const RunningKeyScale<T> scale(state.scale, state.live, f);
    const bool plain = scale.Plain();
    pool.For((shape_.n_q + kChunk - 1) / kChunk, [&](int64_t chunk,
                                                     int worker) {
      const int64_t row = chunk * kChunk;
      const int64_t count = std::min(kChunk, shape_.n_q - row);
      const Work work = Cut<T>::template Make<Work>(work_[worker], shape_);
      T *const sums = work.rows, *const mantissa = work.mantissa,
               *const exponent = work.exponent;
      const T* rows = head.q + row * shape_.d;
      std::fill_n(work.tops, count, T{0});
      if (!plain ||
          !features_.Plain(rows, count, head.omega, work.scratch, mantissa)) {
        features_.Compute(rows, count, head.omega, work.scratch, mantissa,
                          exponent);
        for (int64_t t = 0; t < count; ++t)
          work.tops[t] = scale.QueryValues(mantissa + t * f, exponent + t * f,
                                           mantissa + t * f);
      }
      const auto queries = RowsOf(mantissa, count, f);
      const auto all = RowsOf(state.sums, f, width);
      auto out = RowsOf(sums, count, width);
      // Two sums of f / 2 terms round less than one of f.
      Multiply(T{1}, queries.leftCols(f / 2), all.topRows(f / 2), out);
      AddProduct(queries.rightCols(f - f / 2), all.bottomRows(f - f / 2), out);
      for (int64_t t = 0; t < count; ++t)
        WriteRow(shape_.normaliser, sums + t * width, sums[t * width + e],
                 ScaleOfSums(static_cast<double>(work.tops[t])), e,
                 head.out + (row + t) * e);
    });
  }
}

template <typename T>
double AssociativeAttention<T>::Flops() const {
  return static_cast<double>(shape_.heads) *
         (FeatureFlops(shape_) +
          2 * static_cast<double>(shape_.f * (shape_.e + 1)) *
              static_cast<double>(shape_.n_q + shape_.n_k));
}

template class AssociativeAttention<float>;
template class AssociativeAttention<double>;

}  // namespace subquad
