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

// Returns the factor of the norm-wise bound of a product by transforms of these
// lengths, in unit roundoffs. Each of the three transforms of L points has a
// relative error in the 2-norm of O(log2 L) u (Higham 2002, section 24.1). They
// are independent enough for their sum to stay under 2 log2(L) u;
// tests/toeplitz_1d_test.cc measures how far below. The product of the spectra
// and the division by L add up to 2 u, which counts where L is small: two
// points have four roundings one after the other.
double RoundingsOfTransforms(const std::vector<int64_t>& lengths);

}  // namespace subquad
