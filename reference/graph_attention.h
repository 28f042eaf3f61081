// graph_attention: tokens are the nodes of a graph, and each attends to the
// tokens that it has an edge to, and to itself (Transformers II, "Attention and
// graphs", fig. 13b, c; Kipf and Welling 2017; Velickovic et al. 2018)
//
//   x [n, D], phi [D, e], u = x phi
//   edges [m, 2]  optional: a query and a key each, whole numbers from 0; every
//                 token has an edge to itself besides, and one that is given
//                 twice counts once. Left out: the complete graph
//   kind  convolution  out = D^-1/2 A D^-1/2 u: A has a one for each edge and D
//                      its row sums. An edge goes both ways: both are given
//         attention    out_i = softmax over the keys j of
//                      leaky(u_i.a_q + u_j.a_k), times u_j
//   a_q, a_k [e]  with attention; leaky(s) is s above zero, else slope s
//   slope         with attention, default 0.2
//   out [n, e]
//
// Test inputs: with generated edges a token has one or two neighbours,
// so that a neighbour that is missed or counted twice moves a row by its own
// size. Edges read as (key, query) change most rows of attention, but must not
// change a convolution.
//
// Bound: u_j is a sum of D products and off by E = D u sum |x||phi| (Higham
// 2002, eq. 3.5). convolution: a weight has 5 roundings (two square roots, two
// quotients, a product), and a sum has as many terms as edges. attention: both
// parts of a score are sums of e products, off by e u sum |u||a| plus their
// inputs' errors, sum E |a|; leaky enlarges errors only if its slope is above
// one. The rest is as in softmax_rows.h.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& GraphAttention();

}  // namespace subquad
