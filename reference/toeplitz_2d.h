// toeplitz_2d: a full 2-D relative bias on an image
//   out[(r,c)] = sum_{r',c'} w(r'-r, c'-c) v[(r',c')]
// (block Toeplitz with Toeplitz blocks, as in Swin and NPRF section 4.4.)
//
//   weights [2H-1, 2W-1]   by increasing row offset, then column offset
//   values  [H*W, e]       pixel (r, c) is row r*W + c
//   out     [H*W, e]
//
// Backward, given grad [H*W, e] = dL/dout (the adjoint of the same sum):
//   grad_values[j]         = sum_i w(j - i) grad[i]
//   grad_weights(dr, dc)   = sum over r'-r = dr, c'-c = dc of
//                            <grad[(r,c)], v[(r',c')]>
// each summed over the heads that share the tensor.
//
// Test inputs: a one-level embedding wraps the end of an image row
// into the next one; normal draws show it at every border.
//
// Bound: a sum of HW products in any order, gamma_HW sum |a||b|.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& Toeplitz2d();

}  // namespace subquad
