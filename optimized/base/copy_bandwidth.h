// A floor to hold algorithms against, measured.
#pragma once

#include <cstdint>

namespace subquad {

// Bytes read plus bytes written per second by a copy of `bytes` on one thread.
double MeasureCopyBandwidth(int64_t bytes);

}  // namespace subquad
