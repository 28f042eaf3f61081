// Lengths of the circulant embeddings of toeplitz/fft_circulant.h. The error
// bounds of other transforms are derived from them, too.
#pragma once

#include <cstdint>
#include <vector>

namespace subquad {

// Returns the smallest length >= n of the form 2^a 3^b 5^c with b, c <= 1 each,
// even if n > 1: FFTW's fast sizes.
int64_t GoodFftLength(int64_t n);

// Returns lengths for an image whose offsets wrap around in neither dimension.
std::vector<int64_t> ImageFftLengths(int64_t height, int64_t width);

// Returns log2 of the number of points, for error bounds.
double LogOfPoints(const std::vector<int64_t>& lengths);

}  // namespace subquad
