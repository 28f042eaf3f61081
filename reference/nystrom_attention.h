// nystrom_attention: softmax attention through landmarks, the means of pieces
// of the sequence (NPRF's comparison; Nystroemformer, Xiong et al. 2021)
//
//   q, k [n, d], v [n, e], out [n, e]; n = segments times a whole number
//   q~, k~ [segments, d]  means of equal pieces, one after another
//   F = softmax(scale q k~^T)  A = softmax(scale q~ k~^T)
//   S = softmax(scale q~ k^T)
//   out = F Z (S v), Z about the inverse of A: from A^T / (|A|_1 |A|_inf),
//         `iterations` times  Z <- Z (13 I - A Z (15 I - A Z (7 I - A Z))) / 4
//   scale                 default 1/sqrt(d)
//
// |A|_1 is the largest sum of a column's magnitudes, |A|_inf of a row's.
//
// Test inputs: generated tokens of a segment have a direction in
// common, so that A is far from singular, and not symmetric; a landmark made of
// other tokens, a transposed Z and, until it has converged, an iteration more
// or less change all rows.
//
// Bound: rows of F, A and S v are softmax rows over reduced keys
// (reduced_keys.h), landmarks being sums in parts (Means). Z is what needs a
// derivation. All Z_k have the singular vectors of A^T; let s_i be the singular
// values of A, z_i those of Z_k and w_i = s_i z_i, in [0, 1]. To first order an
// error D of Z_k becomes, in these vectors, c_ij D_ij in Z_{k+1},
//   4 c_ij = 13 - 15 (w_i + w_j) + 7 (w_i^2 + w_i w_j + w_j^2)
//            - (w_i^3 + w_i^2 w_j + w_i w_j^2 + w_j^3),
// at most 13/4 and zero where w = 1: a step forgets the errors before it. An
// error M of A adds z_i z_j a_ij M_ij,
//   4 a_ij = -15 + 7 (w_i + w_j) - (w_i^2 + w_i w_j + w_j^2),
// and gives M_ji / (|A|_1 |A|_inf) in Z_0, besides a relative error of its
// scale. So in the Frobenius norm |dZ| is at most |dA| times the largest sum of
// both, plus for every step the largest product of later c_ij times its own
// roundings. A product X Y is off by (segments + 2) u |X||Y|, entry by entry,
// and each difference by its own size. The error of A Z enters 13 I - A Z (15 I
// - A Z (7 I - A Z)) with a factor of at most
//   15 - 7 (w_i + w_j) + w_i^2 + w_i w_j + w_j^2,
// 15; the others, multiplied by A Z, with one of at most 1. Z enlarges all of
// them by |Z|_2 / 4.
//
// Terms of second order count as one more rounding of their step: 3.75 |A|_2
// |dZ|^2 (half of the second derivative of 13 w - 15 w^2 + 7 w^3 - w^4 over 4
// is at most that), 21 |Z|_2 |dA| |dZ| and 2.5 |Z|_2^3 |dA|^2 (all their terms,
// whatever the signs). Where |A|_2 |dZ| reaches 0.2 the third order, at most a
// tenth of the second below it, counts too, and there is no bound.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& NystromAttention();

}  // namespace subquad
