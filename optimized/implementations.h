// The tables of the CPU implementations, one per operator. Each is at the end
// of the operator's file.
#pragma once

#include <vector>

#include "reference/contract/implementation.h"

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
std::vector<Implementation> RelativeLogitsAttentionImplementations();
std::vector<Implementation> TransformerXlAttentionImplementations();
std::vector<Implementation> PositionAttentionImplementations();
std::vector<Implementation> LinformerAttentionImplementations();
std::vector<Implementation> MemoryCompressedAttentionImplementations();
std::vector<Implementation> DynamicConvolutionImplementations();
std::vector<Implementation> SynthesizerAttentionImplementations();
std::vector<Implementation> GmlpMixingImplementations();
std::vector<Implementation> GraphAttentionImplementations();
std::vector<Implementation> ClusteredAttentionImplementations();
std::vector<Implementation> SinkhornAttentionImplementations();
std::vector<Implementation> NystromAttentionImplementations();

inline constexpr std::vector<Implementation> (*kTables[])() = {
    ClippedRpeProductImplementations,
    KernelizedClippedRpeAttentionImplementations,
    Toeplitz1dImplementations,
    Toeplitz2dXyImplementations,
    Toeplitz2dImplementations,
    FastRpbAttentionImplementations,
    KernelizedRpeAttentionImplementations,
    LinearAttentionImplementations,
    SoftmaxAttentionImplementations,
    SparseAttentionImplementations,
    StochasticPositionAttentionImplementations,
    RelativeLogitsAttentionImplementations,
    TransformerXlAttentionImplementations,
    PositionAttentionImplementations,
    LinformerAttentionImplementations,
    MemoryCompressedAttentionImplementations,
    DynamicConvolutionImplementations,
    SynthesizerAttentionImplementations,
    GmlpMixingImplementations,
    GraphAttentionImplementations,
    ClusteredAttentionImplementations,
    SinkhornAttentionImplementations,
    NystromAttentionImplementations,
};

}  // namespace subquad
