// Kernelized attention with a relative bias without any array of n^2 elements
// (NPRF eq. 10): tiles of 64 x 64 weights in registers.
#pragma once

#include "cuda/kernelized/row_mark.h"
#include "cuda/kernelized/shape.h"

namespace subquad::device {

// Computes out of all queries, from Features with KeyScaling::kRows; writes to
// `marks` [heads, n_q] which of them have lost digits (direct_rows.h). With
// `only_marked` only queries with a mark are computed and written, and tiles
// without one cost nothing.
template <typename S>
void RunTiledKernelized(const DeviceKernelizedShape& shape,
                        const Features& features, const BiasWeights& bias,
                        HeadArray<const S> values, HeadArray<S> out,
                        RowMark* marks, bool only_marked = false);

// Counts flops without the features. The weights are recomputed for every 64
// columns.
double TiledKernelizedFlops(const DeviceKernelizedShape& shape);

}  // namespace subquad::device
