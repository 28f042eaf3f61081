// toeplitz_1d for implementations on any device: its sizes, and the bound for
// results computed from sums of products of whole columns.
#pragma once

#include "reference/contract/implementation.h"
#include "reference/contract/seen_keys.h"

namespace subquad {

struct Toeplitz1dSizes {
  explicit Toeplitz1dSizes(const Problem& problem)
      : n_q(problem.Dim("n_q")),
        n_k(problem.Dim("n_k")),
        e(problem.Dim("e")),
        heads(problem.heads),
        vectors(problem.SlicesOf("weights")),
        seen(problem) {}
  int64_t weights() const { return n_q + n_k - 1; }
  int64_t n_q, n_k, e, heads;
  Slices vectors;  // of weights
  SeenKeys seen;
};

// Norm-wise bound: the error of an element of the product is at most factor u
// |w|_2 |v|_2, with its head's weights and its column of the values. The
// gradient of the values has the same bound with its own columns; for the
// gradient of the weights, the errors of the columns it sums over add up.
// `factor` is for one product of a column.
RowBound Toeplitz1dBound(const Problem& problem, const Inputs& inputs,
                         double factor);

// The norm-wise bound of toeplitz_2d, which is the same on an image.
RowBound Toeplitz2dBound(const Problem& problem, const Inputs& inputs,
                         double factor);

}  // namespace subquad
