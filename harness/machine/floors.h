// The machine's measured floors, to refuse impossible numbers.
#pragma once

#include <string>

#include "cuda/device.h"
#include "reference/contract/implementation.h"

namespace subquad {

// Of one thread; zero: unknown, then nothing is refused on its account.
struct Floors {
  double flops_per_second_float32 = 0, flops_per_second_float64 = 0;
  double cached_bytes_per_second = 0;
};

// A time that no machine could reach means that the work was not done, or that
// the counts are wrong: why `seconds` for one run of this cost is impossible,
// in words; empty when it is not. Small problems stay in caches, so the
// bandwidth is that of a copy inside the first one.
std::string Impossible(const Cost& cost, int threads, Scalar scalar,
                       const Floors& floors, double seconds);

// The same of a run on a device, whose cache may keep some of what was written:
// by its peaks at its highest clocks, those of the tensor cores for types of
// two bytes.
std::string ImpossibleOnDevice(const Cost& cost, const DeviceInfo& device,
                               Scalar scalar, double seconds);

}  // namespace subquad
