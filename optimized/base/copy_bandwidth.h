// The measured memory bandwidth, a lower bound for the time of algorithms.
#pragma once

#include <cstdint>

namespace subquad {

// Bytes read plus bytes written per second by a copy of `bytes` on one thread.
double MeasureCopyBandwidth(int64_t bytes);

}  // namespace subquad
