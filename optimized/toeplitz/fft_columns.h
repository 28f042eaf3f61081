// Toeplitz products of many columns by an FFT whose SIMD lanes are the columns.
//
//   out[i, c] = sum_j w(j - i) v[j, c],   v [n_k, e], out [n_q, e], row-major.
//
// The optimisation steps, from the textbook to this implementation:
//   1. Circulant embedding: pad to 2N >= n_q + n_k - 1, two real transforms of
//      2N points per column.
//   2. Right-angle convolution: one complex transform of N points modulo
//      X^N - i does the same. With U(X) = sum_s w(-s) X^(N+s), the product V U
//      modulo X^2N + 1 has real coefficients P_0 + X^N P_1; modulo X^N - i it
//      is P_0 + i P_1, and P_1[i] = out[i]. Real input, imaginary output, N
//      rows of workspace.
//   3. Columns in lanes: one row of the workspace is a block of columns, in
//      pairs of a vector of real parts and one of imaginary parts. There is no
//      shuffle, every twiddle is a broadcast scalar, and every load of `values`
//      is contiguous. A block is a cache line of columns, however many vectors
//      that takes: each line of `values` and `out` then passes through the
//      caches once (with AVX2 and 64 columns an eighth less time from n = 30000
//      on than with blocks of one vector).
//   4. Factor instead of twiddle: forward, X^L - rho splits into R factors
//      X^m - rho_j, with twiddles that are constant over the node, so they stay
//      in registers and the root i of step 2 is free. Backward, decimation in
//      time. Both go through one tree in the same digit-reversed order, so
//      nothing is ever permuted.
//   5. Butterflies of fused multiply-adds only: six per radix-2 step.
//   6. Depth first: a node is transformed, multiplied and transformed back
//      while it sits in cache; the innermost radix, the product with the
//      spectrum and the first radix back never leave the registers. The
//      outermost radix reads `values` and writes `out` itself.
//
// Tried without success (no gain or up to 30 % slower where memory is the
// limit): two radices per sweep over memory through a tile in the second-level
// cache; several vectors of columns through the outermost radix together;
// non-temporal stores; prefetching the legs of the workspace.
//
// Sources: D. Bernstein, "Multidigit multiplication for mathematicians" (X^N -
// i); E. Linzer and E. Feig 1993 (fused butterflies).
//
// Error, u the unit roundoff, N the length: every element of a column is within
// 16 u log2(N) ||w||_2 ||v||_2 of the exact one (derived in
// fft_columns_butterflies-inl.h). For white data the 2-norm of a column's error
// is about u sqrt(log2 N) ||w||_2 ||v||_2, sqrt(n) times better than that.

#pragma once

#include <cstdint>
#include <vector>

#include "reference/contract/layout.h"

namespace subquad {

// Rows that a caller computes on the fly. `fill` writes rows [row, row + count)
// of one block as [count][BlockWidth(columns)], every element of them; rows are
// requested in no particular order, each exactly once. `rows` is aligned to a
// vector.
template <typename T>
struct RowSource {
  void (*fill)(void* context, int64_t row, int64_t count, T* rows);
  void* context;
};

// Passes rows of a result to the caller, laid out as in RowSource, each exactly
// once, in no particular order.
template <typename T>
struct RowSink {
  void (*take)(void* context, int64_t row, int64_t count, const T* rows);
  void* context;
};

namespace fft_columns {

template <typename T>
inline constexpr int64_t kBlockColumns = 64 / static_cast<int64_t>(sizeof(T));

// One radix of the transform: `blocks` nodes of radix * rows rows each.
template <typename T>
struct Level {
  int radix;
  int64_t rows;
  int64_t blocks;
  int constants;            // scalars per set of twiddles
  std::vector<T> forward;   // [blocks][constants]: constant over a node
  std::vector<T> backward;  // [rows][constants]: the same for every node
};

// The tables that depend on the length alone; shared by all columns, heads and
// threads.
template <typename T>
struct Plan {
  int64_t length;  // N, rows of the workspace
  std::vector<Level<T>> levels;
  std::vector<T> twist;  // [N / radix][radix][2]: exp(-i pi n / 2N), the way
                         // back from X^N - i
};

}  // namespace fft_columns

// All methods are const and hold no state: one object can be used by any number
// of threads, each with its own scratch. `scratch` is ScratchSize() elements,
// aligned to 64 bytes; its previous content does not matter.
template <typename T>
class ToeplitzColumns {
 public:
  // Accepts any n_q, n_k >= 1. Costs O(N) time, independent of weights and
  // values.
  ToeplitzColumns(int64_t n_q, int64_t n_k);
  ToeplitzColumns(Layout& layout, int64_t n_q, int64_t n_k)
      : ToeplitzColumns(n_q, n_k) {
    layout.Add(PlanBytes());
  }

  int64_t Length() const { return plan_.length; }
  static int64_t LengthFor(int64_t n_q, int64_t n_k);
  // The most columns of one call: those of a cache line.
  static constexpr int64_t kBlockColumns = fft_columns::kBlockColumns<T>;
  // Returns the elements in a row of a block: its columns in one, two or four
  // vectors.
  static int64_t BlockWidth(int64_t columns);
  int64_t SpectrumSize() const { return 2 * plan_.length; }
  // Sizes of scratch for blocks of at most so many columns: N rows of two
  // widths, and a tile; for gradients twice the rows.
  int64_t ScratchSize(int64_t columns = kBlockColumns) const;
  int64_t GradientScratchSize(int64_t columns = kBlockColumns) const;
  double PlanBytes() const;  // tables held by this object
  // Returns the floating-point operations of Apply to so many columns, block by
  // block, by the usual count, 5 N log2 N for a complex transform of N points.
  double Flops(int64_t columns) const;

  // Transforms weights [n_q + n_k - 1] to the spectrum [SpectrumSize()]. The
  // first `visible` weights (at least n_q) are used, the others count as zero.
  void Spectrum(const T* weights, int64_t visible, T* spectrum,
                T* scratch) const;

  // Multiplies one block: columns [0, columns) of values and out, 1 <= columns
  // <= kBlockColumns. Strides are in elements. out may not overlap values. With
  // `accumulate`, the result is added to out. Only the first `keys` values are
  // read; the others count as zero.
  void Apply(const T* spectrum, const T* values, int64_t value_stride,
             int64_t keys, int64_t columns, T* out, int64_t out_stride,
             bool accumulate, T* scratch) const;
  void Apply(const T* spectrum, const RowSource<T>& values, int64_t keys,
             int64_t columns, const RowSink<T>& out, T* scratch) const;

  // Computes the transposed product, the gradient in values: out[j] = sum_i w(j
  // - i) grad[i]; grad [n_q, columns], out [keys, columns], keys <= n_k.
  void ApplyTransposed(const T* spectrum, const T* grad, int64_t grad_stride,
                       int64_t columns, T* out, int64_t out_stride,
                       int64_t keys, bool accumulate, T* scratch) const;
  void ApplyTransposed(const T* spectrum, const RowSource<T>& grad,
                       int64_t columns, const RowSink<T>& out, int64_t keys,
                       T* scratch) const;

  // Computes the gradient in weights, grad_weights(delta) = sum_{j - i = delta}
  // <grad[i], values[j]>, in two steps: add the spectra of every block to `sum`
  // [SpectrumSize()], zeroed by the caller, then transform back once. scratch:
  // GradientScratchSize() for both.
  void AccumulateWeightGradient(const T* grad, int64_t grad_stride,
                                const T* values, int64_t value_stride,
                                int64_t keys, int64_t columns, T* sum,
                                T* scratch) const;
  void AccumulateWeightGradient(const RowSource<T>& grad,
                                const RowSource<T>& values, int64_t keys,
                                int64_t columns, T* sum, T* scratch) const;
  // Writes grad_weights [n_q + n_k - 1]; hidden weights get zero.
  void WeightGradient(const T* sum, int64_t visible, T* grad_weights,
                      T* scratch) const;

 private:
  int64_t n_q_;
  int64_t n_k_;
  fft_columns::Plan<T> plan_;
};

extern template class ToeplitzColumns<float>;
extern template class ToeplitzColumns<double>;

}  // namespace subquad
