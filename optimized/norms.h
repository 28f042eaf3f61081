// Norms of tensors, for error bounds that hold norm-wise.
#pragma once

#include <cmath>
#include <cstdint>
#include <vector>

#include "reference/problem.h"

namespace subquad {

inline double Norm(const double* values, int64_t count, int64_t stride = 1) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += values[i * stride] * values[i * stride];
  return std::sqrt(sum);
}

// 2-norms of every column of every head of a tensor [heads, n, e].
inline std::vector<double> ColumnNorms(const Tensor& tensor, int64_t heads,
                                       int64_t n, int64_t e) {
  std::vector<double> norms;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t c = 0; c < e; ++c)
      norms.push_back(Norm(tensor.Head(h) + c, n, e));
  return norms;
}

}  // namespace subquad
