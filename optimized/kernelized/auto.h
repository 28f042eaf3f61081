// Kernelized attention by whichever is estimated to be faster for the sizes at
// hand: the pairs themselves (tiled) or Toeplitz products (fft_streamed).
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "optimized/kernelized/fft_streamed.h"
#include "optimized/kernelized/quadratic.h"

namespace subquad {

// Times in units of one floating-point operation of `tiled`, by counting the
// operations of both. What an operation of the transforms costs beside one of
// the tile is measured for each width of vectors (auto.cc), so the choice is
// right where the two differ by more than that varies from machine to machine.
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

  // The algorithm, the estimated ratio of times and for which vectors, and for
  // sequences the length at which the other one takes over.
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
