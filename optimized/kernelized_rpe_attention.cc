// kernelized_rpe_attention:
//   out_i = phi(q_i)^T sum_j c(j-i) phi(k_j) v_j^T
//           / phi(q_i)^T sum_j c(j-i) phi(k_j)     (NPRF eq. 10-13)
//
//   dense           ((phi(Q) phi(K)^T) o C) V by GEMM, everything in memory:
//                   O(n^2 (f+e)). The baseline that speed-ups are quoted
//                   against.
//   tiled           the same sums in tiles of 12 queries by 64 keys, two
//                   vectors of keys at a time in registers, the bias applied in
//                   the tile: O(n^2 (f+e)) time, O(n (f+e)) memory. Beats every
//                   FFT while n is small.
//   fft             algorithm 1 as printed: f (e+1) channels transformed at
//                   once. O(n f e log n) time, O(n f e) memory.
//   fft_streamed    the same sums, one block of SIMD lanes of channels at a
//                   time, computed on reading and summed on writing:
//                   O(n (f+e)) memory. A tenth of the time of fft at n = 16384
//                   and f = e = 64, and a fortieth of its memory.
//   fft_streamed64  fft_streamed with its transforms in float64, the remedy for
//                   normalisers that are small against the norms they come
//                   from. Cost: 1.7 times the time, the same memory. Bound:
//                   that of fft_streamed with 2^-53 for the roundoff of
//                   transforms. Gain: with a bias that falls by e in 50
//                   positions, n = 2048 and keys that drop by 1e-6 half-way,
//                   fft_streamed has 1000 times the error of the plain program,
//                   fft_streamed64 has less.
//   auto            tiled or fft_streamed, whichever should be faster.
//
// The quadratic algorithms are as accurate as the plain program. The FFTs are
// not always: see reference/contract/kernelized_rpe_attention.h. A query that
// they may have lost altogether is computed directly (kernelized/columns.h), so
// that every answer has some correct digits. The time therefore depends on the
// data: at worst, that of tiled is added.
#include "reference/contract/kernelized_rpe_attention.h"

#include "optimized/base/fftw_programs.h"
#include "optimized/base/prepare.h"
#include "optimized/kernelized/auto.h"
#include "optimized/kernelized/fft_streamed.h"
#include "optimized/kernelized/quadratic.h"
#include "reference/contract/sequence_problems.h"

namespace subquad {
namespace {

template <typename T>
using Streamed = StreamedFft<T, T>;
template <typename T>
using Streamed64 = StreamedFft<T, double>;

// The functions below take one sequence.
RowBound OneFftBound(const Problem& problem, const Inputs& inputs) {
  const KernelizedShape shape(problem);
  return KernelizedFftBound(problem, inputs, TransformFactor(shape), shape.n_k);
}

// Transforms in float64 divide their part of the errors by 2^29.
RowBound OneFft64Bound(const Problem& problem, const Inputs& inputs) {
  const KernelizedShape shape(problem);
  return KernelizedFftBound(problem, inputs, TransformFactor(shape) * 0x1p-29,
                            shape.n_k);
}

bool UsesTransforms(const Problem& problem) {
  const KernelizedShape shape(problem);
  return problem.scalar == Scalar::kFloat64
             ? KernelizedEstimate<double>(shape).UseTransforms()
             : KernelizedEstimate<float>(shape).UseTransforms();
}

// The plain program's bound holds where `auto` chooses the tiles.
RowBound OneAutoBound(const Problem& problem, const Inputs& inputs) {
  return UsesTransforms(problem) ? OneFftBound(problem, inputs) : RowBound();
}

RowBound FftBound(const Problem& problem, const Inputs& inputs) {
  return BoundBySequence(problem, inputs, OneFftBound);
}
RowBound Fft64Bound(const Problem& problem, const Inputs& inputs) {
  return BoundBySequence(problem, inputs, OneFft64Bound);
}
RowBound AutoBound(const Problem& problem, const Inputs& inputs) {
  return BoundBySequence(problem, inputs, OneAutoBound);
}

Sums AutoSums(const Problem& problem) {
  for (const SequenceProblem& one : SequenceProblemsOf(problem))
    if (UsesTransforms(one.problem)) return Sums::kMixed;
  return Sums::kDirect;
}

}  // namespace

std::vector<Implementation> KernelizedRpeAttentionImplementations() {
  return CpuTable(
      "kernelized_rpe_attention",
      {{.id = "dense",
        .what = "all weights in memory: two GEMMs and the bias between them",
        .sums = DirectSums,
        .prepare = PrepareKernelized<DenseKernelized>},
       {.id = "tiled",
        .what = "12 x 128 weights at a time, in registers",
        .memory = {"O(n (f + e))", "n"},
        .sums = DirectSums,
        .prepare = PrepareKernelized<TiledKernelized>},
       {.id = "fft",
        .what = "all f (e + 1) channels through FFTW at once",
        .source = "NPRF algorithm 1",
        .time = {"O(n f e log n)", "n log n"},
        .memory = {"O(n f e)", "n"},
        .sums = MixedSums,
        .refuses = FeaturesOfKeysRefuse(),
        .norm_bound = FftBound,
        .needs = "FFTW",
        .prepare = PrepareFftKernelized},
       {.id = "fft_streamed",
        .what = "a block of channels at a time, without keeping all channels "
                "in memory",
        .sums = MixedSums,
        .norm_bound = FftBound,
        .prepare = PrepareKernelized<Streamed>},
       {.id = "fft_streamed64",
        .scalars = {Scalar::kFloat32},
        .what = "fft_streamed with its transforms in float64",
        .source = "NPRF algorithm 1; for small normalisers",
        .time = {"O(n f e log n)", "n log n"},
        .memory = {"O(n (f + e))", "n"},
        .sums = MixedWideSums,
        .refuses = FeaturesOfKeysRefuse(),
        .norm_bound = Fft64Bound,
        .prepare = PrepareKernelized<Streamed64>},
       {.id = "auto",
        .what = "tiled or fft_streamed, by an estimate of their times",
        .source = "NPRF eq. 10 and algorithm 1",
        .time = {"O(min(n^2 (f + e), n f e log n))", "n log n"},
        .memory = {"O(n (f + e))", "n"},
        .sums = AutoSums,
        .refuses = FeaturesOfKeysRefuse(),
        .norm_bound = AutoBound,
        .prepare = PrepareKernelized<AutoKernelized>}});
}

}  // namespace subquad
