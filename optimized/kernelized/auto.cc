#include "optimized/kernelized/auto.h"

#include <cmath>

namespace subquad {
namespace {

// Returns the cost of one operation of the transforms, in operations of the
// tile, at the crossover of the two. Measured alternately at n = 512..8192
// (SSE4: to 4096), f = 16, 64, 256 and e = 64, on one machine with each target.
// It grows with n; with AVX-512 from 1.5 to 2.8 in float32 and from 1.3 to 2.5
// in float64, with SSE4 from 1.1 to 1.35 and from 1.2 to 1.6.
template <typename T>
constexpr double TransformCost() {
  constexpr bool kFloat = sizeof(T) == 4;
  if (kVectorBytes == 64) return kFloat ? 2.4 : 2.3;
  if (kVectorBytes == 32) return kFloat ? 2.0 : 1.85;
  return kFloat ? 1.27 : 1.43;
}

// Returns the same attention on a sequence of another length.
KernelizedShape WithLength(KernelizedShape shape, int64_t n) {
  shape.n_q = shape.n_k = n;
  return shape;
}

// Returns the length above which transforms are faster, to a few percent.
template <typename T>
int64_t Crossover(const KernelizedShape& shape) {
  int64_t n = 16;
  while (n < int64_t{1} << 20 &&
         !KernelizedEstimate<T>(WithLength(shape, n)).UseTransforms())
    n += n / 16;
  return n;
}

}  // namespace

template <typename T>
KernelizedEstimate<T>::KernelizedEstimate(const KernelizedShape& shape) {
  const double pairs = static_cast<double>(shape.heads) * shape.SeenPairs();
  tiled = pairs * 2 * static_cast<double>(shape.f + WholeVectors<T>(shape.e));
  Layout counting = Layout::Counting(1);
  streamed = TransformCost<T>() * StreamedFft<T, T>(shape, counting).Flops();
}

template <typename T>
AutoKernelized<T>::AutoKernelized(const KernelizedShape& shape, Layout& layout)
    : shape_(shape) {
  if (KernelizedEstimate<T>(shape).UseTransforms())
    streamed_ = std::make_unique<StreamedFft<T, T>>(shape, layout);
  else
    tiled_ = std::make_unique<TiledKernelized<T>>(shape, layout);
}

template <typename T>
void AutoKernelized<T>::Run(ThreadPool& pool,
                            const std::vector<HeadTensors<T>>& heads) {
  if (streamed_)
    streamed_->Run(pool, heads);
  else
    tiled_->Run(pool, heads);
}

template <typename T>
std::string AutoKernelized<T>::Choice() const {
  const KernelizedEstimate<T> estimate(shape_);
  const bool transforms = estimate.UseTransforms();
  const double ratio = transforms ? estimate.streamed / estimate.tiled
                                  : estimate.tiled / estimate.streamed;
  const std::string names[] = {"tiled", "fft_streamed"};
  std::string choice = names[transforms] + ", by estimate for vectors of " +
                       std::to_string(kVectorBytes) + " bytes " +
                       std::to_string(std::lround(100 * ratio)) +
                       " % of the time of " + names[!transforms];
  if (!shape_.is_image())
    choice += "; for f = " + std::to_string(shape_.f) +
              " and e = " + std::to_string(shape_.e) +
              " they cross near n = " + std::to_string(Crossover<T>(shape_));
  return choice;
}

template struct KernelizedEstimate<float>;
template struct KernelizedEstimate<double>;
template class AutoKernelized<float>;
template class AutoKernelized<double>;

}  // namespace subquad
