#include "algorithms/toeplitz_1d.h"

#include <vector>

#include "algorithms/norms.h"

namespace subquad {

RowBound Toeplitz1dBound(const Problem& problem, const Inputs& inputs,
                         double factor) {
  const Toeplitz1dSizes sizes(problem);
  const auto [n_q, n_k, e, heads, vectors, causal] = sizes;
  // The mask leaves offsets of at most 0: the first n_q weights.
  const int64_t visible = causal ? n_q : sizes.weights();
  const auto of_head = [&](int64_t head) {
    return factor * Norm(inputs["weights"].Head(head), visible);
  };
  const Tensor& values = inputs["values"];
  if (!problem.backward) return ColumnBound(values, heads, n_k, e, of_head);
  const Tensor& grad = inputs["grad"];
  const auto value_norms = ColumnNorms(values, heads, n_k, e);
  const auto grad_norms = ColumnNorms(grad, heads, n_q, e);
  std::vector<double> sums(vectors);  // over the columns of each vector
  for (int64_t c = 0; c < heads * e; ++c)
    sums[c / e % vectors] += grad_norms[c] * value_norms[c];
  return [=, grad_values = ColumnBound(grad, heads, n_q, e, of_head)](
             const RowId& id, std::span<double> units) {
    if (id.output == 0) return grad_values(id, units);
    units[0] = factor * sums[id.head % static_cast<int64_t>(sums.size())];
  };
}

}  // namespace subquad
