// The tables of the GPU implementations, one per operator, each at the end of
// the operator's file.
#pragma once

#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

std::vector<Implementation> Toeplitz1dCudaImplementations();
std::vector<Implementation> Toeplitz2dXyCudaImplementations();
std::vector<Implementation> Toeplitz2dCudaImplementations();
std::vector<Implementation> SoftmaxAttentionCudaImplementations();
std::vector<Implementation> LinearAttentionCudaImplementations();
std::vector<Implementation> FastRpbAttentionCudaImplementations();
std::vector<Implementation> KernelizedRpeAttentionCudaImplementations();
std::vector<Implementation> ClippedRpeProductCudaImplementations();
std::vector<Implementation> KernelizedClippedRpeAttentionCudaImplementations();
std::vector<Implementation> TransformerXlAttentionCudaImplementations();
std::vector<Implementation> PositionAttentionCudaImplementations();
std::vector<Implementation> RelativeLogitsAttentionCudaImplementations();
std::vector<Implementation> SparseAttentionCudaImplementations();
std::vector<Implementation> LinformerAttentionCudaImplementations();
std::vector<Implementation> MemoryCompressedAttentionCudaImplementations();
std::vector<Implementation> StochasticPositionAttentionCudaImplementations();

}  // namespace subquad
