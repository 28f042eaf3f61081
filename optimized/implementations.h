// The tables of the CPU implementations, one per operator. Each stands at the
// end of the operator's file.
#pragma once

#include <vector>

#include "reference/implementation.h"

namespace subquad {

std::vector<Implementation> ClippedRpeProductImplementations();
std::vector<Implementation> KernelizedClippedRpeAttentionImplementations();
std::vector<Implementation> Toeplitz1dImplementations();
std::vector<Implementation> Toeplitz2dXyImplementations();
std::vector<Implementation> Toeplitz2dImplementations();
std::vector<Implementation> FastRpbAttentionImplementations();
std::vector<Implementation> KernelizedRpeAttentionImplementations();
std::vector<Implementation> LinearAttentionImplementations();
std::vector<Implementation> SoftmaxAttentionImplementations();
std::vector<Implementation> SparseAttentionImplementations();
std::vector<Implementation> StochasticPositionAttentionImplementations();
std::vector<Implementation> TransformerXlAttentionImplementations();
std::vector<Implementation> PositionAttentionImplementations();
std::vector<Implementation> LinformerAttentionImplementations();
std::vector<Implementation> MemoryCompressedAttentionImplementations();

// Makes the float32 or the float64 version of an algorithm:
// PrepareFor<Fft<float>, Fft<double>>.
template <typename PreparedFloat, typename PreparedDouble>
std::unique_ptr<Prepared> PrepareFor(const Problem& problem,
                                     const Arrays& arrays,
                                     const PrepareOptions& options) {
  if (problem.scalar == Scalar::kFloat64)
    return std::make_unique<PreparedDouble>(problem, arrays, options);
  return std::make_unique<PreparedFloat>(problem, arrays, options);
}

}  // namespace subquad
