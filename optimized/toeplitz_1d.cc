// toeplitz_1d: out[i] = sum_j w(j - i) v[j]   (FastRPB section 3.2.1)
//
//   dense   the matrix in memory times the values by GEMM: O(n^2 e) time,
//           O(n^2) memory. The baseline that speed-ups are quoted against.
//   fft     circulant embedding with FFTW, 16 contiguous columns at a time:
//           O(e n log n) time, O(n) memory per column in flight. The length is
//           a fast one instead of 2n-1, which costs up to 6.8 times as much.
//   fft_columns  our own FFT with the columns in the SIMD lanes
//           (fft_columns.h): the same complexity, 4 to 8 times faster than fft.
//           A few rows are multiplied directly (toeplitz/direct_product.h).
//   karatsuba  three products of half the size instead of four, down to 64
//           rows, in float64: O(e n^1.585) time.
//
// All but karatsuba have a backward pass; with transforms, the gradient of the
// weights is one sum over all columns of products of spectra, and one inverse
// transform. Each class is in optimized/toeplitz/ALGORITHM_1d.cc.
#include "reference/contract/toeplitz_1d.h"

#include <vector>

#include "optimized/base/fftw_programs.h"
#include "optimized/base/prepare.h"
#include "optimized/implementations.h"
#include "optimized/toeplitz/fft_columns.h"
#include "optimized/toeplitz/fft_lengths.h"
#include "optimized/toeplitz/programs_1d.h"

namespace subquad {
namespace {

// The error of an FFT is relative to the largest values that it mixes: by
// Cauchy-Schwarz an entry of the product of two spectra, transformed back, is
// at most |w|_2 |v|_2 times the relative error of the transforms.
RowBound BoundOfLength(const Problem& problem, const Inputs& inputs,
                       int64_t length) {
  return Toeplitz1dBound(problem, inputs, RoundingsOfTransforms({length}));
}

RowBound FftBound(const Problem& problem, const Inputs& inputs) {
  return BoundOfLength(problem, inputs,
                       GoodFftLength(Toeplitz1dSizes(problem).weights()));
}

// N complex points replace 2N real points of an embedding. N is at least 16, so
// that a few rows have the rounding errors of 16.
RowBound FftColumnsBound(const Problem& problem, const Inputs& inputs) {
  const Toeplitz1dSizes sizes(problem);
  return BoundOfLength(
      problem, inputs,
      2 * ToeplitzColumns<float>::LengthFor(sizes.n_q, sizes.n_k));
}

}  // namespace

std::vector<Implementation> Toeplitz1dImplementations() {
  return CpuTable(
      "toeplitz_1d",
      {{.id = "dense",
        .what = "materialised matrix times values by GEMM (Eigen)",
        .sums = DirectSums,
        .backward = true,
        .prepare = PrepareDense1d},
       {.id = "fft",
        .what = "circulant embedding, FFTW on 16 contiguous columns at a time",
        .sums = MixedSums,
        .backward = true,
        .norm_bound = FftBound,
        .needs = "FFTW",
        .prepare = PrepareFft1d},
       {.id = "fft_columns",
        .what = "right-angle convolution, our FFT with the columns in SIMD "
                "lanes; a direct product up to 32 rows",
        .source = "FastRPB proposition 3.1; Bernstein, multidigit "
                  "multiplication",
        .time = {"O(e n log n)", "n log n"},
        .memory = {"O(n) per block of columns", "n"},
        .sums = FftColumns1dSums,
        .backward = true,
        .norm_bound = FftColumnsBound,
        .prepare = PrepareFftColumns1d},
       {.id = "karatsuba",
        .scalars = {Scalar::kFloat32},
        .what = "Karatsuba's method on halves of the matrix, in float64",
        .source = "Karatsuba and Ofman 1962",
        .time = {"O(e n^1.585)", "n^1.585"},
        .memory = {"O(n) per 16 columns", "n"},
        .sums = MixedWideSums,
        .norm_bound = Karatsuba1dBound,
        .prepare = PrepareKaratsuba1d}});
}

}  // namespace subquad
