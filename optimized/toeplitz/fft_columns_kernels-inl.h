// The passes of fft_columns.h.
//
// A row of the workspace is `width` complex numbers in pairs of vectors, real
// parts and then imaginary parts: one pair or more. A node of radix R covers R
// legs of `rows` rows; both ways a pass is y_q = sum_j x_j omega^j zeta^(+-jq),
// zeta = exp(2 pi i / R), in place:
//   forward:  omega is one number per node (the R-th root of its rho);
//   backward: omega = exp(-2 pi i k / L) in row k, the same in every node.

#pragma once

#include <hwy/cache_control.h>
#include <hwy/highway.h>

#include <algorithm>
#include <cstring>

#include "optimized/toeplitz/fft_columns.h"
#include "optimized/toeplitz/fft_columns_butterflies-inl.h"

namespace subquad::fft_columns {

// Rows of one leg that go through a tile at a time: eight legs of 64-byte rows
// stay in the first-level cache together with the rows computed from them.
inline constexpr int64_t kTileRows = 16;

// Returns the elements in a row of a block of so many columns.
template <typename T>
int64_t WidthFor(int64_t columns) {
  int64_t width = Lanes<T>();
  while (width < columns) width *= 2;
  return width;
}

// Returns the width, known to the compiler if a block is a single vector.
template <typename T>
HWY_INLINE int64_t Known(int64_t width) {
  return kBlockColumns<T> == HWY_LANES(T) ? kBlockColumns<T> : width;
}

// Returns the distance between legs of the top radix. Contiguous legs whose
// size is a power of two would compete for the same few cache lines, so one row
// is left between them.
template <typename T>
int64_t TopLeg(const Plan<T>& plan, int64_t width) {
  return 2 * (plan.levels[0].rows + 1) * width;
}
template <typename T>
int64_t WorkspaceSize(const Plan<T>& plan, int64_t width) {
  return plan.levels[0].radix * TopLeg(plan, width);
}

// Reads and writes the legs of a butterfly.
template <typename T>
struct ReadRows {
  const T* base;
  int64_t stride;
  HWY_INLINE Complex<T> operator()(int leg) const {
    return LoadPair(base + leg * stride);
  }
};

template <typename T>
struct WriteRows {
  T* base;
  int64_t stride;
  HWY_INLINE void operator()(int leg, const Complex<T>& x) const {
    StorePair(x, base + leg * stride);
  }
};

template <typename T>
struct ReadReal {
  const T* base;
  int64_t stride;
  HWY_INLINE Complex<T> operator()(int leg) const {
    const Tag<T> d;
    return {hn::LoadU(d, base + leg * stride), hn::Zero(d)};
  }
};

// Computes Im(twist * x): the real column that the right-angle product
// contains.
template <typename T>
struct WriteTwisted {
  T* base;
  int64_t stride;
  const T* twist;
  HWY_INLINE void operator()(int leg, const Complex<T>& x) const {
    const Tag<T> d;
    const Complex<T> t = Constant(twist + 2 * leg);
    hn::StoreU(hn::MulAdd(t.re, x.im, hn::Mul(t.im, x.re)), d,
               base + leg * stride);
  }
};

template <int kRadix, typename T, class At>
HWY_NOINLINE void PassForward(T* data, int64_t rows, int64_t width,
                              const At& at) {
  const int64_t leg = rows * 2 * width;
  const typename Butterfly<T, kRadix>::Twiddles twiddles(at);
  for (T *pair = data, *end = data + leg; pair < end; pair += 2 * Lanes<T>()) {
    Butterfly<T, kRadix> x;
    x.Load(ReadRows<T>{pair, leg});
    x.template Run<1>(twiddles);
    x.Store(WriteRows<T>{pair, leg});
  }
}

template <int kRadix, typename T>
HWY_NOINLINE void PassBackward(T* data, int64_t rows, int64_t width,
                               const T* constants) {
  const int64_t leg = rows * 2 * width;
  for (T *row = data, *end = data + leg; row < end; row += 2 * width) {
    for (int64_t column = 0; column < Known<T>(width); column += Lanes<T>()) {
      T* const pair = row + 2 * column;
      Butterfly<T, kRadix> x;
      x.Load(ReadRows<T>{pair, leg});
      x.template Run<-1>(
          typename Butterfly<T, kRadix>::Twiddles(Broadcast<T>{constants}));
      x.Store(WriteRows<T>{pair, leg});
    }
    constants += Butterfly<T, kRadix>::kConstants;
  }
}

// Transforms real rows, `step` apart in legs `leg` apart, to `count` rows of
// every leg of the workspace. Rows of a matrix are further apart than the
// hardware prefetcher follows, so the rows needed a tile later are prefetched.
template <int kRadix, typename T>
HWY_NOINLINE void TopForward(const T* in, int64_t leg, int64_t step,
                             int64_t count, T* data, int64_t data_leg,
                             int64_t width, const T* constants) {
  const typename Butterfly<T, kRadix>::Twiddles twiddles(
      Broadcast<T>{constants});
  for (int64_t k = 0; k < count; ++k) {
    for (int j = 0; j < kRadix; ++j)
      hwy::Prefetch(in + j * leg + kTileRows * step);
    for (int64_t column = 0; column < Known<T>(width); column += Lanes<T>()) {
      Butterfly<T, kRadix> x;
      x.Load(ReadReal<T>{in + column, leg});
      x.RunReal(twiddles);
      x.Store(WriteRows<T>{data + 2 * column, data_leg});
    }
    in += step;
    data += 2 * width;
  }
}

template <int kRadix, typename T>
HWY_NOINLINE void TopBackward(const T* data, int64_t data_leg, int64_t width,
                              const T* constants, const T* twist, int64_t count,
                              T* out, int64_t leg, int64_t step) {
  for (int64_t k = 0; k < count; ++k) {
    for (int j = 0; j < kRadix; ++j)
      hwy::Prefetch(out + j * leg + kTileRows * step);
    for (int64_t column = 0; column < Known<T>(width); column += Lanes<T>()) {
      Butterfly<T, kRadix> x;
      x.Load(ReadRows<T>{data + 2 * column, data_leg});
      x.template Run<-1>(
          typename Butterfly<T, kRadix>::Twiddles(Broadcast<T>{constants}));
      x.Store(WriteTwisted<T>{out + column, leg, twist});
    }
    constants += Butterfly<T, kRadix>::kConstants;
    twist += 2 * kRadix;
    out += step;
    data += 2 * width;
  }
}

template <typename T>
struct MultiplyBySpectrum {
  const T* spectrum;
  HWY_INLINE void operator()(int leg, Complex<T>& x) const {
    x = Times(x, Constant(spectrum + 2 * leg));
  }
};

// Multiplies by -conj(spectrum): reversing the weights conjugates their
// transform, and X^2N = -1 gives the sign.
template <typename T>
struct MultiplyByTransposed {
  const T* spectrum;
  HWY_INLINE void operator()(int leg, Complex<T>& x) const {
    const Complex<T> w = Constant(spectrum + 2 * leg);
    x = {hn::NegMulSub(x.re, w.re, hn::Mul(x.im, w.im)),
         hn::NegMulAdd(x.im, w.re, hn::Mul(x.re, w.im))};
  }
};

template <class Function, typename T>
HWY_INLINE void EachLeg(const Function& f, Butterfly<T, 8>& x) {
  f(0, x.x0), f(1, x.x1), f(2, x.x2), f(3, x.x3);
  f(4, x.x4), f(5, x.x5), f(6, x.x6), f(7, x.x7);
}
template <class Function, typename T>
HWY_INLINE void EachLeg(const Function& f, Butterfly<T, 4>& x) {
  f(0, x.x0), f(1, x.x1), f(2, x.x2), f(3, x.x3);
}

// Computes the innermost radix forward, the product, and the innermost radix
// backward.
template <int kRadix, class Multiply, typename T>
HWY_NOINLINE void Leaves(T* data, int64_t count, int64_t width,
                         const T* constants, const T* spectrum) {
  const int64_t row = 2 * width;
  for (int64_t b = 0; b < count; ++b) {
    for (int64_t column = 0; column < Known<T>(width); column += Lanes<T>()) {
      T* const pair = data + 2 * column;
      Butterfly<T, kRadix> x;
      x.Load(ReadRows<T>{pair, row});
      x.template Run<1>(
          typename Butterfly<T, kRadix>::Twiddles(Broadcast<T>{constants}));
      x.Reorder();
      EachLeg(Multiply{spectrum}, x);
      x.template RunPlain<-1>();
      x.Store(WriteRows<T>{pair, row});
    }
    data += kRadix * row;
    constants += Butterfly<T, kRadix>::kConstants;
    spectrum += 2 * kRadix;
  }
}

template <int kRadix, typename T>
HWY_NOINLINE void LeavesBackward(T* data, int64_t width) {
  for (int64_t column = 0; column < Known<T>(width); column += Lanes<T>()) {
    T* const pair = data + 2 * column;
    Butterfly<T, kRadix> x;
    x.Load(ReadRows<T>{pair, 2 * width});
    x.template RunPlain<-1>();
    x.Store(WriteRows<T>{pair, 2 * width});
  }
}

template <typename T, class At>
HWY_INLINE void Forward(int radix, T* data, int64_t rows, int64_t width,
                        const At& at) {
  switch (radix) {
    case 8:
      return PassForward<8>(data, rows, width, at);
    case 5:
      return PassForward<5>(data, rows, width, at);
    case 4:
      return PassForward<4>(data, rows, width, at);
    default:
      return PassForward<3>(data, rows, width, at);
  }
}

template <typename T>
HWY_INLINE void Forward(const Level<T>& level, int64_t block, int64_t width,
                        T* data) {
  Forward(level.radix, data, level.rows, width,
          Broadcast<T>{level.forward.data() + block * level.constants});
}

template <typename T>
HWY_INLINE void Backward(const Level<T>& level, int64_t width, T* data) {
  const T* constants = level.backward.data();
  switch (level.radix) {
    case 8:
      return PassBackward<8>(data, level.rows, width, constants);
    case 5:
      return PassBackward<5>(data, level.rows, width, constants);
    case 4:
      return PassBackward<4>(data, level.rows, width, constants);
    default:
      return PassBackward<3>(data, level.rows, width, constants);
  }
}

// Processes the subtree at `level`, node `block`: forward, product, backward.
template <class Multiply, typename T>
void MultiplyNode(const Plan<T>& plan, size_t depth, int64_t block,
                  int64_t width, T* data, const T* spectrum) {
  const Level<T>& level = plan.levels[depth];
  if (depth + 1 == plan.levels.size()) {
    const T* constants = level.forward.data() + block * level.constants;
    const T* s = spectrum + 2 * block * level.radix;
    if (level.radix == 8)
      Leaves<8, Multiply>(data, 1, width, constants, s);
    else
      Leaves<4, Multiply>(data, 1, width, constants, s);
    return;
  }
  Forward(level, block, width, data);
  const int64_t first = block * level.radix;
  if (depth + 2 == plan.levels.size()) {
    const Level<T>& leaf = plan.levels[depth + 1];
    const T* constants = leaf.forward.data() + first * leaf.constants;
    const T* s = spectrum + 2 * first * leaf.radix;
    if (leaf.radix == 8)
      Leaves<8, Multiply>(data, level.radix, width, constants, s);
    else
      Leaves<4, Multiply>(data, level.radix, width, constants, s);
  } else {
    for (int j = 0; j < level.radix; ++j)
      MultiplyNode<Multiply>(plan, depth + 1, first + j, width,
                             data + 2 * j * level.rows * width, spectrum);
  }
  Backward(level, width, data);
}

template <typename T>
void ForwardNode(const Plan<T>& plan, size_t depth, int64_t block,
                 int64_t width, T* data) {
  const Level<T>& level = plan.levels[depth];
  Forward(level, block, width, data);
  if (depth + 1 == plan.levels.size()) return;
  for (int j = 0; j < level.radix; ++j)
    ForwardNode(plan, depth + 1, block * level.radix + j, width,
                data + 2 * j * level.rows * width);
}

template <typename T>
void BackwardNode(const Plan<T>& plan, size_t depth, int64_t width, T* data) {
  const Level<T>& level = plan.levels[depth];
  if (depth + 1 == plan.levels.size()) {
    if (level.radix == 8)
      LeavesBackward<8>(data, width);
    else
      LeavesBackward<4>(data, width);
    return;
  }
  for (int j = 0; j < level.radix; ++j)
    BackwardNode(plan, depth + 1, width, data + 2 * j * level.rows * width);
  Backward(level, width, data);
}

// The source and the destination of real rows: a caller's functions, or the
// columns of a row-major matrix. Whole vectors of a matrix need no tile in
// between.
template <typename T>
struct Source {
  RowSource<T> rows;
  const T* matrix;  // null: no short cut
  int64_t stride;
};
template <typename T>
struct Sink {
  RowSink<T> rows;
  T* matrix;
  int64_t stride;
};

// Computes the top radix from real rows. Rows from `rows_in` on are zero.
template <typename T>
void FillTop(const Plan<T>& plan, int64_t width, int64_t rows_in,
             const Source<T>& source, T* data, T* tile) {
  const Level<T>& top = plan.levels[0];
  const int64_t data_leg = TopLeg(plan, width);
  for (int64_t k = 0; k < top.rows; k += kTileRows) {
    const int64_t count = std::min(kTileRows, top.rows - k);
    const T* in = tile;
    int64_t leg = kTileRows * width;
    int64_t step = width;
    if (source.matrix && plan.length - top.rows + k + count <= rows_in) {
      in = source.matrix + k * source.stride;
      leg = top.rows * source.stride;
      step = source.stride;
    } else {
      for (int j = 0; j < top.radix; ++j) {
        const int64_t first = j * top.rows + k;
        const int64_t valid = std::clamp<int64_t>(rows_in - first, 0, count);
        T* rows = tile + j * leg;
        if (valid > 0)
          source.rows.fill(source.rows.context, first, valid, rows);
        std::fill(rows + valid * width, rows + count * width, T{0});
      }
    }
    T* out = data + 2 * k * width;
    const T* constants = top.forward.data();
    if (top.radix == 8)
      TopForward<8>(in, leg, step, count, out, data_leg, width, constants);
    else
      TopForward<4>(in, leg, step, count, out, data_leg, width, constants);
  }
}

template <typename T>
void TakeTop(const Plan<T>& plan, int64_t width, int64_t rows_out,
             const Sink<T>& sink, const T* data, T* tile) {
  const Level<T>& top = plan.levels[0];
  const int64_t data_leg = TopLeg(plan, width);
  for (int64_t k = 0; k < top.rows; k += kTileRows) {
    const int64_t count = std::min(kTileRows, top.rows - k);
    T* out = tile;
    int64_t leg = kTileRows * width;
    int64_t step = width;
    const bool direct =
        sink.matrix && plan.length - top.rows + k + count <= rows_out;
    if (direct) {
      out = sink.matrix + k * sink.stride;
      leg = top.rows * sink.stride;
      step = sink.stride;
    }
    const T* in = data + 2 * k * width;
    const T* constants = top.backward.data() + k * top.constants;
    const T* twist = plan.twist.data() + 2 * k * top.radix;
    if (top.radix == 8)
      TopBackward<8>(in, data_leg, width, constants, twist, count, out, leg,
                     step);
    else
      TopBackward<4>(in, data_leg, width, constants, twist, count, out, leg,
                     step);
    for (int j = 0; j < top.radix && !direct; ++j) {
      const int64_t first = j * top.rows + k;
      const int64_t valid = std::clamp<int64_t>(rows_out - first, 0, count);
      if (valid > 0)
        sink.rows.take(sink.rows.context, first, valid, tile + j * leg);
    }
  }
}

template <typename T>
void ProductOf(const Plan<T>& plan, const T* spectrum, bool transposed,
               int64_t width, int64_t rows_in, const Source<T>& source,
               int64_t rows_out, const Sink<T>& sink, T* scratch) {
  T* data = scratch;
  T* tile = scratch + WorkspaceSize(plan, width);
  const Level<T>& top = plan.levels[0];
  FillTop(plan, width, rows_in, source, data, tile);
  for (int j = 0; j < top.radix; ++j) {
    T* leg = data + j * TopLeg(plan, width);
    if (transposed)
      MultiplyNode<MultiplyByTransposed<T>>(plan, 1, j, width, leg, spectrum);
    else
      MultiplyNode<MultiplyBySpectrum<T>>(plan, 1, j, width, leg, spectrum);
  }
  TakeTop(plan, width, rows_out, sink, data, tile);
}

template <typename T>
void Product(const Plan<T>& plan, const T* spectrum, bool transposed,
             int64_t width, int64_t rows_in, const RowSource<T>& source,
             int64_t rows_out, const RowSink<T>& sink, T* scratch) {
  ProductOf<T>(plan, spectrum, transposed, width, rows_in, {source, nullptr, 0},
               rows_out, {sink, nullptr, 0}, scratch);
}

// Columns of a row-major matrix as a source and as a sink.
template <typename T>
struct Columns {
  const T* from;
  T* to;
  int64_t stride;
  int64_t columns;
  bool accumulate;
  int64_t width = WidthFor<T>(columns);  // of a row of the workspace
};

template <typename T>
void FillColumns(void* context, int64_t row, int64_t count, T* rows) {
  const auto& matrix = *static_cast<const Columns<T>*>(context);
  const T* from = matrix.from + row * matrix.stride;
  for (int64_t r = 0; r < count; ++r) {
    hwy::Prefetch(from + kTileRows * matrix.stride);
    for (int64_t c = 0; c < matrix.columns; ++c) rows[c] = from[c];
    for (int64_t c = matrix.columns; c < matrix.width; ++c) rows[c] = 0;
    from += matrix.stride;
    rows += matrix.width;
  }
}

template <typename T>
void TakeColumns(void* context, int64_t row, int64_t count, const T* rows) {
  const auto& matrix = *static_cast<const Columns<T>*>(context);
  T* to = matrix.to + row * matrix.stride;
  for (int64_t r = 0; r < count; ++r) {
    hwy::Prefetch(to + kTileRows * matrix.stride);
    for (int64_t c = 0; c < matrix.columns; ++c)
      to[c] = matrix.accumulate ? to[c] + rows[c] : rows[c];
    to += matrix.stride;
    rows += matrix.width;
  }
}

template <typename T>
void ProductColumns(const Plan<T>& plan, const T* spectrum, bool transposed,
                    int64_t rows_in, const T* values, int64_t value_stride,
                    int64_t columns, int64_t rows_out, T* out,
                    int64_t out_stride, bool accumulate, T* scratch) {
  Columns<T> from{values, nullptr, value_stride, columns, false};
  Columns<T> to{nullptr, out, out_stride, columns, accumulate};
  const bool whole = columns == from.width;
  ProductOf<T>(
      plan, spectrum, transposed, from.width, rows_in,
      {{FillColumns<T>, &from}, whole ? values : nullptr, value_stride},
      rows_out,
      {{TakeColumns<T>, &to}, whole && !accumulate ? out : nullptr, out_stride},
      scratch);
}

// Transforms one complex sequence [N][2] in place, in the first lane; the
// others idle.
template <typename T>
void TransformInOneLane(const Plan<T>& plan, bool backward, T* sequence,
                        T* scratch) {
  const Tag<T> d;
  const int64_t lanes = Lanes<T>();
  for (int64_t k = 0; k < plan.length; ++k)
    StorePair<T>({hn::Set(d, sequence[2 * k]), hn::Set(d, sequence[2 * k + 1])},
                 scratch + 2 * k * lanes);
  if (backward)
    BackwardNode(plan, 0, lanes, scratch);
  else
    ForwardNode(plan, 0, 0, lanes, scratch);
  for (int64_t k = 0; k < plan.length; ++k) {
    sequence[2 * k] = scratch[2 * k * lanes];
    sequence[2 * k + 1] = scratch[2 * k * lanes + lanes];
  }
}

// Transforms levels [depth, end) of one sequence whose row k holds elements k B
// and on. Forward twiddles do not depend on the place in the node, so this is
// the pass over columns with B times fewer rows.
template <typename T>
void ForwardAlong(const Plan<T>& plan, size_t depth, size_t end, int64_t block,
                  T* data) {
  if (depth == end) return;
  const Level<T>& level = plan.levels[depth];
  Forward(level.radix, data, level.rows / Lanes<T>(), Lanes<T>(),
          Broadcast<T>{level.forward.data() + block * level.constants});
  for (int j = 0; j < level.radix; ++j)
    ForwardAlong(plan, depth + 1, end, block * level.radix + j,
                 data + 2 * j * level.rows);
}

// Transforms levels from `depth` on with each lane a node of its own: lane l is
// node block + index l, `nodes` of them at the level where lanes began.
template <typename T>
void ForwardAcross(const Plan<T>& plan, size_t depth, int64_t block,
                   Index<T> lane_blocks, T* data) {
  if (depth == plan.levels.size()) return;
  const Level<T>& level = plan.levels[depth];
  const hn::RebindToSigned<Tag<T>> di;
  using I = hn::TFromD<decltype(di)>;
  Forward(level.radix, data, level.rows, Lanes<T>(),
          Gather<T>{level.forward.data() + block * level.constants,
                    hn::Mul(lane_blocks,
                            hn::Set(di, static_cast<I>(level.constants)))});
  const auto below =
      hn::Mul(lane_blocks, hn::Set(di, static_cast<I>(level.radix)));
  for (int j = 0; j < level.radix; ++j)
    ForwardAcross(plan, depth + 1, block * level.radix + j, below,
                  data + 2 * j * level.rows * Lanes<T>());
}

// Transforms one complex sequence [N][2] in place. Forward, the lanes hold
// neighbours as long as nodes consist of whole vectors, and after that
// different nodes.
template <typename T>
void Transform(const Plan<T>& plan, bool backward, T* sequence, T* scratch) {
  const hn::RebindToSigned<Tag<T>> di;
  using I = hn::TFromD<decltype(di)>;
  const int64_t lanes = Lanes<T>();
  size_t along = 0;
  while (along < plan.levels.size() && plan.levels[along].rows % lanes == 0)
    ++along;
  if (backward || along == 0)
    return TransformInOneLane(plan, backward, sequence, scratch);
  for (int64_t k = 0; k < plan.length; ++k) {
    T* row = scratch + k / lanes * 2 * lanes;
    row[k % lanes] = sequence[2 * k];
    row[lanes + k % lanes] = sequence[2 * k + 1];
  }
  ForwardAlong(plan, 0, along, 0, scratch);
  const int64_t nodes =
      plan.levels[along - 1].blocks * plan.levels[along - 1].radix;
  const int64_t length = plan.length / nodes;
  T* work = scratch + 2 * plan.length;
  for (int64_t first = 0; first < nodes; first += lanes) {
    const int64_t count = std::min(lanes, nodes - first);
    const auto lane =
        hn::Min(hn::Iota(di, 0), hn::Set(di, static_cast<I>(count - 1)));
    const auto offset = hn::Mul(lane, hn::Set(di, static_cast<I>(2 * length)));
    const T* from = scratch + 2 * first * length;
    const Tag<T> d;
    for (int64_t k = 0; k < length; ++k) {
      const T* re = from + k / lanes * 2 * lanes + k % lanes;
      StorePair<T>({hn::GatherIndex(d, re, offset),
                    hn::GatherIndex(d, re + lanes, offset)},
                   work + 2 * k * lanes);
    }
    ForwardAcross(plan, along, first, lane, work);
    for (int64_t l = 0; l < count; ++l) {
      T* to = sequence + 2 * (first + l) * length;
      for (int64_t k = 0; k < length; ++k) {
        to[2 * k] = work[2 * k * lanes + l];
        to[2 * k + 1] = work[2 * k * lanes + lanes + l];
      }
    }
  }
}

// Computes sum += sum over the lanes of conj(values) * grad, row by row.
template <typename T>
void AccumulateProductsOf(const Plan<T>& plan, int64_t width, int64_t n_q,
                          const Source<T>& grad, int64_t n_k,
                          const Source<T>& values, T* sum, T* scratch) {
  const Tag<T> d;
  const Level<T>& top = plan.levels[0];
  T* a = scratch;
  T* b = a + WorkspaceSize(plan, width);
  T* tile = b + WorkspaceSize(plan, width);
  FillTop(plan, width, n_k, values, a, tile);
  FillTop(plan, width, n_q, grad, b, tile);
  for (int j = 0; j < top.radix; ++j) {
    T* const values_leg = a + j * TopLeg(plan, width);
    T* const grad_leg = b + j * TopLeg(plan, width);
    ForwardNode(plan, 1, j, width, values_leg);
    ForwardNode(plan, 1, j, width, grad_leg);
    T* to = sum + 2 * j * top.rows;
    for (int64_t k = 0; k < top.rows; ++k) {
      auto re = hn::Zero(d), im = hn::Zero(d);
      for (int64_t column = 0; column < Known<T>(width); column += Lanes<T>()) {
        const Complex<T> v = LoadPair(values_leg + 2 * (k * width + column));
        const Complex<T> g = LoadPair(grad_leg + 2 * (k * width + column));
        re = hn::MulAdd(v.re, g.re, hn::MulAdd(v.im, g.im, re));
        im = hn::NegMulAdd(v.im, g.re, hn::MulAdd(v.re, g.im, im));
      }
      to[2 * k] += hn::GetLane(hn::SumOfLanes(d, re));
      to[2 * k + 1] += hn::GetLane(hn::SumOfLanes(d, im));
    }
  }
}

template <typename T>
void AccumulateProducts(const Plan<T>& plan, int64_t width, int64_t n_q,
                        const RowSource<T>& grad, int64_t n_k,
                        const RowSource<T>& values, T* sum, T* scratch) {
  AccumulateProductsOf<T>(plan, width, n_q, {grad, nullptr, 0}, n_k,
                          {values, nullptr, 0}, sum, scratch);
}

template <typename T>
void AccumulateProductsOfColumns(const Plan<T>& plan, int64_t n_q,
                                 const T* grad, int64_t grad_stride,
                                 int64_t n_k, const T* values,
                                 int64_t value_stride, int64_t columns, T* sum,
                                 T* scratch) {
  Columns<T> g{grad, nullptr, grad_stride, columns, false};
  Columns<T> v{values, nullptr, value_stride, columns, false};
  const bool whole = columns == v.width;
  AccumulateProductsOf<T>(
      plan, v.width, n_q,
      {{FillColumns<T>, &g}, whole ? grad : nullptr, grad_stride}, n_k,
      {{FillColumns<T>, &v}, whole ? values : nullptr, value_stride}, sum,
      scratch);
}

}  // namespace subquad::fft_columns
