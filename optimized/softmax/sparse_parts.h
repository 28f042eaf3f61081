// The parts that the implementations of sparse_attention share.
#pragma once

#include "reference/contract/implementation.h"
#include "reference/contract/sparse_attention.h"

namespace subquad {

struct SparseSizes {
  explicit SparseSizes(const Problem& problem)
      : n_q(problem.queries),
        n_k(problem.keys),
        d(problem.Dim("d")),
        e(problem.Dim("e")),
        apart(problem.HasInput("q_global") ? problem.Dim("g") : 0),
        heads(problem.heads),
        has_bias(problem.HasInput("bias")),
        has_block_mask(problem.HasInput("block_mask")) {}
  // Counts the flops of this many pairs of a query and a key in each head.
  double Flops(double pairs) const {
    return 2 * static_cast<double>(heads) * pairs * static_cast<double>(d + e);
  }
  int64_t n_q, n_k, d, e;
  int64_t apart;  // global tokens in addition to these
  int64_t heads;
  bool has_bias, has_block_mask;
};

// Rows of queries, keys, values and output: those at positions, or of the
// additional global tokens.
template <typename T>
struct SparseRows {
  const T *q, *k, *v;
  T* out;
};

template <typename T>
struct SparseHead {
  SparseHead(const Arrays& arrays, const SparseSizes& sizes, int64_t h)
      : n_q(sizes.n_q),
        n_k(sizes.n_k),
        positions{arrays.In<T>("q").Head(h), arrays.In<T>("k").Head(h),
                  arrays.In<T>("v").Head(h), arrays.Out<T>("out").Head(h)} {
    if (sizes.apart > 0)
      apart = {arrays.In<T>("q_global").Head(h),
               arrays.In<T>("k_global").Head(h),
               arrays.In<T>("v_global").Head(h),
               arrays.Out<T>("out_global").Head(h)};
    if (sizes.has_bias) bias = arrays.In<T>("bias").Head(h) + sizes.n_q - 1;
    if (sizes.has_block_mask) block_mask = arrays.In<T>("block_mask").Head(h);
  }

  int64_t n_q, n_k;
  SparseRows<T> positions, apart = {};
  const T* bias = nullptr;  // of the query and the key with the same index
  const T* block_mask = nullptr;
};

}  // namespace subquad
