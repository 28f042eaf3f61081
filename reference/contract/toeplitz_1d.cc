#include "reference/contract/toeplitz_1d.h"

#include <vector>

#include "reference/contract/norms.h"

namespace subquad {

namespace {

// Bounds one product with `queries` rows, keys(head) keys and the first
// `visible` weights of each head.
template <typename Keys>
RowBound ProductBound(const Problem& problem, const Inputs& inputs,
                      double factor, int64_t queries, const Keys& keys,
                      int64_t visible) {
  const int64_t e = problem.Dim("e"), heads = problem.heads;
  const Slices vectors = problem.SlicesOf("weights");
  const auto of_head = [&](int64_t head) {
    return factor * Norm(inputs["weights"].Head(head), visible);
  };
  const Tensor& values = inputs["values"];
  if (!problem.backward) return ColumnBound(values, heads, keys, e, of_head);
  const Tensor& grad = inputs["grad"];
  const auto value_norms = ColumnNorms(values, heads, keys, e);
  const auto grad_norms = ColumnNorms(grad, heads, queries, e);
  // Sums over the columns that share each vector of weights.
  std::vector<double> sums(static_cast<size_t>(vectors.count()));
  for (int64_t c = 0; c < heads * e; ++c)
    sums[vectors.Of(c / e)] += grad_norms[c] * value_norms[c];
  return
      [=, slices = values.slices, weights = problem.OutputIndex("grad_weights"),
       grad_values = ColumnBound(grad, heads, queries, e, of_head)](
          const RowId& id, std::span<double> units) {
        if (id.output == weights) {
          std::ranges::fill(units, factor * sums[id.head]);
          return;
        }
        AddOverHeads(grad_values, slices, id, units);
      };
}

}  // namespace

RowBound Toeplitz1dBound(const Problem& problem, const Inputs& inputs,
                         double factor) {
  const Toeplitz1dSizes sizes(problem);
  return ProductBound(
      problem, inputs, factor, sizes.n_q,
      [&](int64_t head) { return sizes.seen.Of(head); }, sizes.seen.Offsets());
}

RowBound Toeplitz2dBound(const Problem& problem, const Inputs& inputs,
                         double factor) {
  const int64_t height = problem.Dim("height"), width = problem.Dim("width");
  return ProductBound(
      problem, inputs, factor, height * width,
      [=](int64_t) { return height * width; },
      (2 * height - 1) * (2 * width - 1));
}

}  // namespace subquad
