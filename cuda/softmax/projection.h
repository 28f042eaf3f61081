// Sums over a long sequence with few rows as their result, as a part of
// operators on a device.
#pragma once

#include "cuda/base/memory.h"
#include "cuda/base/storage.h"
#include "reference/contract/implementation.h"

namespace subquad::device {

struct ProjectionShape {
  int64_t heads;
  int64_t p, n;   // p: rows of the result; n: rows that are summed
  int64_t width;  // columns of both
};

// Computes sums[h] = matrix[h] rows[h], matrix [p, n] and rows [n, width]
// row-major and contiguous.
//
// One product has too few elements to fill a device, so the n terms are split
// into parts; these are added in order, whatever the device is.
template <typename S>
class Projection {
 public:
  Projection(Layout& layout, const ProjectionShape& shape);

  // Returns the sums [heads, p, width], which are kept until the next run.
  HeadArray<const float> Run(HeadArray<const S> matrix,
                             HeadArray<const S> rows);

  double Flops() const {
    return 2 * static_cast<double>(shape_.heads * shape_.p) *
           static_cast<double>(shape_.n) * static_cast<double>(shape_.width);
  }

 private:
  const ProjectionShape shape_;
  DeviceBuffer<float>
      parts_;  // [parts, heads, p, width]; the result is in the first
};

}  // namespace subquad::device
