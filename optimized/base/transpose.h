// Transposed copies of small blocks through vector registers: element by
// element, they take as long as the products that use them.
#pragma once

#include <cstdint>

namespace subquad {

// Computes to[c, r] = scale from[r, c] for r < rows, c < columns.
template <typename T>
void CopyTransposed(const T* from, int64_t from_stride, int64_t rows,
                    int64_t columns, T scale, T* to, int64_t to_stride);

extern template void CopyTransposed(const float*, int64_t, int64_t, int64_t,
                                    float, float*, int64_t);
extern template void CopyTransposed(const double*, int64_t, int64_t, int64_t,
                                    double, double*, int64_t);

}  // namespace subquad
