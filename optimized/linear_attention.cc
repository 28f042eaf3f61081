// linear_attention: out_i = phi(q_i)^T sum_j phi(k_j) v_j^T / phi(q_i)^T sum_j
// phi(k_j) (FastRPB eq. 3; blog eq. 18-20; LRPE section II)
//
//   dense        phi(Q) phi(K)^T in memory, masked, times V by GEMM: O(n^2
//   (f+e)).
//                The baseline that speed-ups are quoted against.
//   associative  the other bracket first: phi(K)^T [V, 1] by GEMM, then
//                phi(Q) times that. O(n f e) time, O(f e) state; not causal.
//   prefix_sum   causal: every running sum in memory. O(n f e) time and memory:
//                LRPE's formulation, which loses and stays for comparison.
//   recurrent    causal: one state, a few tokens at a time with a panel of the
//                state in registers. O(n f e) time, O(f e) state.
//   chunked      causal: chunks of 128 tokens, three GEMMs each.
//                O(n f (e + chunk)) time, O(f e + chunk^2) state.
//
// None overflows where the answer is finite: feature_rows.h keeps keys at a
// scale of their own per feature and raises it when a key does not fit, which
// multiplies the state by powers of two, exactly.
#include "algorithms/linear_attention.h"

#include "optimized/kernelized/linear.h"
#include "optimized/kernelized/quadratic.h"

namespace subquad {

std::vector<Implementation> LinearAttentionImplementations() {
  const std::vector<Scalar> both = {Scalar::kFloat32, Scalar::kFloat64};
  return {
      {.op = "linear_attention",
       .id = "dense",
       .scalars = both,
       .what = "features times features by GEMM, masked, times values by GEMM",
       .source = "FastRPB eq. 2",
       .time = "O(n^2 (f + e))",
       .memory = "O(n^2 + n f)",
       .time_class = "n^2",
       .memory_class = "n^2",
       .cost = KernelizedCost<DenseKernelized>,
       .prepare = PrepareKernelized<DenseKernelized>},
      {.op = "linear_attention",
       .id = "associative",
       .scalars = both,
       .what = "key features times values by GEMM first (not causal)",
       .source = "FastRPB eq. 3; Katharopoulos 2020",
       .time = "O(n f e)",
       .memory = "O(f e)",
       .time_class = "n",
       .memory_class = "1",
       .why_not = NotCausal,
       .cost = KernelizedCost<AssociativeAttention>,
       .norm_bound = SignedFeatureBound,
       .prepare = PrepareKernelized<AssociativeAttention>},
      {.op = "linear_attention",
       .id = "prefix_sum",
       .scalars = both,
       .what = "all running sums of key features times values in memory",
       .source = "LRPE section II",
       .time = "O(n f e)",
       .memory = "O(n f e)",
       .time_class = "n",
       .memory_class = "n",
       .why_not = OnlyCausal,
       .cost = KernelizedCost<PrefixSumAttention>,
       .norm_bound = SignedFeatureBound,
       .prepare = PrepareKernelized<PrefixSumAttention>},
      {.op = "linear_attention",
       .id = "recurrent",
       .scalars = both,
       .what = "one state, four tokens at a time in registers",
       .source = "blog eq. 18-20; Katharopoulos 2020",
       .time = "O(n f e)",
       .memory = "O(f e)",
       .time_class = "n",
       .memory_class = "1",
       .why_not = OnlyCausal,
       .cost = KernelizedCost<RecurrentAttention>,
       .norm_bound = SignedFeatureBound,
       .prepare = PrepareKernelized<RecurrentAttention>},
      {.op = "linear_attention",
       .id = "chunked",
       .scalars = both,
       .what =
           "chunks of 128 tokens: their own triangle and the state, by GEMM",
       .source = "blog eq. 18-20",
       .time = "O(n f (e + chunk))",
       .memory = "O(f e + chunk^2)",
       .time_class = "n",
       .memory_class = "1",
       .why_not = OnlyCausal,
       .cost = KernelizedCost<ChunkedAttention>,
       .norm_bound = SignedFeatureBound,
       .prepare = PrepareKernelized<ChunkedAttention>},
  };
}

}  // namespace subquad
