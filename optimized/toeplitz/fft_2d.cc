// toeplitz_2d, fft2: two-level circulant embedding with FFTW.
#include <vector>

#include "optimized/base/fftw_programs.h"
#include "optimized/toeplitz/fft_product.h"
#include "optimized/toeplitz/sizes_2d.h"

namespace subquad {
namespace {

// The pixels of an image, in rows that are padded by the transform.
struct Image : Toeplitz2dSizes {
  // Padded images are as large as four images, so only a few are in flight.
  static constexpr int64_t kColumns = 4;

  explicit Image(const Problem& problem) : Toeplitz2dSizes(problem) {}

  std::vector<int64_t> Lengths() const { return lengths(); }
  int64_t Inputs(int64_t) const { return pixels(); }
  int64_t AllInputs() const { return pixels(); }
  int64_t Outputs() const { return pixels(); }
  int64_t LineLength(int64_t) const { return width; }

  template <typename T>
  void Embed(const T* weights, int64_t row_stride, T* spectrum) const {
    EmbedImageOffsets(weights, height, width, row_stride, spectrum);
  }
  template <typename T>
  void Take(const T* sums, int64_t row_stride, T* of_weights) const {
    TakeImageOffsets(sums, height, width, row_stride, of_weights);
  }
};

template <typename T>
using Fft2 = FftProduct<T, Image>;

}  // namespace

std::unique_ptr<Prepared> PrepareFft2d(const Problem& problem,
                                       const Arrays& arrays, Layout& layout) {
  return PrepareFor<Fft2>(problem, arrays, layout);
}

}  // namespace subquad
