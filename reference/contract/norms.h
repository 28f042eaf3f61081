// Norms of tensors, for error bounds that hold norm-wise.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "reference/contract/implementation.h"

namespace subquad {

inline double Norm(const double* values, int64_t count, int64_t stride = 1) {
  double sum = 0;
  for (int64_t i = 0; i < count; ++i)
    sum += values[i * stride] * values[i * stride];
  return std::sqrt(sum);
}

// Returns the most additions that one of `count` values passes through if
// values are added up in parts of `part` values, and then the parts.
inline int64_t AdditionsInParts(int64_t count, int64_t part) {
  return count <= part ? count : part + (count + part - 1) / part;
}

// Returns the 2-norms of every column of every head of a tensor [heads, n, e],
// over its first rows(head) rows.
template <typename Rows>
std::vector<double> ColumnNorms(const Tensor& tensor, int64_t heads,
                                const Rows& rows, int64_t e) {
  std::vector<double> norms;
  for (int64_t h = 0; h < heads; ++h)
    for (int64_t c = 0; c < e; ++c)
      norms.push_back(Norm(tensor.Head(h) + c, rows(h), e));
  return norms;
}
inline std::vector<double> ColumnNorms(const Tensor& tensor, int64_t heads,
                                       int64_t n, int64_t e) {
  return ColumnNorms(
      tensor, heads, [n](int64_t) { return n; }, e);
}

// Returns the bound factor(head) |column|_2 for every element of an output
// column computed from values [heads, n, e]; `rows` is n or a function as
// above.
template <typename Rows, typename Factor>
RowBound ColumnBound(const Tensor& values, int64_t heads, const Rows& rows,
                     int64_t e, const Factor& factor) {
  std::vector<double> units = ColumnNorms(values, heads, rows, e);
  for (int64_t at = 0; at < heads * e; ++at) units[at] *= factor(at / e);
  return [units = std::move(units), e](const RowId& id, std::span<double> row) {
    std::copy_n(units.begin() + id.head * e, e, row.begin());
  };
}

// Sums the bounds of the heads that share a gradient's slice.
inline void AddOverHeads(const RowBound& of_head, const Slices& slices,
                         const RowId& id, std::span<double> units) {
  std::vector<double> head_units(units.size());
  std::ranges::fill(units, 0);
  for (int64_t head : slices.Readers(id.head)) {
    of_head({id.output, head, id.row}, head_units);
    for (size_t c = 0; c < units.size(); ++c) units[c] += head_units[c];
  }
}

}  // namespace subquad
