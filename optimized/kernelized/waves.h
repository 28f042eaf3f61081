// Weighted cosines and sines of many angles, side by side.
#pragma once

#include <cstdint>

namespace subquad {

// Computes waves[2 x] = weights[x] cos(angles[x]), waves[2 x + 1] = weights[x]
// sin(angles[x]) for x < count. Cosines and sines are within 3 ulp of the exact
// ones (highway's where |angles| <= 39000, and the standard library's beyond).
template <typename T>
void WriteWaves(const T* angles, const T* weights, int64_t count, T* waves);

extern template void WriteWaves(const float*, const float*, int64_t, float*);
extern template void WriteWaves(const double*, const double*, int64_t, double*);

}  // namespace subquad
