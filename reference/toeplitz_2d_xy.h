// toeplitz_2d_xy: a row bias and a column bias on an image
//   out[(r,c)] = sum_{r',c'} ( w_rows(r'-r) + w_cols(c'-c) ) v[(r',c')]
// (FastRPB section 3.2.2 and appendix B.3; there H = W and both weights equal.)
//
//   weights_rows [2H-1], weights_cols [2W-1]   by increasing offset
//   values [H*W, e]   pixel (r, c) is row r*W + c
//   out    [H*W, e]
//
// Backward, given grad [H*W, e] = dL/dout (the adjoint of the same sum):
//   grad_values[j]         = sum_i (w_rows(r'-r) + w_cols(c'-c)) grad[i]
//   grad_weights_rows(dr)  = sum over r'-r = dr of <sum_c grad[(r,c)],
//                            sum_c' v[(r',c')]>, and likewise of columns
// each summed over the heads that share the tensor.
//
// Test inputs: rows swapped with columns change the answer unless
// H = W and the weights are equal, so the default image is not square.
//
// Bound: HW products, each with a weight that is itself one rounded sum.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& Toeplitz2dXy();

}  // namespace subquad
