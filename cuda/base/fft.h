// Products of circulant matrices with many columns by cuFFT.
//
// A column of L real numbers is transformed as L / 2 complex ones, z_m = x_2m +
// i x_2m+1, which is its layout in memory: nothing is packed or padded. The
// transforms E and O of the elements at even and at odd places follow from Z,
// and a circulant product is, with t = exp(-4 pi i k / L),
//   E_y = E_w E_x + t O_w O_x,   O_y = E_w O_x + O_w E_x,   Z_y = E_y + i O_y:
// this needs one kernel between two transforms of half the length.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cuda/base/launch.h"
#include "cuda/base/memory.h"
#include "cuda/base/storage.h"

namespace subquad::device {

// Returns the shortest even length >= n that cuFFT transforms fast: 2^a * odd
// with odd in {1, 3, 5, 7, 9, 15}.
int64_t GoodFftLength(int64_t n);

enum class Transform { kForward, kBackward };

// Transforms real arrays of `lengths` (one or two extents, row-major, the last
// one even) in place, with adjacent elements as one complex number. The
// backward transform does not divide by the number of points. There are `batch`
// contiguous arrays.
class FftPlan {
 public:
  // Makes no plan if the layout only counts.
  FftPlan(const Layout& layout, const std::vector<int64_t>& lengths,
          int64_t batch);
  ~FftPlan();
  FftPlan(const FftPlan&) = delete;
  FftPlan& operator=(const FftPlan&) = delete;

  // Returns the bytes of cuFFT's work area.
  int64_t area_bytes() const { return area_bytes_; }
  void SetArea(void* area);
  void Execute(float* data, Transform direction) const;

 private:
  std::optional<cufftHandle> plan_;
  int64_t area_bytes_ = 0;
};

// One work area for plans that never run at the same time. It counts as
// workspace.
class FftArea {
 public:
  // `most_bytes` is an upper bound for a layout that counts without making
  // plans.
  void Share(Layout& layout, const std::vector<FftPlan*>& plans,
             double most_bytes);

 private:
  DeviceBuffer<unsigned char> area_;
};

// Selects the transformed vector that a column is multiplied by: column c of
// `count` by vector (first + c) / each, or all columns by the only vector.
struct ColumnsOfVectors {
  int64_t first, count, each;
  bool one_vector;
};

// Computes the step between the transforms: replaces columns by those of the
// circulants' products, scaled, but not yet transformed back.
void MultiplyTransforms(const std::vector<int64_t>& lengths,
                        const float* vectors, const ColumnsOfVectors& which,
                        float* columns);

}  // namespace subquad::device
