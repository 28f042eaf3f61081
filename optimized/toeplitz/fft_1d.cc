// toeplitz_1d, fft: circulant embedding with FFTW, a group of contiguous
// columns at a time.
#include <algorithm>
#include <vector>

#include "optimized/base/fftw_programs.h"
#include "optimized/toeplitz/fft_product.h"
#include "reference/contract/toeplitz_1d.h"

namespace subquad {
namespace {

// Rows of a sequence. A causal product reads only some of the offsets.
struct Line : Toeplitz1dSizes {
  static constexpr int64_t kColumns = kColumnGroup;

  explicit Line(const Problem& problem)
      : Toeplitz1dSizes(problem), length(GoodFftLength(weights())) {}

  std::vector<int64_t> Lengths() const { return {length}; }
  int64_t Inputs(int64_t head) const { return seen.Of(head); }
  int64_t AllInputs() const { return n_k; }
  int64_t Outputs() const { return n_q; }
  static int64_t LineLength(int64_t rows) { return rows; }

  template <typename T>
  void Embed(const T* weights, int64_t, T* spectrum) const {
    EmbedOffsets(weights + n_q - 1, n_q, seen.Offsets() - n_q + 1, length,
                 spectrum);
  }

  template <typename T>
  void Take(const T* sums, int64_t, T* of_weights) const {
    for (int64_t m = 0; m < n_q; ++m) of_weights[n_q - 1 - m] = sums[m];
    const int64_t visible = seen.Offsets();
    for (int64_t t = n_q; t < visible; ++t)
      of_weights[t] = sums[length - (t - (n_q - 1))];
    std::fill(of_weights + visible, of_weights + weights(), T{0});
  }

  int64_t length;
};

template <typename T>
using Fft = FftProduct<T, Line>;

}  // namespace

std::unique_ptr<Prepared> PrepareFft1d(const Problem& problem,
                                       const Arrays& arrays, Layout& layout) {
  return PrepareFor<Fft>(problem, arrays, layout);
}

}  // namespace subquad
