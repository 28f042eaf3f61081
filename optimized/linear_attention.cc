// linear_attention:
//   out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j phi(k_j)
//   (FastRPB eq. 3; Transformers II eq. 18-20; LRPE section II)
//
//   dense        phi(Q) phi(K)^T in memory, masked, times V by GEMM:
//                O(n^2 (f+e)). The baseline that speed-ups are quoted against.
//   tiled        the same sums in tiles of 12 queries by 64 keys, without any
//                array of n^2 elements. In a window of w keys it visits only
//                the tiles that the window meets: O(n w (f+e)). The other
//                algorithms keep sums over all keys, from which none can be
//                taken away without cancellation.
//   associative  the other bracket first: phi(K)^T [V, 1] by GEMM, then
//                phi(Q) times that. O(n f e) time, O(f e) state; not causal.
//   prefix_sum   causal: every running sum in memory. O(n f e) time and memory:
//                LRPE's formulation, which is slower, kept to compare.
//   recurrent    causal: one state, three tokens at a time with a panel of the
//                state in registers. O(n f e) time, O(f e) state.
//   chunked      causal: chunks of 128 tokens, three GEMMs each.
//                O(n f (e + chunk)) time, O(f e + chunk^2) state.
//
// No algorithm overflows where the answer is finite: feature_rows.h keeps keys
// at a separate scale per feature and raises it when a key does not fit, which
// multiplies the state by powers of two, exactly.
#include "reference/contract/linear_attention.h"

#include "optimized/base/prepare.h"
#include "optimized/kernelized/linear.h"
#include "optimized/kernelized/quadratic.h"

namespace subquad {

std::vector<Implementation> LinearAttentionImplementations() {
  return CpuTable(
      "linear_attention",
      {{.id = "dense",
        .what = "features times features by GEMM, masked, times values by GEMM",
        .sums = DirectSums,
        .prepare = PrepareKernelized<DenseKernelized>},
       {.id = "tiled",
        .what = "12 x 128 weights at a time, in registers; those outside of a "
                "window not at all",
        .source = "FastRPB eq. 2",
        .time = {"O(n^2 (f + e)), or O(n w (f + e)) in a window of w keys",
                 "n^2"},
        .memory = {"O(n (f + e))", "n"},
        .sums = DirectSums,
        .prepare = PrepareKernelized<TiledKernelized>},
       {.id = "associative",
        .what = "key features times values by GEMM first (not causal)",
        .memory = {"O(f e)", "1"},
        .sums = DirectSums,
        .prepare = PrepareKernelized<AssociativeAttention>},
       {.id = "prefix_sum",
        .what = "all running sums of key features times values in memory",
        .source = "LRPE section II",
        .time = {"O(n f e)", "n"},
        .memory = {"O(n f e)", "n"},
        .sums = DirectSums,
        .refuses = SumsOfKeysRefuse(true),
        .why_not = OnlyCausal,
        .norm_bound = SignedFeatureBound,
        .prepare = PrepareKernelized<PrefixSumAttention>},
       {.id = "recurrent",
        .what = "one state, four tokens at a time in registers",
        .source = "Transformers II eq. 18-20; Katharopoulos 2020",
        .time = {"O(n f e)", "n"},
        .memory = {"O(f e)", "1"},
        .sums = DirectSums,
        .refuses = SumsOfKeysRefuse(true),
        .why_not = OnlyCausal,
        .norm_bound = SignedFeatureBound,
        .prepare = PrepareKernelized<RecurrentAttention>},
       {.id = "chunked",
        .what = "chunks of 128 tokens: pairs within a chunk, and the state, by "
                "GEMM",
        .memory = {"O(f e + chunk^2)", "1"},
        .sums = DirectSums,
        .prepare = PrepareKernelized<ChunkedAttention>}});
}

}  // namespace subquad
