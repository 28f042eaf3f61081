// cuFFT's plans for real transforms of many padded columns, in place.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cuda/base/launch.h"
#include "cuda/base/memory.h"
#include "cuda/base/storage.h"

namespace subquad::device {

// The shortest even length >= n that cuFFT transforms fast: 2^a * odd with odd
// in {1, 3, 5, 7, 9, 15}.
int64_t GoodFftLength(int64_t n);

enum class Transform { kForward, kBackward };

// Transforms of real arrays of `lengths` (one or two extents, row-major), in
// place: a row of the last extent L takes 2 (L/2 + 1) numbers. Backward without
// the division by the number of points. `batch` arrays, one after another.
class FftPlan {
 public:
  // Makes no plan while the layout counts.
  FftPlan(const Layout& layout, const std::vector<int64_t>& lengths,
          int64_t batch, Transform kind);
  ~FftPlan();
  FftPlan(const FftPlan&) = delete;
  FftPlan& operator=(const FftPlan&) = delete;

  // Bytes of cuFFT's work area.
  int64_t area_bytes() const { return area_bytes_; }
  void SetArea(void* area);
  void Execute(float* data) const;

 private:
  std::optional<cufftHandle> plan_;
  Transform kind_;
  int64_t area_bytes_ = 0;
};

// One work area for plans that never run at the same time. Counted as
// workspace.
class FftArea {
 public:
  // `most_bytes`: an upper bound for a layout that counts, without plans.
  void Share(Layout& layout, const std::vector<FftPlan*>& plans,
             double most_bytes);

 private:
  DeviceBuffer<unsigned char> area_;
};

// Numbers in one padded row of length L.
constexpr int64_t FftStride(int64_t length) { return 2 * (length / 2 + 1); }

}  // namespace subquad::device
