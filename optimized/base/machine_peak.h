// What this machine can do at most, measured: floors to hold algorithms
// against.
#pragma once

#include <cstdint>

namespace subquad {

// Multiply-adds on one thread, two flops each, with the best instructions that
// programs may choose on this processor.
double MeasureFlopsPerSecond(bool float64);

// Highway's name for these instructions, such as "AVX2".
const char* InstructionsOfPeak();

// Bytes read plus bytes written per second by a copy of `bytes` on one thread.
double MeasureCopyBandwidth(int64_t bytes);

}  // namespace subquad
