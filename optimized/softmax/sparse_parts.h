// The parts that the implementations of sparse_attention share.
#pragma once

#include "reference/contract/implementation.h"
#include "reference/contract/sparse_attention.h"

namespace subquad {

struct SparseSizes {
  explicit SparseSizes(const Problem& problem)
      : n(problem.Dim("n")),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        apart(problem.HasInput("q_global") ? problem.Dim("g") : 0),
        heads(problem.heads),
        has_bias(problem.HasInput("bias")) {}
  // Counts the flops of this many pairs of a query and a key in each head.
  double Flops(double pairs) const {
    return 2 * static_cast<double>(heads) * pairs * static_cast<double>(d + e);
  }
  int64_t n, d, e;
  int64_t apart;  // global tokens in addition to the n positions
  int64_t heads;
  bool has_bias;
};

// Rows of queries, keys, values and output: those of the n positions, or of the
// additional global tokens.
template <typename T>
struct SparseRows {
  const T *q, *k, *v;
  T* out;
};

template <typename T>
struct SparseHead {
  SparseHead(const Arrays& arrays, const SparseSizes& sizes, int64_t h)
      : n(sizes.n),
        positions{arrays.In<T>("q").Head(h), arrays.In<T>("k").Head(h),
                  arrays.In<T>("v").Head(h), arrays.Out<T>("out").Head(h)} {
    if (sizes.apart > 0)
      apart = {arrays.In<T>("q_global").Head(h),
               arrays.In<T>("k_global").Head(h),
               arrays.In<T>("v_global").Head(h),
               arrays.Out<T>("out_global").Head(h)};
    if (sizes.has_bias) bias = arrays.In<T>("bias").Head(h) + sizes.n - 1;
  }

  int64_t n;
  SparseRows<T> positions, apart = {};
  const T* bias = nullptr;  // of offset 0
};

}  // namespace subquad
