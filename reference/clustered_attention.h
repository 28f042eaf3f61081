// clustered_attention: softmax attention in which a query sees the keys of its
// own cluster (Transformers II, learned sparsity; Reformer, Kitaev et al. 2020;
// Routing Transformer, Roy et al. 2021)
//
//   q, k [n, d], v [n, e], out [n, e]
//   key j is seen by query i where their clusters agree, or j = i
//   kind  lsh        the cluster of y is the place of the largest number of
//                    (y R, -y R), R = rotations [d, c]: 2 c clusters
//         centroids  of the largest y.centroids[x], centroids [c, d]
//                    The first of those that are equal.
//   causal           and j <= i
//   scale            default 1/sqrt(d)
//
// Test inputs: generated tokens are near the middle of a cluster, as
// many in each, for queries and keys separately; a key that is wrongly seen or
// missed moves a row by about 1/(keys seen). Hashes without their sign make
// half as many clusters.
//
// Bound: see softmax_rows.h, with the keys that are seen for n. Where the two
// largest numbers of a query or key are closer than their own rounding errors,
// d u sum |y||R| each (Higham 2002, eq. 3.5), nobody can say which cluster it
// is in. Then the row of that query, and the rows of all queries that may or
// may not see that key, have no bound and are not judged.
#pragma once

#include "reference/base/operator.h"

namespace subquad {

const Operator& ClusteredAttention();

}  // namespace subquad
