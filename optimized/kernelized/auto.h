// Kernelized attention by the algorithm that is estimated to be faster for the
// given sizes: direct pairs (tiled) or Toeplitz products (fft_streamed).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimized/kernelized/fft_streamed.h"
#include "optimized/kernelized/quadratic.h"

namespace subquad {

// Estimates times in units of one floating-point operation of `tiled`, by
// counting the operations of both. The cost of a transform's operation relative
// to the tile's is measured for each vector width (auto.cc), so the choice is
// right if the two differ by more than the variation between machines.
template <typename T>
struct KernelizedEstimate {
  explicit KernelizedEstimate(const KernelizedShape& shape);
  bool UseTransforms() const { return streamed < tiled; }
  double tiled, streamed;
};

template <typename T>
class AutoKernelized {
 public:
  AutoKernelized(const KernelizedShape& shape, Layout& layout);
  void Run(ThreadPool& pool, const std::vector<HeadTensors<T>>& heads);
  double Flops() const {
    return streamed_ ? streamed_->Flops() : tiled_->Flops();
  }

  // Describes the algorithm, the estimated ratio of times and the vector width,
  // and for sequences the length at which the other algorithm becomes faster.
  std::string Choice() const;

 private:
  const KernelizedShape shape_;
  std::unique_ptr<TiledKernelized<T>> tiled_;
  std::unique_ptr<StreamedFft<T, T>> streamed_;
};

extern template struct KernelizedEstimate<float>;
extern template struct KernelizedEstimate<double>;
extern template class AutoKernelized<float>;
extern template class AutoKernelized<double>;

}  // namespace subquad
