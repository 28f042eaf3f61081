#include "algorithms/toeplitz_1d.h"

#include <vector>

#include "algorithms/norms.h"

namespace subquad {

RowBound Toeplitz1dBound(const Problem& problem, const Inputs& inputs,
                         double factor) {
  const Toeplitz1dSizes sizes(problem);
  const auto& [n_q, n_k, e, heads, vectors, seen] = sizes;
  const int64_t visible = seen.Offsets();
  const auto of_head = [&](int64_t head) {
    return factor * Norm(inputs["weights"].Head(head), visible);
  };
  const Tensor& values = inputs["values"];
  const auto keys = [&](int64_t head) { return seen.Of(head); };
  if (!problem.backward) return ColumnBound(values, heads, keys, e, of_head);
  const Tensor& grad = inputs["grad"];
  const auto value_norms = ColumnNorms(values, heads, keys, e);
  const auto grad_norms = ColumnNorms(grad, heads, n_q, e);
  // Over the columns of each vector of weights.
  std::vector<double> sums(static_cast<size_t>(vectors.count()));
  for (int64_t c = 0; c < heads * e; ++c)
    sums[vectors.Of(c / e)] += grad_norms[c] * value_norms[c];
  return [=, slices = values.slices,
          grad_values = ColumnBound(grad, heads, n_q, e, of_head)](
             const RowId& id, std::span<double> units) {
    if (id.output == 1) {
      units[0] = factor * sums[id.head];
      return;
    }
    // The errors of the heads that share the values add up.
    std::vector<double> one(units.size());
    std::ranges::fill(units, 0);
    for (int64_t head : slices.Readers(id.head)) {
      grad_values({id.output, head, id.row}, one);
      for (size_t c = 0; c < units.size(); ++c) units[c] += one[c];
    }
  };
}

}  // namespace subquad
